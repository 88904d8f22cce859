"""Where a job reports to: a listening socket for the time of one job.

The ranks of a job on several nodes connect back, as the remote parts of srun and mpirun do, so that
no folder needs to be shared: they receive their seats, say whether each of them can be seated,
learn whether all are to start, and send reports and records. `launcher/src/home.h` documents the
frames.

Who connects is not trusted before it has proved that it holds the job's key, and then with bounded
amounts only. The key travels in the environment of the ranks, where other users cannot read it.
"""

from __future__ import annotations

import os
import secrets
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from toposeat.launch.child import OpenFiles
from toposeat.launch.home_job import (
    MAX_NAME_BYTES,
    MAX_WORLD_BYTES,
    PATIENCE_S,
    Arriving,
    Decision,
    Expected,
    HomeFiles,
    PlacementParts,
    Presence,
    StartDecision,
    Verdicts,
)
from toposeat.launch.home_wire import (
    DIGEST_BYTES,
    HEADER,
    KEY_VARIABLE,
    NONCE_BYTES,
    UNKNOWN,
    VERSION,
    Kind,
    is_proof,
    listening_sockets,
    new_nonce,
    proof,
)
from toposeat.model.trust import peer_is_mine

_MAX_REPORT_BYTES = 1 << 18
_MAX_NAMES_BYTES = 1024
_READ_BYTES = 1 << 16
_ACCEPTED_AT_ONCE = 64
_GREETING_S = 5.0
_STALLED_S = 30.0
_TICK_S = 0.25  # how exactly deadlines are kept
_NODE_WAITS_S = 8
_RANKS_A_SECOND = 500  # of a start, by which nodes wait longer for their greeting


@dataclass
class _Connection:
    """A peer. `sender` is its address, by which a node is known as long as the job runs."""

    socket: socket.socket
    sender: str
    deadline: float
    received: bytearray = field(default_factory=bytearray)
    to_send: deque[memoryview] = field(default_factory=deque)
    nonces: tuple[bytes, bytes] | None = None
    greeted: bool = False
    waits: bool = False
    asks: bool = False  # whether all ranks can be reordered
    ranks: frozenset[int] | None = None  # those that are placed on its node, once it has asked
    file: Arriving | None = None
    writes: bool = False


class _RefusedError(Exception):
    """A peer broke the rules: its connection is closed."""


