"""Where the nodes of a job can connect to this host: its addresses, a port that is open to them."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from toposeat.errors import InputError

PORTS_VARIABLE = "TOPOSEAT_PORTS"  # FROM-TO: ports of this host that the nodes can connect to
_PORTS = re.compile(r"(\d{1,5})-(\d{1,5})", re.ASCII)
_LAST_PORT = 65535
_MAX_ADDRESSES = 6
_RESOLVING_S = 1.0
_SIOCGIFADDR = 0x8915
# Bridges that containers and virtual machines of this host use among themselves.
_INNER_INTERFACES = ("docker", "virbr", "br-", "veth", "lxc", "podman", "cni")


def listening_socket() -> socket.socket:
    """A socket at a port that is free and open, for both kinds of addresses where there are both.

    The nodes of the job may be in any network, so it listens at every address.

    Raises:
        OSError: there is none.
        InputError: the ports are not numbers.
    """
    cause = OSError("no port")
    six = [socket.AF_INET6] if socket.has_dualstack_ipv6() else []
    for port in _open_ports():
        for family in (*six, socket.AF_INET):
            try:
                listener = socket.create_server(
                    ("", port), family=family, backlog=4096, dualstack_ipv6=family in six
                )
            except OSError as error:
                cause = error
                continue
            listener.setblocking(False)
            return listener
    raise cause


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
