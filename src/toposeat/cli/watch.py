"""`profile --watch`: a line on a job's traffic every few seconds, for less than 1 % of a core.

The records are read where they lie; the costlier a look, the rarer the looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.cli.command import tell
from toposeat.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from toposeat.model.topology import Topology

_LEAST_S = 5.0  # between two looks
_SHARE = 0.008  # of a core for looks
_TELLING_S = 10.0  # of watching, before its cost means something


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
    """What is told of a job."""

    def __init__(self, source: str | None) -> None:
        """Read the machine, and import what looks need, before the job starts."""
        from toposeat import pipeline, report  # noqa: PLC0415

        self._machine, why_not = machine_to_watch(source)
        self._job = pipeline.JobWatch(self._machine, why_not)
        self._line = report.glance_line
        self._done = threading.Event()

    @contextmanager
    def on(self, folder: Path) -> Iterator[None]:
        """Look at the records in a folder as long as the block; say in the end what it took."""
        begin, spent_s = time.monotonic(), time.process_time()
        looks = threading.Thread(target=self._look_on, args=(folder,), daemon=True)
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

    def _look_on(self, folder: Path) -> None:
        pause = _LEAST_S
        while not self._done.wait(pause):
            begin = time.thread_time()
            glance = self._job.look(folder)
            if glance is not None:
                tell(self._line(glance, self._machine))
            pause = max(_LEAST_S, (time.thread_time() - begin) / _SHARE)
