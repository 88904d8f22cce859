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

import fcntl
import hmac
import os
import re
import secrets
import selectors
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cache
from pathlib import Path
from typing import Self

from toposeat.errors import InputError

VERSION = 1
PORTS_VARIABLE = "TOPOSEAT_PORTS"  # FROM-TO: ports of this host that the nodes can connect to
_PORTS = re.compile(r"(\d{1,5})-(\d{1,5})", re.ASCII)
_LAST_PORT = 65535
_HEADER = struct.Struct(">IIQ")
_UNKNOWN_RANK = 0xFFFFFFFF
_BUNDLE_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

_MAX_REPORT_BYTES = 1 << 18
_MAX_REPORTS_BYTES = 1 << 30
_MAX_BUNDLES_BYTES = 1 << 36
_MAX_UNGREETED = 4096
_READ_BYTES = 1 << 16
_GREETING_S = 5.0
_STALLED_S = 30.0
# After the first rank that cannot be seated the others may still say the same, for one message.
_GATHERING_S = 0.3
# Ranks that never connect: their nodes cannot reach this host, or the job is smaller than its plan.
_PATIENCE_S = 20.0
_STRICT_PATIENCE_S = 8.0
_MAX_ADDRESSES = 6
_RESOLVING_S = 1.0
_SIOCGIFADDR = 0x8915
# Bridges that containers and virtual machines of this host use among themselves.
_INNER_INTERFACES = ("docker", "virbr", "br-", "veth", "lxc", "podman", "cni")


class _Kind(IntEnum):
    HELLO = 1
    WELCOME = 2
    SEATS = 3
    PLACEMENT = 4
    SEATED = 5
    UNSEATED = 6
    GO = 7
    STOP = 8
    BUNDLE = 9
    KEPT = 10


class Decision(Enum):
    """Whether the ranks of a job were told to start."""

    OPEN = "open"
    GO = "go"
    STOP = "stop"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdicts:
    """What the ranks of a job said before it started.

    `reports` are the seat reports by rank, those of `unseated` ranks included; `nameless` are
    reports of processes that do not know their rank.
    """

    reports: Mapping[int, str]
    unseated: frozenset[int]
    nameless: tuple[str, ...]


@dataclass
class _Bundle:
    """A file that is being received."""

    remaining: int
    name: bytes
    file: int | None
    temporary: Path


