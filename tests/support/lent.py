"""Proxies of this machine's OpenCL, for tests and benchmarks, and what their clients need."""

import functools
import hashlib
import hmac
import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

from toposeat.errors import UnavailableError
from toposeat.installed import native_path

PROTOCOL = b"toposeat-cl 4 le64\0"
TIMEOUT_S = 300
_OF_CLIENTS = ("TOPOSEAT_CL_", "OCL_ICD_", "OPENCL_")
NATIVE = {key: value for key, value in os.environ.items() if not key.startswith(_OF_CLIENTS)}


@functools.cache
def why_no_opencl():
    """Why nothing can be lent here; empty if it can."""
    try:
        native_path("bin/toposeat-clproxy")
    except UnavailableError as error:
        return str(error)
    if shutil.which("clinfo") is None:
        return "no clinfo"
    done = run(["clinfo", "-l"], NATIVE)
    return "" if "Device #0" in done.stdout else "no OpenCL device: Debian has pocl-opencl-icd"


def run(words, environment, **options):
    """Run a client to its end, whatever its exit code; one that hangs is an error."""
    defaults = {"capture_output": True, "text": True, "timeout": TIMEOUT_S}
    given = {**defaults, "stdin": subprocess.DEVNULL, "env": environment, **options}
    return subprocess.run(words, check=False, **given)


class Proxy:
    """A running toposeat-clproxy; it ends with the block."""

    def __init__(self, *words, key=None, **environment):
        self.key = key or secrets.token_hex(32)
        self.process = subprocess.Popen(
            [native_path("bin/toposeat-clproxy"), *words],
            env={**NATIVE, **environment, "TOPOSEAT_CL_KEY": self.key},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said = json.loads(self.process.stdout.readline() or "{}")

    def endpoint(self, over="unix", index=0):
        """A device, as TOPOSEAT_CL_DEVICES names it; `over` is unix or tcp."""
        return f"{over}:{self.said[over]}#{index}"

    def client(self, *endpoints, **more):
        """The environment of a process that has these devices, the first one if none is named."""
        return client_of(self.key, *(endpoints or (self.endpoint(),)), **more)

    def children(self):
        """The processes that serve a client each."""
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def connect(self, over="unix"):
        """A connection that has not said anything yet."""
        if over == "unix":
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(TIMEOUT_S)
            made.connect(self.said["unix"])
            return made
        host, _, port = self.said["tcp"].rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.process.terminate()
        self.process.communicate(timeout=TIMEOUT_S)


def client_of(key, *endpoints, **more):
    """As `borrow` sets it for a rank."""
    return {
        **NATIVE,
        "OCL_ICD_VENDORS": str(native_path("lib/libtoposeat-cl.so")),
        "TOPOSEAT_CL_DEVICES": " ".join(endpoints),
        "TOPOSEAT_CL_KEY": key,
        **more,
    }


def wait_until(met):
    """Look again and again, as long as a client may take."""
    end = time.monotonic() + TIMEOUT_S
    while not met():
        assert time.monotonic() < end
        time.sleep(0.01)


def greet(peer, key, *, client, version=PROTOCOL):
    """Greet as one of both sides does; the version that the other says, or what came of it."""
    mine = secrets.token_bytes(32)
    peer.sendall(mine)
    theirs = receive(peer, 32)
    nonces = mine + theirs if client else theirs + mine
    roles = (b"c", b"p") if client else (b"p", b"c")
    proof, wanted = (hmac.digest(key, role + nonces, hashlib.sha256) for role in roles)
    peer.sendall(proof)
    if receive(peer, 32) != wanted:
        return b""
    peer.sendall(version)
    return receive(peer, len(PROTOCOL))


def receive(peer, length):
    """So many bytes, or fewer where the other side is done."""
    got = b""
    while len(got) < length:
        try:
            more = peer.recv(length - len(got))
        except ConnectionResetError:
            more = b""
        if not more:
            break
        got += more
    return got
