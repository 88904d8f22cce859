"""Where a job reports to: a listening socket for the time of one job.

The ranks of a job on several nodes connect back, as the remote parts of srun and mpirun do, so that
no folder needs to be shared: they receive the placement, say whether each of them can be seated,
learn whether all are to start, and send reports and records. `launcher/src/home.h` documents the
frames.

Who connects is not trusted before it showed the token, and then with bounded amounts only. The
token is part of the launch line, which other users of a node may be able to read: what it protects
is a job's reports, not secrets.
"""

from __future__ import annotations

import hmac
import os
import secrets
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from toposeat.launch.home_address import listening_socket, own_addresses
from toposeat.launch.home_files import MAX_FILES_BYTES, MAX_NAME_BYTES, Arriving, HomeFiles
from toposeat.launch.home_frames import HEADER, VERSION, Kind
from toposeat.launch.start_decision import PATIENCE_S, Decision, StartDecision, Verdicts

_MAX_REPORT_BYTES = 1 << 18
_MAX_REPORTS_BYTES = 1 << 30
_MAX_UNGREETED = 4096
_READ_BYTES = 1 << 16
_GREETING_S = 5.0
_STALLED_S = 30.0


@dataclass
class _Connection:
    socket: socket.socket
    deadline: float
    received: bytearray = field(default_factory=bytearray)
    to_send: deque[memoryview] = field(default_factory=deque)
    greeted: bool = False
    waits: bool = False
    file: Arriving | None = None


class _RefusedError(Exception):
    """A peer broke the rules: its connection is closed."""


