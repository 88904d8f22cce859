"""`profile --watch`: a job's traffic while it runs, for less than 1 % of a core.

On a terminal the view stays at the bottom and the job's whole lines go above it, through a
pseudo-terminal. Where stderr is no terminal, the job keeps its streams and a line is written every
few seconds. The records are read where they lie; the costlier a look, the rarer the looks.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from toposeat.cli.command import tell
from toposeat.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from rich.live import Live

    from toposeat.model.glance import Glance
    from toposeat.model.topology import Topology

_LEAST_S, _LINES_S = 1.0, 5.0  # between two looks; on a stream that is no terminal
_SHARE = 0.008  # of a core for looks and drawing
_TELLING_S = 10.0  # of watching, before its cost means something
_READ_BYTES = 1 << 16


def machine_to_watch(source: str | None) -> tuple[Topology | None, str]:
    """The node whose links are told, or why none is.

    Raises:
        UsageError: more than one host; or whatever a source that is given raises.
    """
    from toposeat import topology  # noqa: PLC0415

    try:
        machine = topology.read_topology(source or "this")
    except UnavailableError as error:
        if source not in (None, "this"):
            raise
        return None, f"not told: {error.message}; -t names a machine"
    if len(machine.hosts) > 1:
        raise UsageError(
            f"{machine.name} has {len(machine.hosts)} hosts, --watch shows the links of one",
            hint="name the topology of one node",
        )
    return machine, ""


class Watch:
    """What is shown of a job; `stdout` and `stderr` are what the job gets for it, None its own."""

    def __init__(self, source: str | None) -> None:
        """Read the machine, and import what looks need, before the job starts."""
        from toposeat import pipeline, report  # noqa: PLC0415

        self._machine, why_not = machine_to_watch(source)
        self._job = pipeline.JobWatch(self._machine, why_not)
        self._view, self._line = report.glance_view, report.glance_line
        self._done = threading.Event()
        self._above = _Above() if sys.stderr.isatty() else None
        self.stderr = None if self._above is None else self._above.stream
        self.stdout = self.stderr if sys.stdout.isatty() else None

    @contextmanager
    def on(self, folder: Path) -> Iterator[None]:
        """Look at the records in a folder as long as the block; say in the end what it took."""
        begin, spent_s = time.monotonic(), time.process_time()
        looks = threading.Thread(target=self._show, args=(folder,), daemon=True)
        looks.start()
        try:
            yield
        finally:
            self._done.set()
            looks.join()
            watched_s = time.monotonic() - begin
            if watched_s >= _TELLING_S:
                share = (time.process_time() - spent_s) / watched_s
                tell(f"Watched   {watched_s:.0f} s, for {share:.2%} of a core")

    def _show(self, folder: Path) -> None:
        if self._above is None:
            self._look_on(folder, _LINES_S, self._write_line)
            return
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415

        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            pump = threading.Thread(target=self._above.pump, args=(live, self._done), daemon=True)
            pump.start()
            try:
                self._look_on(folder, _LEAST_S, lambda glance: self._draw(live, glance))
            finally:
                pump.join()

    def _look_on(self, folder: Path, least_s: float, show: Callable[[Glance], None]) -> None:
        pause = least_s
        while not self._done.wait(pause):
            begin = time.thread_time()
            glance = self._job.look(folder)
            if glance is not None:
                show(glance)
            pause = max(least_s, (time.thread_time() - begin) / _SHARE)

    def _draw(self, live: Live, glance: Glance) -> None:
        view = self._view(glance, self._machine, lines=live.console.height)
        live.update(view, refresh=True)

    def _write_line(self, glance: Glance) -> None:
        tell(self._line(glance, self._machine))


class _Above:
    """A pseudo-terminal whose whole lines are printed above a live view."""

    def __init__(self) -> None:
        """As large as the terminal."""
        self._master, slave = pty.openpty()
        self.stream: IO[bytes] = os.fdopen(slave, "wb", buffering=0)
        size = fcntl.ioctl(sys.stderr.fileno(), termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(slave, termios.TIOCSWINSZ, size)

    def pump(self, live: Live, done: threading.Event) -> None:
        """Print until the job is done and all that it wrote is printed."""
        left = b""
        while True:
            ended = done.is_set()
            if select.select([self._master], [], [], 0 if ended else 0.1)[0]:
                whole, newline, left = (left + os.read(self._master, _READ_BYTES)).rpartition(b"\n")
                if newline:
                    self._print(live, whole)
            elif ended:
                break
        if left:
            self._print(live, left)
        self.stream.close()
        os.close(self._master)

    def _print(self, live: Live, lines: bytes) -> None:
        from rich.text import Text  # noqa: PLC0415

        for line in lines.decode(errors="replace").split("\n"):
            shown = line.rstrip("\r").rpartition("\r")[2]  # what overwrote the rest of the line
            live.console.print(Text.from_ansi(shown), soft_wrap=True)
