"""Where the nodes of a job can connect to this host: its addresses, a port that is open to them."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from toposeat.errors import InputError

PORTS_VARIABLE = "TOPOSEAT_PORTS"  # FROM-TO: ports of this host that the nodes can connect to
_PORTS = re.compile(r"(\d{1,5})-(\d{1,5})", re.ASCII)
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

    One for each network that leads to the nodes of the job; at all networks of this host where it
    is not known which those are, but not at bridges that only its own containers see.

    Args:
        hosts: of the job, as far as known.

    Raises:
        OSError: there is none.
        InputError: the ports are not numbers.
    """
    addresses = own_addresses(hosts)
    cause = OSError("no port")
    for port in _open_ports():
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