class Home:
    """The home of one job, used as a context: it listens in between.

    Args:
        folder: where files arrive; this process's own.
        placement: the content of the placement file, None where nobody is to be seated.
        ranks: how many ranks have to be heard before any starts; None starts nobody.
        hosts: where the ranks will run, as far as known: it listens where they can reach it.
        here: all of them run on this node, so that it listens at a socket in `folder`, at no port.
        expected: the files that may come, None for none.
        on_stop: called by the home's own thread before the ranks of a refused job are told to end.
        strict: refuse a job of which not every rank was heard.

    Attributes:
        words: how its address is said in a launch line. No secret.
        heard: whether a process of the job has spoken.
        environment: the job's key, for the environment of the ranks and nothing else.

    Raises:
        OSError: on entry, where this host can open no socket.
        InputError: on entry, where the ports that it may use are not numbers.
    """

    def __init__(
        self,
        folder: Path,
        *,
        placement: bytes | None = None,
        ranks: int | None = None,
        hosts: Iterable[str] = (),
        here: bool = False,
        expected: Expected | None = None,
        on_stop: Callable[[Verdicts], None] | None = None,
        strict: bool = False,
    ) -> None:
        self._folder, self._hosts, self._here = folder, tuple(hosts), here
        self._parts = None if placement is None else PlacementParts(placement)
        self._on_stop = on_stop
        self._start = StartDecision(ranks, strict=strict)
        self._presence = Presence()
        self._files = HomeFiles(folder, expected)
        self._ranks = ranks or 0
        self._key = secrets.token_hex(DIGEST_BYTES)
        self._sender_of: dict[int, str] = {}
        self._selector = selectors.DefaultSelector()
        self._listeners: list[socket.socket] = []
        self._connections: dict[socket.socket, _Connection] = {}
        self._ungreeted: dict[socket.socket, _Connection] = {}  # the oldest first
        self._most_connections = 0
        self._wake_read, self._wake_write = -1, -1
        self._thread = threading.Thread(target=self._serve, name="toposeat-home", daemon=True)
        self._open = ExitStack()
        self.words = ""
        self.heard = False
        self.environment = {KEY_VARIABLE: self._key}

    @property
    def decision(self) -> Decision:
        """What the ranks were told so far."""
        return self._start.decision

    @property
    def lost(self) -> Mapping[str, int]:
        """How many files came that this host could not keep, by cause."""
        return self._files.lost

    @property
    def verdicts(self) -> Verdicts:
        """What the ranks said. Settled once the job has ended."""
        return self._start.verdicts

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            addresses = self._listen(stack)
            port = 0 if self._here else self._listeners[0].getsockname()[1]
            patience = _NODE_WAITS_S + self._ranks // _RANKS_A_SECOND
            self.words = f"{port}:{patience}:{','.join(addresses)}"
            self._most_connections = stack.enter_context(
                OpenFiles(len(self._hosts) + self._ranks)
            ).left
            self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._selector.register(self._wake_read, selectors.EVENT_READ)
            for listener in self._listeners:
                self._selector.register(listener, selectors.EVENT_READ)
            self._open = stack.pop_all()
        self._thread.start()
        return self

    def _listen(self, stack: ExitStack) -> list[str]:
        """Open the listening sockets; where they are."""
        if not self._here:
            self._listeners, addresses = listening_sockets(self._hosts)
            for each in self._listeners:
                stack.callback(each.close)
            return addresses
        path = self._folder / ".home"
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        stack.callback(path.unlink, missing_ok=True)
        listener.listen()
        listener.setblocking(False)
        self._listeners = [listener]
        return [str(path)]

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take in what has arrived and stop listening; once is enough."""
        if self._wake_write < 0:
            return
        os.write(self._wake_write, b"x")
        self._thread.join()
        for connection in list(self._connections.values()):
            self._close(connection)
        self._selector.close()
        self._open.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        self._wake_write = -1

    # ---- the thread ----

    def _serve(self) -> None:
        ending = False
        next_look = 0.0
        while not ending:
            for key, events in self._selector.select(self._pause()):
                if key.fileobj == self._wake_read:
                    ending = True
                else:
                    assert isinstance(key.fileobj, socket.socket)  # no other kind is registered
                    self._attend(key.fileobj, events)
            now = time.monotonic()
            if now >= next_look:
                self._drop_late(now)
                next_look = now + _TICK_S
            if self._start.due is not None and now >= self._start.due:
                self._decide()
            if self._presence.due is not None and now >= self._presence.due:
                self._decide_presence()
        self._drain()

    def _drain(self) -> None:
        """Take what lies in the sockets of a job that has ended: its last reports."""
        for _ in range(1000):
            ready = self._selector.select(0)
            busy = [key.fileobj for key, _ in ready if key.fileobj != self._wake_read]
            if not busy:
                return
            for each in busy:
                assert isinstance(each, socket.socket)
                self._attend(each, selectors.EVENT_READ)

    def _pause(self) -> float | None:
        wait = _TICK_S if self._connections else float("inf")
        for due in (self._start.due, self._presence.due):
            if due is not None:
                wait = min(wait, max(0.0, due - time.monotonic()))
        return None if wait == float("inf") else wait

    def _attend(self, ready: socket.socket, events: int) -> None:
        connection = self._connections.get(ready)
        if connection is None:
            if ready in self._listeners:
                self._accept(ready)
            return
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(connection)
            if events & selectors.EVENT_READ:
                self._read(connection)
        except (OSError, _RefusedError):
            self._close(connection)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                peer, address = listener.accept()
            except BlockingIOError:
                return
            except OSError:  # it has gone away, or the descriptors of all processes are used up
                time.sleep(0.01)
                return
            if self._here and not peer_is_mine(peer):
                peer.close()
                continue
            self._make_room()
            if len(self._connections) >= self._most_connections:
                peer.close()
                continue
            peer.setblocking(False)
            with suppress(OSError):
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sender = "" if self._here else str(address[0])
            connection = _Connection(peer, sender, time.monotonic() + _GREETING_S)
            self._connections[peer] = self._ungreeted[peer] = connection
            self._selector.register(peer, selectors.EVENT_READ)

    def _make_room(self) -> None:
        """Drop who has waited longest without a word, where there are too many connections.

        A node of the job comes again; its greeting takes a moment, an idle stranger has none.
        """
        if len(self._connections) >= self._most_connections and self._ungreeted:
            self._close(next(iter(self._ungreeted.values())))

    def _drop_late(self, now: float) -> None:
        for connection in list(self._connections.values()):
            if connection.deadline <= now:
                self._close(connection)

    def _close(self, connection: _Connection) -> None:
        if connection.file is not None:
            self._files.abandon(connection.file)
        self._ungreeted.pop(connection.socket, None)
        if self._connections.pop(connection.socket, None) is not None:
            self._selector.unregister(connection.socket)
            connection.socket.close()

    # ---- sending ----

    def _send(
        self, connection: _Connection, kind: Kind, number: int = 0, data: bytes = b""
    ) -> None:
        connection.to_send.append(memoryview(HEADER.pack(kind, number, len(data)) + data))
        self._flush(connection)

    def _flush(self, connection: _Connection) -> None:
        while connection.to_send:
            try:
                sent = connection.socket.send(connection.to_send[0])
            except BlockingIOError:
                break
            if sent == len(connection.to_send[0]):
                connection.to_send.popleft()
            else:
                connection.to_send[0] = connection.to_send[0][sent:]
        writes = bool(connection.to_send)
        if writes == connection.writes:
            return
        connection.writes = writes
        events = selectors.EVENT_WRITE if writes else selectors.EVENT_READ
        self._selector.modify(connection.socket, events)
        if not writes:
            self._take_all(connection)

    # ---- receiving ----

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise _RefusedError
        connection.received += data
        self._take_all(connection)

    def _take_all(self, connection: _Connection) -> None:
        """Use what was received, as long as the peer takes the answers."""
        while not connection.to_send and self._take(connection):
            pass
        if connection.greeted:
            stalls = connection.received or connection.file is not None or connection.to_send
            waits = connection.waits or connection.asks
            quiet = float("inf") if waits else PATIENCE_S + _STALLED_S
            connection.deadline = time.monotonic() + (_STALLED_S if stalls else quiet)

    def _take(self, connection: _Connection) -> bool:
        """Use one frame, or a part of a file; False if more is needed."""
        if connection.file is not None:
            return self._take_part(connection, connection.file)
        if len(connection.received) < HEADER.size:
            return False
        kind, number, length = HEADER.unpack_from(connection.received)
        if not connection.greeted:
            return self._greet(connection, kind, number, length)
        if kind == Kind.BUNDLE:
            return self._begin_file(connection, number, length)
        limit = {
            Kind.SEATS: _MAX_NAMES_BYTES,
            Kind.SEATED: _MAX_REPORT_BYTES,
            Kind.UNSEATED: _MAX_REPORT_BYTES,
            Kind.PRESENT: MAX_WORLD_BYTES,
        }
        if length > limit.get(kind, -1):
            raise _RefusedError
        data = self._payload(connection, length)
        if data is None:
            return False
        if kind == Kind.SEATS:
            self._tell_seats(connection, data)
        elif kind == Kind.PRESENT:
            self._hear_present(connection, number, data)
        else:
            self._hear(connection, number, data, seated=kind == Kind.SEATED)
        return True

    @staticmethod
    def _payload(connection: _Connection, length: int) -> bytes | None:
        """The bytes behind the header, None while they are not whole; both are taken away."""
        end = HEADER.size + length
        if len(connection.received) < end:
            return None
        data = bytes(connection.received[HEADER.size : end])
        del connection.received[:end]
        return data

    def _greet(self, connection: _Connection, kind: int, number: int, length: int) -> bool:
        due = (Kind.HELLO, VERSION, NONCE_BYTES)
        if connection.nonces is not None:
            due = (Kind.PROOF, 0, DIGEST_BYTES)
        if (kind, number, length) != due:
            raise _RefusedError
        told = self._payload(connection, length)
        if told is None:
            return False
        if connection.nonces is None:
            own = new_nonce()
            connection.nonces = (told, own)
            challenge = own + proof(self._key, b"home", told, own)
            self._send(connection, Kind.CHALLENGE, VERSION, challenge)
        elif is_proof(told, self._key, b"node", *connection.nonces):
            connection.greeted = self.heard = True
            self._ungreeted.pop(connection.socket, None)
            self._send(connection, Kind.WELCOME, VERSION)
        else:
            raise _RefusedError
        return True

    # ---- seats and verdicts ----

    def _tell_seats(self, connection: _Connection, names: bytes) -> None:
        if connection.ranks is not None:
            raise _RefusedError  # it has its answer
        connection.ranks = frozenset()
        text = b""
        if self._parts is not None:
            text, connection.ranks = self._parts.of(names.decode("ascii", "replace").split("\n"))
        self._send(connection, Kind.PLACEMENT, int(self._parts is not None), text)

    def _hear(self, connection: _Connection, rank: int, report: bytes, *, seated: bool) -> None:
        """Take what a rank says. One that says that it has its seat must be placed on its node."""
        if seated and self._parts is not None and rank not in (connection.ranks or ()):
            raise _RefusedError
        if self._start.knows(rank) and not self._may_speak(connection, rank):
            rank, seated = self._ranks, False  # another process has spoken: it is one too many
        self._start.hear(rank, report.decode("utf-8", "replace"), seated=seated)
        connection.waits = True
        if self._start.decision is not Decision.OPEN:
            self._tell(connection)

    def _may_speak(self, connection: _Connection, rank: int) -> bool:
        """Whether it speaks for the rank from the node that has done so before, or is the first."""
        return self._sender_of.setdefault(rank, connection.sender) == connection.sender

    def _decide(self) -> None:
        if self._start.decide() is Decision.STOP and self._on_stop is not None:
            self._on_stop(self.verdicts)
        for connection in list(self._connections.values()):
            if connection.waits:
                self._tell(connection)

    def _tell(self, connection: _Connection) -> None:
        connection.waits = False
        self._answer(connection, self._start.decision)

    def _answer(self, connection: _Connection, decision: Decision, number: int = 0) -> None:
        connection.deadline = time.monotonic() + _STALLED_S
        try:
            self._send(connection, Kind.GO if decision is Decision.GO else Kind.STOP, number)
        except OSError:
            self._close(connection)

    # ---- ranks that can be reordered ----

    def _hear_present(self, connection: _Connection, rank: int, world: bytes) -> None:
        try:
            known = self._presence.hear(rank, world, may_speak=self._may_speak(connection, rank))
        except ValueError:
            raise _RefusedError from None
        connection.asks = True
        if not known:  # of another world, or too late
            self._answer_present(connection, Decision.STOP)

    def _decide_presence(self) -> None:
        self._presence.decide()
        missing = self._presence.missing
        number = UNKNOWN if missing is None else missing
        for connection in list(self._connections.values()):
            if connection.asks:
                self._answer_present(connection, self._presence.decision, number)
                number = 0  # one says it for the job

    def _answer_present(self, connection: _Connection, decision: Decision, number: int = 0) -> None:
        connection.asks = False
        self._answer(connection, decision, number)

    # ---- files ----

    def _begin_file(self, connection: _Connection, name_length: int, length: int) -> bool:
        most = MAX_NAME_BYTES + self._files.most_bytes
        if not 0 < name_length <= min(length, MAX_NAME_BYTES) or length > most:
            raise _RefusedError
        name = self._payload(connection, name_length)
        if name is None:
            return False
        rank = self._files.rank_of(name)
        if rank is not None and not self._may_speak(connection, rank):
            raise _RefusedError
        connection.file = self._files.begin(name, length - name_length, connection.sender)
        return self._take_part(connection, connection.file)

    def _take_part(self, connection: _Connection, file: Arriving) -> bool:
        part = connection.received[: file.remaining]
        del connection.received[: len(part)]
        self._files.add(file, part)
        if file.remaining > 0:
            return False
        connection.file = None
        self._send(connection, Kind.KEPT, int(self._files.finish(file)))
        return True