@dataclass
class _Connection:
    socket: socket.socket
    deadline: float
    received: bytearray = field(default_factory=bytearray)
    to_send: deque[memoryview] = field(default_factory=deque)
    greeted: bool = False
    waits: bool = False
    bundle: _Bundle | None = None


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
        max_bytes: int = _MAX_BUNDLES_BYTES,
    ) -> None:
        self._folder, self._placement, self._ranks = folder, placement, ranks
        self._hosts, self._on_stop, self._strict = tuple(hosts), on_stop, strict
        self._bytes_left, self._report_bytes_left = max_bytes, _MAX_REPORTS_BYTES
        self._token = secrets.token_hex(16)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[socket.socket, _Connection] = {}
        self._reports: dict[int, str] = {}
        self._unseated: set[int] = set()
        self._nameless: list[str] = []
        self._decision = Decision.OPEN
        self._decide_at: float | None = None
        self._files = 0
        self._wake_read, self._wake_write = -1, -1
        self._thread = threading.Thread(target=self._serve, name="toposeat-home", daemon=True)
        self.words = ""

    @property
    def decision(self) -> Decision:
        """What the ranks were told so far."""
        return self._decision

    @property
    def verdicts(self) -> Verdicts:
        """What the ranks said. Settled once the job has ended."""
        return Verdicts(
            reports=dict(self._reports),
            unseated=frozenset(self._unseated),
            nameless=tuple(self._nameless),
        )

    def __enter__(self) -> Self:
        self._listener = _listening_socket()
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
            if self._decide_at is not None and time.monotonic() >= self._decide_at:
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
        if self._decide_at is not None:
            times.append(self._decide_at)
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
        if connection.bundle is not None:
            self._abandon(connection.bundle)
        if self._connections.pop(connection.socket, None) is not None:
            self._selector.unregister(connection.socket)
            connection.socket.close()

    # ---- sending ----

    def _send(
        self, connection: _Connection, kind: _Kind, number: int = 0, data: bytes = b""
    ) -> None:
        connection.to_send.append(memoryview(_HEADER.pack(kind, number, len(data))))
        if data:
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
            in_the_midst = bool(connection.received) or connection.bundle is not None
            quiet = float("inf") if connection.waits else _PATIENCE_S + _STALLED_S
            connection.deadline = time.monotonic() + (_STALLED_S if in_the_midst else quiet)

    def _take(self, connection: _Connection) -> bool:
        """Use what was received; False if more is needed."""
        if connection.bundle is not None:
            return self._take_bundle(connection, connection.bundle)
        if len(connection.received) < _HEADER.size:
            return False
        kind, number, length = _HEADER.unpack_from(connection.received)
        if not connection.greeted:
            return self._take_hello(connection, kind, number, length)
        if kind == _Kind.BUNDLE:
            return self._open_bundle(connection, number, length)
        limit = {_Kind.SEATS: 0, _Kind.SEATED: _MAX_REPORT_BYTES, _Kind.UNSEATED: _MAX_REPORT_BYTES}
        if length > limit.get(kind, -1):
            raise _RefusedError
        data = self._payload(connection, length)
        if data is None:
            return False
        if kind == _Kind.SEATS:
            known = self._placement is not None
            self._send(connection, _Kind.PLACEMENT, int(known), self._placement or b"")
        else:
            self._hear(connection, number, data, seated=kind == _Kind.SEATED)
        return True

    @staticmethod
    def _payload(connection: _Connection, length: int) -> bytes | None:
        """The bytes behind the header, None while they are not whole; both are taken away."""
        end = _HEADER.size + length
        if len(connection.received) < end:
            return None
        data = bytes(connection.received[_HEADER.size : end])
        del connection.received[:end]
        return data

    def _take_hello(self, connection: _Connection, kind: int, number: int, length: int) -> bool:
        if (kind, number, length) != (_Kind.HELLO, VERSION, len(self._token)):
            raise _RefusedError
        token = self._payload(connection, length)
        if token is None:
            return False
        if not hmac.compare_digest(token, self._token.encode()):
            raise _RefusedError
        connection.greeted = True
        self._send(connection, _Kind.WELCOME, VERSION)
        return True

    # ---- verdicts ----

    def _hear(self, connection: _Connection, rank: int, report: bytes, *, seated: bool) -> None:
        self._report_bytes_left -= len(report)
        if self._report_bytes_left < 0:
            raise _RefusedError
        text = report.decode("utf-8", "replace")
        if self._ranks is None or rank >= self._ranks:
            if len(self._nameless) < 1000:
                self._nameless.append(text)
            refused = True
        else:
            self._reports[rank] = text
            self._unseated.discard(rank)
            if not seated:
                self._unseated.add(rank)
            refused = not seated
            _write_whole(self._folder, f"rank-{rank}.seat", report)
        connection.waits = True
        if self._decision is not Decision.OPEN:
            self._tell(connection)
            return
        now = time.monotonic()
        if len(self._reports) == self._ranks:
            self._decide_at = now
        elif refused or self._unseated or self._nameless:
            first = self._decide_at is None or self._decide_at > now + _GATHERING_S
            self._decide_at = now + _GATHERING_S if first else self._decide_at
        else:
            self._decide_at = now + (_STRICT_PATIENCE_S if self._strict else _PATIENCE_S)

    def _decide(self) -> None:
        self._decide_at = None
        missing = len(self._reports) != self._ranks
        refused = bool(self._unseated or self._nameless) or (missing and self._strict)
        if refused and self._on_stop is not None:
            self._on_stop(self.verdicts)
        self._decision = Decision.STOP if refused else Decision.GO
        for connection in list(self._connections.values()):
            if connection.waits:
                self._tell(connection)

    def _tell(self, connection: _Connection) -> None:
        kind = _Kind.STOP if self._decision is Decision.STOP else _Kind.GO
        try:
            self._send(connection, kind)
        except OSError:
            self._close(connection)
            return
        connection.waits = False
        connection.deadline = time.monotonic() + _STALLED_S

    # ---- bundles ----

    def _open_bundle(self, connection: _Connection, name_length: int, length: int) -> bool:
        """Begin a file; what cannot be kept is read and dropped, so that its sender learns it."""
        if not 0 < name_length <= min(length, 128) or length > _MAX_BUNDLES_BYTES:
            raise _RefusedError
        if len(connection.received) < _HEADER.size + name_length:
            return False
        name = bytes(connection.received[_HEADER.size : _HEADER.size + name_length])
        del connection.received[: _HEADER.size + name_length]
        self._files += 1
        bundle = _Bundle(
            remaining=length - name_length,
            name=name,
            file=None,
            temporary=self._folder / f".bundle-{self._files}",
        )
        if _BUNDLE_NAME.fullmatch(name) and bundle.remaining <= self._bytes_left:
            self._bytes_left -= bundle.remaining
            with suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                bundle.file = os.open(bundle.temporary, flags, 0o600)
        connection.bundle = bundle
        return self._take_bundle(connection, bundle)

    def _take_bundle(self, connection: _Connection, bundle: _Bundle) -> bool:
        part = connection.received[: bundle.remaining]
        del connection.received[: len(part)]
        bundle.remaining -= len(part)
        if bundle.file is not None and part:
            try:
                _write_all(bundle.file, part)
            except OSError:  # the disk is full
                self._abandon(bundle)
        if bundle.remaining > 0:
            return False
        connection.bundle = None
        self._send(connection, _Kind.KEPT, int(self._finish(bundle)))
        return True

    def _finish(self, bundle: _Bundle) -> bool:
        if bundle.file is None:
            return False
        os.close(bundle.file)
        bundle.file = None
        try:
            bundle.temporary.rename(self._folder / bundle.name.decode("ascii"))
        except OSError:
            return False
        return True

    @staticmethod
    def _abandon(bundle: _Bundle) -> None:
        if bundle.file is not None:
            os.close(bundle.file)
            bundle.file = None
            bundle.temporary.unlink(missing_ok=True)


