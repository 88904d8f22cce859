"""Between a job's processes and the one that started it: frames, addresses, files sent home.

`launcher/src/home.h` documents the frames; `home` is the side that listens.
"""

from __future__ import annotations

import errno
import fcntl
import hmac
import os
import re
import secrets
import socket
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from pathlib import Path

from toposeat.errors import InputError
from toposeat.launch.launchers.slurm import configured
from toposeat.model.trust import peer_is_mine

VERSION = 2
HEADER = struct.Struct(">IIQ")  # kind, number, bytes that follow
NONCE_BYTES = 32
DIGEST_BYTES = 32
KEY_VARIABLE = "TOPOSEAT_HOME_KEY"


UNKNOWN = 0xFFFFFFFF  # a number that is not known


class Kind(IntEnum):
    """What a frame says."""

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
    CHALLENGE = 11
    PROOF = 12
    PRESENT = 13


def new_nonce() -> bytes:
    """What one side of a greeting draws."""
    return secrets.token_bytes(NONCE_BYTES)


def proof(key: str, who: bytes, client: bytes, home: bytes) -> bytes:
    """That `who`, b"home" or b"node", holds the key, in the greeting with these two nonces."""
    return hmac.digest(key.encode("ascii"), who + client + home, "sha256")


def is_proof(told: bytes, key: str, who: bytes, client: bytes, home: bytes) -> bool:
    """Whether `told` is that proof; the time that this takes tells nothing."""
    return hmac.compare_digest(told, proof(key, who, client, home))


_TIMEOUT_S = 3.0
_TRIES = 4  # a crowd of strangers may push one out before home has greeted it
_SENDING_S = 30.0


def send_home(
    words: str, name: str, data: bytes, *, environment: Mapping[str, str] | None = None
) -> bool:
    """Send a file to the process that started the job, at `Home.words`; whether it was kept.

    Its name is of letters, digits, `.`, `_` and `-`. The job's key is in the environment, by
    default this process's own.
    """
    key = (os.environ if environment is None else environment).get(KEY_VARIABLE, "")
    port, _, addresses = words.split(":", 2)
    for address in addresses.split(",") * _TRIES:
        with suppress(OSError), _connect(address, int(port)) as peer:
            if not key or not _is_home(peer, key):
                continue  # another service listens there
            peer.settimeout(_SENDING_S)
            encoded = name.encode("ascii")
            _send(peer, Kind.BUNDLE, len(encoded), encoded + data)
            kind, number, _ = _header(peer)
            return (kind, number) == (Kind.KEPT, 1)
    return False


def _connect(address: str, port: int) -> socket.socket:
    if not address.startswith("/"):
        return socket.create_connection((address, port), _TIMEOUT_S)
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.settimeout(_TIMEOUT_S)
        peer.connect(address)
        if not peer_is_mine(peer):
            raise PermissionError("the socket is another user's")
    except BaseException:
        peer.close()
        raise
    return peer


def _is_home(peer: socket.socket, key: str) -> bool:
    own = new_nonce()
    _send(peer, Kind.HELLO, VERSION, own)
    if _header(peer) != (Kind.CHALLENGE, VERSION, NONCE_BYTES + DIGEST_BYTES):
        return False
    told = _exactly(peer, NONCE_BYTES + DIGEST_BYTES)
    theirs = told[:NONCE_BYTES]
    if not is_proof(told[NONCE_BYTES:], key, b"home", own, theirs):
        return False
    _send(peer, Kind.PROOF, 0, proof(key, b"node", own, theirs))
    return _header(peer)[0] == Kind.WELCOME


def _send(peer: socket.socket, kind: Kind, number: int, data: bytes) -> None:
    peer.sendall(HEADER.pack(kind, number, len(data)) + data)


def _header(peer: socket.socket) -> tuple[int, int, int]:
    kind, number, length = HEADER.unpack(_exactly(peer, HEADER.size))
    return kind, number, length