class Home:
    """The home of one job, used as a context: it listens in between.

    Args:
        folder: where seat reports (`rank-R.seat`) and bundles arrive; this process's own.
        placement: the content of the placement file, None where nobody is to be seated.
        ranks: how many ranks have to be heard before any starts; None starts nobody.
        hosts: where the ranks will run, as far as known: this host's address on the way there comes
            first.
        on_stop: called by the home's own thread before the ranks of a refused job are told to end.
        strict: refuse a job of which not every rank was heard.
        max_bytes: of all bundles together.

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
        on_stop: Callable[[Verdicts], None] | None = None,
        strict: bool = False,
        max_bytes: int = MAX_FILES_BYTES,
    ) -> None:
        self._placement, self._hosts, self._on_stop = placement, tuple(hosts), on_stop
        self._start = StartDecision(ranks, strict=strict)
        self._files = HomeFiles(folder, max_bytes)
        self._report_bytes_left = _MAX_REPORTS_BYTES
        self._token = secrets.token_hex(16)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[socket.socket, _Connection] = {}
        self._wake_read, self._wake_write = -1, -1
        self._thread = threading.Thread(target=self._serve, name="toposeat-home", daemon=True)
        self.words = ""

    @property
    def decision(self) -> Decision:
        """What the ranks were told so far."""
        return self._start.decision

    @property
    def verdicts(self) -> Verdicts:
        """What the ranks said. Settled once the job has ended."""
        return self._start.verdicts

    def __enter__(self) -> Self:
        self._listener = listening_socket()
        port = self._listener.getsockname()[1]
        addresses = own_addresses(self._hosts, six=self._listener.family == socket.AF_INET6)
        self.words = f"{port}:{self._token}:{','.join(addresses)}"
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._thread.start()
        return self

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
        self._listener.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        self._wake_write = -1

    # ---- the thread ----

    def _serve(self) -> None:
        ending = False
        while not ending:
            for key, events in self._selector.select(self._pause()):
                if key.fileobj == self._wake_read:
                    ending = True
                elif key.fileobj is self._listener:
                    self._accept()
                else:
                    assert isinstance(key.fileobj, socket.socket)  # no other kind is registered
                    self._attend(self._connections[key.fileobj], events)
            self._drop_late()
            if self._start.due is not None and time.monotonic() >= self._start.due:
                self._decide()
        self._drain()

    def _drain(self) -> None:
        """Take what lies in the sockets of a job that has ended: its last reports."""
        for _ in range(1000):
            ready = self._selector.select(0)
            busy = [key for key, _ in ready if key.fileobj != self._wake_read]
            if not busy:
                return
            for key in busy:
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._connections:
                    assert isinstance(key.fileobj, socket.socket)
                    self._attend(self._connections[key.fileobj], selectors.EVENT_READ)

    def _pause(self) -> float | None:
        times = [each.deadline for each in self._connections.values()]
        if self._start.due is not None:
            times.append(self._start.due)
        nearest = min(times, default=float("inf"))
        return None if nearest == float("inf") else max(0.0, nearest - time.monotonic())

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:  # it has gone away, or there are no more file descriptors
            time.sleep(0.01)
            return
        ungreeted = sum(not each.greeted for each in self._connections.values())
        if ungreeted >= _MAX_UNGREETED:
            peer.close()
            return
        peer.setblocking(False)
        with suppress(OSError):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[peer] = _Connection(peer, time.monotonic() + _GREETING_S)
        self._selector.register(peer, selectors.EVENT_READ)

    def _attend(self, connection: _Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(connection)
            if events & selectors.EVENT_READ:
                self._read(connection)
        except (OSError, _RefusedError):
            self._close(connection)

    def _drop_late(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections.values()):
            if connection.deadline <= now:
                self._close(connection)

    def _close(self, connection: _Connection) -> None:
        if connection.file is not None:
            self._files.abandon(connection.file)
        if self._connections.pop(connection.socket, None) is not None:
            self._selector.unregister(connection.socket)
            connection.socket.close()

    # ---- sending ----

    def _send(
        self, connection: _Connection, kind: Kind, number: int = 0, data: bytes = b""
    ) -> None:
        connection.to_send.append(memoryview(HEADER.pack(kind, number, len(data))))
        if data:  # the placement is not copied for every node
            connection.to_send.append(memoryview(data))
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
        events = selectors.EVENT_READ
        if connection.to_send:
            events |= selectors.EVENT_WRITE
        self._selector.modify(connection.socket, events)

    # ---- receiving ----

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise _RefusedError
        connection.received += data
        while self._take(connection):
            pass
        if connection.greeted:
            in_the_midst = bool(connection.received) or connection.file is not None
            quiet = float("inf") if connection.waits else PATIENCE_S + _STALLED_S
            connection.deadline = time.monotonic() + (_STALLED_S if in_the_midst else quiet)

    def _take(self, connection: _Connection) -> bool:
        """Use what was received; False if more is needed."""
        if connection.file is not None:
            return self._take_part(connection, connection.file)
        if len(connection.received) < HEADER.size:
            return False
        kind, number, length = HEADER.unpack_from(connection.received)
        if not connection.greeted:
            return self._take_hello(connection, kind, number, length)
        if kind == Kind.BUNDLE:
            return self._begin_file(connection, number, length)
        limit = {Kind.SEATS: 0, Kind.SEATED: _MAX_REPORT_BYTES, Kind.UNSEATED: _MAX_REPORT_BYTES}
        if length > limit.get(kind, -1):
            raise _RefusedError
        data = self._payload(connection, length)
        if data is None:
            return False
        if kind == Kind.SEATS:
            known = self._placement is not None
            self._send(connection, Kind.PLACEMENT, int(known), self._placement or b"")
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

    def _take_hello(self, connection: _Connection, kind: int, number: int, length: int) -> bool:
        if (kind, number, length) != (Kind.HELLO, VERSION, len(self._token)):
            raise _RefusedError
        token = self._payload(connection, length)
        if token is None:
            return False
        if not hmac.compare_digest(token, self._token.encode()):
            raise _RefusedError
        connection.greeted = True
        self._send(connection, Kind.WELCOME, VERSION)
        return True

    # ---- verdicts ----

    def _hear(self, connection: _Connection, rank: int, report: bytes, *, seated: bool) -> None:
        self._report_bytes_left -= len(report)
        if self._report_bytes_left < 0:
            raise _RefusedError
        if self._start.knows(rank):
            self._files.write(f"rank-{rank}.seat", report)
        self._start.hear(rank, report.decode("utf-8", "replace"), seated=seated)
        connection.waits = True
        if self._start.decision is not Decision.OPEN:
            self._tell(connection)

    def _decide(self) -> None:
        if self._start.decide() is Decision.STOP and self._on_stop is not None:
            self._on_stop(self.verdicts)
        for connection in list(self._connections.values()):
            if connection.waits:
                self._tell(connection)

    def _tell(self, connection: _Connection) -> None:
        stops = self._start.decision is Decision.STOP
        try:
            self._send(connection, Kind.STOP if stops else Kind.GO)
        except OSError:
            self._close(connection)
            return
        connection.waits = False
        connection.deadline = time.monotonic() + _STALLED_S

    # ---- files ----

    def _begin_file(self, connection: _Connection, name_length: int, length: int) -> bool:
        if not 0 < name_length <= min(length, MAX_NAME_BYTES) or length > MAX_FILES_BYTES:
            raise _RefusedError
        name = self._payload(connection, name_length)
        if name is None:
            return False
        connection.file = self._files.begin(name, length - name_length)
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