def own_addresses(hosts: Iterable[str] = (), *, six: bool = True) -> list[str]:
    """Numeric addresses of this host, the most useful first.

    That on the way to `hosts`, then the other interfaces', those that only containers see last; the
    loopback address only where there is no other.
    """
    found = _addresses_toward(hosts)
    names = sorted(
        (name for _, name in socket.if_nameindex() if name != "lo"),
        key=lambda name: name.startswith(_INNER_INTERFACES),
    )
    found += [address for name in names if (address := _address_of(name)) is not None]
    found += _global_six()
    usable = [each for each in dict.fromkeys(found) if six or ":" not in each]
    return usable[:_MAX_ADDRESSES] or ["127.0.0.1"]


def _addresses_toward(hosts: Iterable[str]) -> list[str]:
    """This host's address in the network of the first of `hosts` that has a name known here."""
    found: list[str] = []

    def resolve() -> None:
        for host in hosts:
            with suppress(OSError):
                for family, kind, _, _, address in socket.getaddrinfo(
                    host, 9, type=socket.SOCK_DGRAM
                ):
                    with socket.socket(family, kind) as toward:
                        toward.connect(address)  # sends nothing
                        own = str(toward.getsockname()[0])
                    if not own.startswith(("127.", "fe80")) and own != "::1":
                        found.append(own)
                if found:
                    return

    thread = threading.Thread(target=resolve, daemon=True)  # a name server may never answer
    thread.start()
    thread.join(_RESOLVING_S)
    return list(found)


def _address_of(interface: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket, suppress(OSError):
        request = struct.pack("256s", interface.encode()[:15])
        answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, request)
        return socket.inet_ntoa(answer[20:24])
    return None


def _global_six() -> list[str]:
    found = []
    with suppress(OSError, ValueError):
        for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines():
            digits, _, _, scope, *_ = line.split()
            if int(scope, 16) == 0:
                found.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)))
    return found


def _open_ports() -> range:
    """The ports that may be used, 0 for any: as the variable says, else as Slurm does.

    Raises:
        InputError: the variable holds something else.
    """
    text = os.environ.get(PORTS_VARIABLE, "") or _srun_ports()
    match = _PORTS.fullmatch(text or "0-0")
    ports = range(int(match[1]), int(match[2]) + 1) if match else range(0)
    if not ports or ports[-1] > _LAST_PORT:
        raise InputError(
            f"{PORTS_VARIABLE} is {text!r}", hint="two port numbers, for example 60001-60100"
        )
    return ports


@cache
def _srun_ports() -> str:
    """The ports of a site whose firewall lets nodes reach srun on some only, "" for any."""
    program = shutil.which("scontrol")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "show", "config"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"^SrunPortRange\s*=\s*(\d+-\d+)\s*$", done.stdout, re.MULTILINE)
    return found[1] if found is not None else ""


def _listening_socket() -> socket.socket:
    """A socket at a port that is free and open, for both kinds of addresses where there are both.

    Raises:
        OSError: there is none.
        InputError: the ports are not numbers.
    """
    cause = OSError("no port")
    for port in _open_ports():
        for family, any_address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
            try:
                return _listening_at(family, any_address, port)
            except OSError as error:
                cause = error
    raise cause


def _listening_at(family: socket.AddressFamily, any_address: str, port: int) -> socket.socket:
    """The nodes of the job may be in any network, so at every address."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((any_address, port))
        listener.listen(4096)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _write_whole(folder: Path, name: str, data: bytes) -> None:
    with suppress(OSError):  # the disk is full: verification says that the report is missing
        temporary = folder / f".{name}"
        temporary.write_bytes(data)
        temporary.rename(folder / name)


def _write_all(file: int, data: bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
