"""Running one command as if it were this process: its streams, its signals, its exit code."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

from toposeat.errors import ApplicationError, MissingProgramError, ToposeatError
from toposeat.installed import native_path

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_KEPT_FILES = 64
_LEAST_FILES = 8
_MANY_FILES = 1 << 20
_LOOK_S = 0.25
_Handler = Callable[[int, FrameType | None], None]


def answer_of(
    command: Sequence[str | Path], timeout_s: float, environment: Mapping[str, str] | None = None
) -> str:
    """What a program writes to its standard output; "" where it cannot be asked, or fails.

    One that takes longer is killed with whatever it has started.
    """
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []  # signals that came before it was known whom to kill
    try:
        with (
            _Handling(STOPPING, lambda number, _: early.append(number), keep_ignored=True),
            suppress(OSError),
        ):
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        for number in early:
            signal.raise_signal(number)
        if process is None:
            return ""
        said, _ = process.communicate(timeout=timeout_s)
    except BaseException as error:
        if process is not None:
            with process:
                os.killpg(process.pid, signal.SIGKILL)  # Ctrl-C does not reach its session
        if isinstance(error, subprocess.TimeoutExpired):
            return ""
        raise
    return said.decode(errors="replace") if process.returncode == 0 else ""


def run_child(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdout: IO[bytes] | None = None,
    stdin: int | None = None,
    attach: Callable[[Callable[[int], None]], None] | None = None,
    heard: list[int] | None = None,
) -> int:
    """Start `argv`, wait for it, and return the exit code a shell would give it (128 + signal).

    Its standard output goes to `stdout`, else where this process's own does; likewise `stdin`.
    `attach` is told how to send it a signal while it runs, from any thread. `heard` gets the
    signals that came to this process.

    SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 go on to the child's process group while it runs.
    If this process is killed, or its thread that called ends, the child gets SIGTERM.
    """
    own_group = not _reads_terminal()
    if shutil.which(argv[0], path=environment.get("PATH")) is None:
        raise MissingProgramError(
            f"program {argv[0]!r} not found or not executable",
            hint="check the name, or load its module",
        )
    starter = [str(native_path("bin/toposeat-exec")), "--end-with", str(os.getpid())]
    if OpenFiles.of_children is not None:
        starter += ["--open-files", str(OpenFiles.of_children)]
    with _Forwarder(own_group, [] if heard is None else heard) as forwarder:
        try:
            child = subprocess.Popen(
                [*starter, "--", *argv],
                env=dict(environment),
                start_new_session=own_group,
                stdout=stdout,
                stdin=stdin,
            )
        except OSError as error:
            raise ToposeatError(
                f"cannot start {argv[0]!r}: {error.strerror or error}", hint="check permissions"
            ) from error
        forwarder.attach(child)
        if attach is not None:
            attach(forwarder.send)
        code = child.wait()
    return 128 - code if code < 0 else code


class ChildWatch(ABC):
    """Looks again and again as long as a child runs, which it may end; used as a context.

    Attributes:
        has_ended: the child was told to end.
    """

    def __init__(self) -> None:
        self._send: Callable[[int], None] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="toposeat-watch", daemon=True)
        self.has_ended = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def attach(self, send: Callable[[int], None]) -> None:
        """Take what sends the child a signal; see `run_child`."""
        self._send = send

    @abstractmethod
    def look(self) -> None:
        """Look once. Where a file or folder has gone meanwhile, it is looked again."""

    @property
    def may_end(self) -> bool:
        """Whether there is a child to end."""
        return self._send is not None

    def end(self, number: int) -> None:
        """Send the child a signal, once there is one."""
        if self._send is not None:
            self.has_ended = True
            self._send(number)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            with suppress(OSError):
                self.look()


class OpenFiles:
    """Lets this process, but not its children, open many files; used as a context.

    Args:
        wanted: how many more than those that are open.

    Attributes:
        left: how many of them it may have. Some are kept for everything else that it does.
        of_children: the limit that children have, None: as this process.
    """

    of_children: int | None = None

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._former: tuple[int, int] | None = None
        self.left = 0

    def __enter__(self) -> Self:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = len(os.listdir("/proc/self/fd")) + _KEPT_FILES  # noqa: PTH208
        most = hard if hard != resource.RLIM_INFINITY else _MANY_FILES
        if soft != resource.RLIM_INFINITY and soft < used + self._wanted and soft < most:
            self._former, OpenFiles.of_children = (soft, hard), soft
            soft = min(used + self._wanted, most)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.left = max(_LEAST_FILES, (soft if soft >= 0 else _MANY_FILES) - used)
        return self

    def __exit__(self, *_: object) -> None:
        if self._former is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._former)
            OpenFiles.of_children = None


class _Handling:
    """Handles signals for a while and puts the former handlers back.

    A signal that is ignored, as under nohup, can be left so. Outside of the main thread, where
    Python receives no signals, it does nothing.
    """

    def __init__(self, numbers: Sequence[int], handler: _Handler, *, keep_ignored: bool) -> None:
        self._wanted, self._handler, self._keep_ignored = numbers, handler, keep_ignored
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in self._wanted:
                if not self._keep_ignored or signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handler)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            # Python knows no handler that a preloaded library installed, and cannot put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


class StopSignals(_Handling):
    """While several children run one after the other, SIGINT, SIGTERM or SIGHUP ends them all.

    A child that runs gets the signal from `run_child` as ever, and whatever it makes of it, `check`
    raises afterwards; between two children, or while one runs that `run_child` did not start, the
    signal raises at once. One may be within another.
    """

    def __init__(self) -> None:
        super().__init__(STOPPING, self._raise, keep_ignored=True)
        self._received: int | None = None

    @property
    def received(self) -> bool:
        """Whether one came while a child ran."""
        return self._received is not None

    def receive(self, number: int) -> bool:
        """Keep a signal for `check`; whether it goes to the child that runs as well."""
        self._received = number
        return True

    def check(self) -> None:
        """Raise if a signal came while a child ran."""
        if self._received is not None:
            raise ApplicationError(
                f"stopped by {signal.Signals(self._received).name}",
                hint="the runs so far are dropped, nothing was written",
                exit_code=128 + self._received,
            )

    def _raise(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.receive(number)
        self.check()


def _reads_terminal() -> bool:
    """Whether the child must stay in this process group: another one may not read the terminal."""
    try:
        return sys.stdin is not None and os.isatty(sys.stdin.fileno())
    except (ValueError, OSError):
        return False


class _Forwarder(_Handling):
    """Passes signals on while a child runs, those that came before it was there included."""

    def __init__(self, own_group: bool, heard: list[int]) -> None:
        super().__init__(_FORWARDED, self._receive, keep_ignored=False)
        self._own_group, self._heard = own_group, heard
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def attach(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        for number in self._early:
            self.send(number)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._heard.append(number)
        outer = getattr(self._previous.get(number), "__self__", None)
        if isinstance(outer, StopSignals) and not outer.receive(number):
            return
        if self._child is None:
            self._early.append(number)
        else:
            self.send(number)

    def send(self, number: int) -> None:
        """Send the child a signal, unless it has ended."""
        assert self._child is not None  # only called once attached
        if self._child.returncode is not None:
            return
        try:
            if self._own_group:
                os.killpg(self._child.pid, number)
            elif number != signal.SIGINT:  # the terminal sends that to the whole group itself
                self._child.send_signal(number)
        except ProcessLookupError:
            pass
