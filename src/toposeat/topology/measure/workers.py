"""The processes that copy: one per GPU, started here or by the user's launcher, and commanded."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from toposeat.errors import ToposeatError, UnavailableError
from toposeat.installed import native_path
from toposeat.model.job_folder import job_folder
from toposeat.model.topology import canonical_pci

_START_LIMIT_S = 60.0
_ANSWER_LIMIT_S = 120.0
_HINT = "see what the GPU driver says: toposeat doctor"


class MeasureError(ToposeatError):
    """A worker failed, or did not answer."""


@dataclass(frozen=True)
class Copying:
    """How the processes copy.

    Args:
        chunk: bytes of a staged piece; 0 for devcopy's own choice.
        depth: pieces in flight, at most 64; 0 for devcopy's own choice.
        cache: number of buffers of other processes that stay open; with 0, each transfer opens and
            closes its buffer.
    """

    chunk: int = 0
    depth: int = 0
    cache: int = 64

    @property
    def words(self) -> str:
        """The three numbers as a worker reads them."""
        return f"{self.chunk} {self.depth} {self.cache}"


class Workers:
    """A context manager of the workers, which end when it exits.

    Args:
        launch: the user's launcher, e.g. `["mpirun", "-n", "8"]`; () starts one per visible GPU.
        devices: ordinals to take, () for all; only without a launcher.
        may_share: several processes may take the same GPU.
    """

    def __init__(
        self,
        launch: Sequence[str] = (),
        devices: Sequence[int] = (),
        copying: Copying | None = None,
        *,
        may_share: bool = False,
    ) -> None:
        self._launch = list(launch)
        self._chosen = list(devices)
        self._copying = copying or Copying()
        self._may_share = may_share
        self._opened = contextlib.ExitStack()
        self._folder = self._opened.enter_context(job_folder("measure"))
        self._program = str(native_path("bin/toposeat-measure-worker"))
        self._children: list[subprocess.Popen[bytes]] = []
        self._of_rank: dict[int, socket.socket] = {}
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.pci: list[str] = []  # bus id of each rank's device
        self.ordinals: list[int] = []  # and its number on this node
        self.linked: set[tuple[int, int]] = set()

    def __enter__(self) -> Workers:
        try:
            self._control.bind(str(self._folder / "control"))
            self._control.listen(256)
            if self._launch:
                self._start(self._launch, {})
                self._accept_launched()
            else:
                self._start_own()
            self._open_devices()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def count(self) -> int:
        """Number of workers, which is that of devices."""
        return len(self.pci)

    def close(self) -> None:
        """End all workers and remove what they used."""
        for each in self._of_rank.values():
            with contextlib.suppress(OSError):
                each.sendall(b"quit\n")
            each.close()
        self._control.close()
        for child in self._children:
            try:
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._opened.close()

    def ask(self, lines: Mapping[int, str]) -> dict[int, list[str]]:
        """Send one line to each of some ranks at once; returns the words of their answers."""
        for rank, line in lines.items():
            try:
                self._of_rank[rank].sendall(line.encode() + b"\n")
            except OSError as error:
                raise MeasureError(f"the worker of GPU {rank} ended", hint=_HINT) from error
        answers = self._receive(list(lines))
        for rank, words in answers.items():
            if words[:1] != ["ok"]:
                cause = " ".join(words[1:]) or "an answer without sense"
                word = lines[rank].split()[0]
                where = "" if word == "devices" else f"GPU {rank}, {word}: "
                raise MeasureError(f"{where}{cause}", hint=_HINT)
        return {rank: words[1:] for rank, words in answers.items()}

    def link(self, a: int, b: int) -> None:
        """Join two workers, once."""
        pair = (min(a, b), max(a, b))
        if pair not in self.linked:
            self.ask({pair[0]: f"listen {pair[1]}", pair[1]: f"connect {pair[0]}"})
            self.linked.add(pair)

    # ---- starting

    def _start(self, prefix: Sequence[str], more: Mapping[str, str]) -> None:
        command = [*prefix, self._program, str(self._folder)]
        try:
            child = subprocess.Popen(command, env={**os.environ, **more}, stdout=subprocess.DEVNULL)
        except OSError as error:
            raise UnavailableError(
                f"cannot start {command[0]}: {error.strerror}", hint="check the launcher"
            ) from error
        self._children.append(child)

    def _start_own(self) -> None:
        self._start((), {"TOPOSEAT_MEASURE_RANK": "0"})
        self._accept()
        visible = len(self.ask({0: "devices"})[0])
        if not self._chosen:
            self._chosen = list(range(visible))
        wrong = [i for i in self._chosen if i >= visible]
        if wrong:
            raise MeasureError(
                f"there is no GPU {wrong[0]}: {visible} are visible", hint="see toposeat discover"
            )
        for rank in range(1, len(self._chosen)):
            self._start((), {"TOPOSEAT_MEASURE_RANK": str(rank)})
        while len(self._of_rank) < len(self._chosen):
            self._accept()

    def _accept_launched(self) -> None:
        """Accept all workers that the launcher starts, until no more connect for a moment."""
        self._accept()
        quiet = time.monotonic() + 2.0
        while time.monotonic() < quiet:
            self._control.settimeout(0.1)
            try:
                self._greet(self._control.accept()[0])
                quiet = time.monotonic() + 2.0
            except TimeoutError:
                continue
        if sorted(self._of_rank) != list(range(len(self._of_rank))):
            raise MeasureError(
                f"the launcher started ranks {sorted(self._of_rank)}",
                hint="start one process per GPU on this node: mpirun -n N",
            )

    def _accept(self) -> None:
        self._control.settimeout(0.2)
        deadline = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < deadline:
            try:
                self._greet(self._control.accept()[0])
                return
            except TimeoutError:
                ended = [c.poll() for c in self._children if c.poll() is not None]
                if ended:
                    raise MeasureError(
                        f"a worker ended with code {ended[0]} before it said who it is", hint=_HINT
                    ) from None
        raise MeasureError("no worker came up in a minute", hint="check the launcher")

    def _greet(self, connection: socket.socket) -> None:
        connection.settimeout(10.0)
        words = _read_line(connection, time.monotonic() + 10.0).split()
        if len(words) != 3 or words[0] != "rank" or int(words[1]) in self._of_rank:
            raise MeasureError("two workers say that they are the same rank", hint=_HINT)
        self._of_rank[int(words[1])] = connection

    def _open_devices(self) -> None:
        ranks = sorted(self._of_rank)
        visible = {rank: self.ask({rank: "devices"})[rank] for rank in ranks}
        for rank in ranks:
            seen = visible[rank]
            # a launcher shows each rank its own GPU only, or all of them
            launched = 0 if len(seen) == 1 else rank
            ordinal = self._chosen[rank] if self._chosen else launched
            if ordinal >= len(seen):
                raise MeasureError(
                    f"rank {rank} sees {len(seen)} GPUs", hint="start one process per GPU"
                )
            answer = self.ask({rank: f"open {ordinal} {self._copying.words}"})[rank]
            self.pci.append(canonical_pci(answer[0]))
            self.ordinals.append(self._chosen[rank] if self._chosen else rank)
        if len(set(self.pci)) < len(self.pci) and not self._may_share:
            raise MeasureError("two processes have the same GPU", hint="start one process per GPU")

    def _receive(self, ranks: Sequence[int]) -> dict[int, list[str]]:
        deadline = time.monotonic() + _ANSWER_LIMIT_S
        answers: dict[int, list[str]] = {}
        with selectors.DefaultSelector() as selector:
            for rank in ranks:
                selector.register(self._of_rank[rank], selectors.EVENT_READ, rank)
            while len(answers) < len(ranks):
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    missing = sorted(set(ranks) - set(answers))
                    raise MeasureError(f"GPU {missing[0]} did not answer in time", hint=_HINT)
                for key, _ in ready:
                    connection = self._of_rank[key.data]
                    answers[key.data] = _read_line(connection, deadline).split()
                    selector.unregister(connection)
        return answers


def _read_line(connection: socket.socket, deadline: float) -> str:
    """Read a short line byte by byte; a worker sends one and waits."""
    line = bytearray()
    while not line.endswith(b"\n"):
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            piece = connection.recv(4096)
        except TimeoutError:
            raise MeasureError("a worker stopped in the middle of a line", hint=_HINT) from None
        except OSError:
            piece = b""
        if not piece:
            raise MeasureError("a worker ended", hint=_HINT)
        line += piece
    return line.decode("ascii", "replace")