def _exactly(peer: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        part = peer.recv(length - len(received))
        if not part:
            raise ConnectionError("it was closed")
        received += part
    return received


PORTS_VARIABLE = "TOPOSEAT_PORTS"  # what nodes can connect to: [ADDRESS:]FROM-TO
_PORTS = re.compile(r"(?:([0-9A-Fa-f.:]{2,45}):)?(\d{1,5})-(\d{1,5})", re.ASCII)
_LAST_PORT = 65535
_MAX_ADDRESSES = 6
_BACKLOG = 4096
_ATTEMPTS = 20  # a port that is free at one address may be taken at another
_RESOLVING_S = 1.0
_SIOCGIFADDR = 0x8915
# Bridges that containers and virtual machines of this host use among themselves.
_INNER_INTERFACES = ("docker", "virbr", "br-", "veth", "lxc", "podman", "cni")


def listening_sockets(hosts: Iterable[str]) -> tuple[list[socket.socket], list[str]]:
    """Sockets at one port that is free and open, and their addresses, the most useful first.

    One for each network that leads to the hosts of the job, as far as these are known; at all
    networks of this host where it is not known which those are, but not at bridges that only its
    own containers see.

    Raises:
        OSError: there is none.
    """
    address, ports = _told()
    addresses = [address] if address else own_addresses(hosts)
    cause = OSError("no port")
    for port in ports:
        for _ in range(1 if port else _ATTEMPTS):
            try:
                return _listen(addresses, port)
            except OSError as error:
                cause = error
    raise cause


def _listen(addresses: Sequence[str], port: int) -> tuple[list[socket.socket], list[str]]:
    """Sockets at one port of all these addresses, without those that cannot be bound now.

    Raises:
        OSError: somebody else has the port at one of them, or none can be bound.
    """
    sockets: list[socket.socket] = []
    bound: list[str] = []
    cause = OSError("no address")
    try:
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            try:
                listener = socket.create_server((address, port), family=family, backlog=_BACKLOG)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise
                cause = error
                continue
            listener.setblocking(False)
            port = listener.getsockname()[1]
            sockets.append(listener)
            bound.append(address)
        if not sockets:
            raise cause
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return sockets, bound


def own_addresses(hosts: Iterable[str] = ()) -> list[str]:
    """Numeric addresses of this host, the most useful first.

    Those on the way to `hosts`; unless all of these are known, then the other interfaces', too. The
    loopback address only where there is no other.
    """
    found, complete = _addresses_toward(tuple(hosts))
    if not (found and complete):
        names = (name for _, name in socket.if_nameindex() if name != "lo")
        outer = sorted(name for name in names if not name.startswith(_INNER_INTERFACES))
        found += [address for name in outer if (address := _address_of(name)) is not None]
        found += _global_six()
    return list(dict.fromkeys(found))[:_MAX_ADDRESSES] or ["127.0.0.1"]


def _addresses_toward(hosts: tuple[str, ...]) -> tuple[list[str], bool]:
    """This host's addresses in the networks of `hosts`, and whether all of them have been found."""
    found: dict[str, None] = {}
    known: list[str] = []

    def resolve() -> None:
        for host in hosts:
            with suppress(OSError):
                for family, kind, _, _, address in socket.getaddrinfo(
                    host, 9, type=socket.SOCK_DGRAM
                )[:1]:
                    with socket.socket(family, kind) as toward:
                        toward.connect(address)  # sends nothing
                        own = str(toward.getsockname()[0])
                    if not own.startswith(("127.", "fe80")) and own != "::1":
                        found[own] = None
                    known.append(host)

    thread = threading.Thread(target=resolve, daemon=True)  # a name server may never answer
    thread.start()
    thread.join(_RESOLVING_S)
    return list(found), len(known) == len(hosts)


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
            digits, _, _, scope, _, name = line.split()
            if int(scope, 16) == 0 and not name.startswith(_INNER_INTERFACES):
                found.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)))
    return found


def _told() -> tuple[str, range]:
    """The address and ports to use, "" and 0 for any: as the variable says, else as Slurm does.

    A site whose firewall lets nodes reach srun on some ports only names these to Slurm.
    """
    told = os.environ.get(PORTS_VARIABLE, "")
    match = _PORTS.fullmatch(told or configured("SrunPortRange"))
    if match is None and not told:
        return "", range(1)
    ports = range(int(match[2]), int(match[3]) + 1) if match else range(0)
    if not ports or ports[-1] > _LAST_PORT:
        raise InputError(
            f"{PORTS_VARIABLE} is {told!r}",
            hint="two port numbers, for example 60001-60100, behind an address if there are several"
            " networks: 10.1.0.1:60001-60100",
        )
    return (match[1] or "" if match else ""), ports
