"""`lend`: proxies of the OpenCL devices of a job's nodes, started by the user's own launcher.

The proxies are tasks of that job and end with it. Their first lines, which come through the
launcher's standard output, say where they listen and which devices they have.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO

from toposeat.errors import InputError, MissingProgramError, ToposeatError, UsageError
from toposeat.installed import node_path
from toposeat.launch.allocation import all_here, known_hosts
from toposeat.launch.child import StopSignals, run_child
from toposeat.launch.home_wire import own_addresses
from toposeat.launch.launchers.launcher import LauncherKind, LaunchLine
from toposeat.launch.lent_files import (
    KEY_VARIABLE,
    Told,
    choosing,
    lending,
    lent_devices,
    lent_folder,
    told_by,
    write_lent,
)
from toposeat.launch.line import check_ready, hand_on, identify_launcher, parse_launch_line
from toposeat.launch.moving import move_away
from toposeat.model.lent import LentDevice, Moved
from toposeat.model.shell_words import shell_line

_PROXY = "bin/toposeat-clproxy"
_KEY_BYTES = 32
_MAX_LINE = 1 << 20
_NOT_STARTED = (126, 127)
_SILENT_S = 30.0
_LOOK_S = 0.5
_AGAIN_S, _LONGEST_PAUSE_S = 1.0, 30.0  # between moves that are refused


def lend_line(
    argv: Sequence[str], environment: Mapping[str, str], *, network: str = "", remote: str = ""
) -> LaunchLine:
    """The line that starts a proxy in each task of `argv`; of none, one on this node.

    Args:
        argv: launcher and options, without a program.
        environment: of the job.
        network: an address of the network to listen at, or a host there; "" for that on the way to
            the job's nodes. Where all of them are this one, no port is opened.
        remote: see `node_path`.

    Raises:
        UsageError: the line cannot start proxies, or takes their output away.
    """
    proxy = node_path(_PROXY, remote)
    line = _parsed((*argv, proxy))
    if argv and (line.kind == LauncherKind.NONE or line.program != (proxy,) or line.tasks):
        own = line.program[: line.program.index(proxy)] if proxy in line.program else line.program
        raise UsageError(
            f"the line has a program of its own: {shell_line(own)}",
            hint="give the launcher alone, srun, mpirun or ssh: toposeat lend -- srun -N 2",
        )
    if line.interpreter:
        raise UsageError(
            f"{line.kind} starts programs of Python alone",
            hint="start the proxies by srun, mpirun or ssh",
        )
    redirected = next((option for option in line.options if option.name in line.table.output), None)
    if redirected is not None:
        raise UsageError(
            f"the option {shell_line(redirected.words)} takes the output of the proxies away, by"
            " which they say where they are",
            hint="leave it out",
        )
    words: tuple[str, ...] = (proxy,)
    if network or not all_here(line, environment):
        toward = (
            _address_of(network) if network else own_addresses(known_hosts(line, environment))[0]
        )
        words = (proxy, "--address", toward)
    if line.kind == LauncherKind.SSH:  # whose words a shell reads
        words = (shell_line(words),)
    return replace(line, program=words)


def _address_of(network: str) -> str:
    try:
        return str(socket.getaddrinfo(network, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        raise UsageError(
            f"--network {network} is no address, and no host that is known here",
            hint="name one of the network that the proxies are to serve: ip -br addr lists this"
            " host's own",
        ) from None


def _parsed(words: tuple[str, ...]) -> LaunchLine:
    def identify(program: str) -> str:
        return LauncherKind.SSH if Path(program).name == "ssh" else identify_launcher(program)

    return parse_launch_line(words, identify=identify)


def lend(
    argv: Sequence[str],
    *,
    network: str = "",
    remote: str = "",
    share: int = 1,
    show: Callable[[Sequence[LentDevice]], None],
    tell: Callable[..., None],
    tell_moved: Callable[[Moved], None],
    environment: Mapping[str, str] | None = None,
) -> int:
    """Lend devices until the launcher ends, or this process is stopped; signals are passed on.

    SIGTERM is passed on once nobody uses the devices; a second signal is at once.

    Args:
        argv: launcher and options; none for this node.
        network: see `lend_line`.
        remote: see `node_path`.
        share: jobs that may have a device at a time.
        show: is given the devices of each proxy once it is ready.
        tell: is given remarks.
        tell_moved: is given who moved away before SIGTERM ended the proxies.
        environment: of the launcher; this process's own by default.

    Returns:
        The launcher's exit code; 0 where it was stopped on request.

    Raises:
        ToposeatError: no proxy could lend anything.
    """
    variables = dict(os.environ if environment is None else environment)
    line = lend_line(argv, variables, network=network, remote=remote)
    check_ready(line, variables)
    root = lent_folder(variables)
    with ExitStack() as stack:
        folder = stack.enter_context(lending(root))
        with choosing(root):  # a borrower has one key for all that it borrows
            key = lent_devices(root)[1] or secrets.token_hex(_KEY_BYTES)
            hearing = _Hearing(
                folder, root, key, share, show=show, tell=tell, tell_moved=tell_moved
            )
        stdin: int | None = None
        if line.kind == LauncherKind.SSH:
            stdin, own = os.pipe()
            stack.callback(os.close, stdin)
            stack.callback(os.close, own)
            os.write(own, f"{key}\n".encode())
        else:
            line, added = hand_on(line, (KEY_VARIABLE,), variables)
            variables |= {**added, KEY_VARIABLE: key}
        signals = stack.enter_context(_Leaving(hearing, variables))
        code = hearing.during(
            lambda out: run_child(
                line.argv, variables, stdout=out, stdin=stdin, attach=signals.attach
            )
        )
    if hearing.lends:
        return 0 if signals.received else code  # launchers end a job that is stopped with any
    raise hearing.failure(line, code)


class _Leaving(StopSignals):
    """From SIGTERM on nobody new may borrow; who has borrowed moves away, or is waited for."""

    def __init__(self, hearing: _Hearing, environment: Mapping[str, str]) -> None:
        super().__init__()
        self._hearing, self._environment = hearing, environment
        self._is_over, self._is_attached = threading.Event(), threading.Event()
        self._send: Callable[[int], None] | None = None
        self._waiting = threading.Thread(target=self._wait, daemon=True)

    def attach(self, send: Callable[[int], None]) -> None:
        """Take what sends the launcher a signal; see `run_child`."""
        self._send = send
        self._is_attached.set()

    def receive(self, number: int) -> bool:
        """A second signal goes to the proxies at once."""
        is_first = not self.received
        super().receive(number)
        if number != signal.SIGTERM or not is_first:
            return True
        self._waiting.start()
        return False

    def _wait(self) -> None:
        try:
            self._hearing.leave(self._is_over, self._environment)
        finally:
            self._is_attached.wait()
            if self._send is not None and not self._is_over.is_set():
                self._send(signal.SIGTERM)

    def __exit__(self, *raised: object) -> None:
        self._is_over.set()
        self._is_attached.set()
        if self._waiting.is_alive():
            self._waiting.join()
        super().__exit__(*raised)


class _Hearing:
    """Hears what comes through the launcher's standard output, and keeps it for borrowers."""

    def __init__(
        self,
        folder: Path,
        root: Path,
        key: str,
        share: int,
        *,
        show: Callable[[Sequence[LentDevice]], None],
        tell: Callable[..., None],
        tell_moved: Callable[[Moved], None],
    ) -> None:
        self._folder, self._root, self._key, self._share = folder, root, key, share
        self._show, self._tell, self._tell_moved = show, tell, tell_moved
        self._started = time.time()
        self._proxies: list[Told] = []
        self._failed: list[Told] = []
        self._damaged: InputError | None = None
        self._is_leaving = False
        self._write()

    @property
    def lends(self) -> bool:
        """Whether there is or was a device to borrow."""
        return bool(self._proxies)

    def during(self, run: Callable[[IO[bytes]], int]) -> int:
        """What `run` returns, while all is heard that it writes into what it is given."""
        read, write = os.pipe()
        silence = threading.Timer(_SILENT_S, self._say_silence)
        silence.daemon = True
        with os.fdopen(read, "rb") as source, os.fdopen(write, "wb") as sink:
            hearing = threading.Thread(target=self._hear_all, args=(source,), daemon=True)
            hearing.start()
            silence.start()
            try:
                return run(sink)
            finally:
                silence.cancel()
                sink.close()
                hearing.join()

    def leave(self, is_over: threading.Event, environment: Mapping[str, str]) -> None:
        """Lend nothing more, move who can, and wait until nobody has any, or it is over.

        Who cannot move now may later, as when another device has become free: it is tried again.
        """
        with choosing(self._root):
            self._is_leaving = True
            self._write()
        own = [(told.host, told.unix) for told in self._proxies]
        said: set[str] = set()  # each refusal once
        pause, is_told = _AGAIN_S, False
        while self._users():
            try:
                for each in move_away(own, environment):
                    if each.processes or not said.issuperset(each.refused):
                        self._tell_moved(each)
                    said.update(each.refused)
            except ToposeatError as error:
                if str(error) not in said:
                    self._tell(f"note: nothing is moved: {error}")
                said.add(str(error))
            users = self._users()
            if users and not is_told:
                told = "; ".join(f"{user} ({', '.join(ids)})" for user, ids in users.items())
                self._tell(f"note: ends when these have ended: {told}; a second signal ends it now")
                is_told = True
            again = time.monotonic() + pause
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            while self._users() and time.monotonic() < again:
                if is_over.wait(_LOOK_S):
                    return

    def _users(self) -> dict[str, list[str]]:
        """Who has borrowed which of these devices."""
        own = {(told.host, told.unix) for told in self._proxies}
        users: dict[str, list[str]] = {}
        for device in lent_devices(self._root)[0]:
            if device.borrowed_by and (device.host, device.socket) in own:
                users.setdefault(device.borrowed_by, []).append(device.id)
        return users

    def _say_silence(self) -> None:
        if not self._proxies and not self._failed:
            self._tell(
                f"note: no proxy has spoken for {_SILENT_S:g} s: the job may be waiting for nodes"
            )

    def _hear_all(self, source: IO[bytes]) -> None:
        while line := source.readline(_MAX_LINE):
            try:
                told = told_by(line)
            except InputError as error:
                self._damaged = error
                continue
            if told is None:
                self._tell(line.decode("utf-8", "replace").rstrip("\n"))
            elif told.devices:
                self._take(told)
            else:
                self._failed.append(told)
                self._tell(f"{told.host}: {told.error or 'it has no device'}")

    def _take(self, told: Told) -> None:
        self._proxies.append(told)
        self._write()
        devices, _ = lent_devices(self._root)
        own = [each for each in devices if (each.host, each.socket) == (told.host, told.unix)]
        if own:
            self._show(own)
        elif not self._is_leaving:
            self._tell(f"{told.host}: its devices are lent by another proxy already")

    def _write(self) -> None:
        write_lent(
            self._folder,
            self._key,
            self._started,
            self._proxies,
            share=self._share,
            is_leaving=self._is_leaving,
        )

    def failure(self, line: LaunchLine, code: int) -> ToposeatError:
        """Why nothing was lent."""
        starter = line.launcher[0] if line.launcher else line.program[0]
        if self._damaged is not None:
            return self._damaged
        if self._failed:
            first = self._failed[0]
            return ToposeatError(
                f"nothing is lent: {first.host}: {first.error or 'it has no device'}",
                hint=first.hint or "install the OpenCL driver of its devices there",
            )
        proxy = line.programs[0][0].partition(" ")[0]  # ssh has it and its options in one word
        if code in _NOT_STARTED:
            return MissingProgramError(
                f"nothing is lent: {starter} did not find {proxy} on a node",
                hint="install toposeat under the same path on all nodes, or name its folder of"
                " native parts there: --remote PATH",
            )
        return ToposeatError(
            f"nothing is lent: {starter} ended with exit code {code} before a proxy spoke",
            hint="what it said itself is above; nodes that write into files of their own cannot be"
            " heard",
        )
