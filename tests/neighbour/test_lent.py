"""A user's lent device beside a stranger on the same node: nobody else gets it, nobody loses it."""

import json
import os
import secrets
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.neighbour.conftest import STRANGER, VICTIM
from tests.support.lent import client_of, run, why_no_opencl
from toposeat.installed import native_path

MANY = 300

# Looks for what it can reach: connects to both doors without a key, and says what came of it.
INTRUDER = """
import os, pathlib, socket, sys
unix, port, pid = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def tell(what, call):
    try:
        print(what, call())
    except OSError as error:
        print(what, type(error).__name__)
def speak(peer):
    peer.settimeout(10)
    peer.sendall(bytes(64))
    return len(peer.recv(1000)) > 64
def by_unix():
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(unix)
    return speak(peer)
tell("folder", lambda: os.listdir(os.path.dirname(unix)))
tell("unix", by_unix)
tell("tcp", lambda: speak(socket.create_connection(("127.0.0.1", port))))
tell("environment", lambda: pathlib.Path("/proc", pid, "environ").read_bytes())
"""
# Keeps connections that say nothing, or a byte now and then.
CROWD = """
import socket, sys, time
idle = []
def more():
    try:
        idle.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2))
    except OSError:
        pass
for _ in range(int(sys.argv[2])):
    more()
print("crowded", flush=True)
while True:
    time.sleep(0.5)
    for peer in idle[::2]:
        try:
            peer.sendall(b"x")
        except OSError:
            idle.remove(peer)
            more()
"""


@dataclass(frozen=True)
class Lent:
    """The victim's proxy, and the library for its clients."""

    key: str
    unix: str
    port: int
    pid: int
    library: Path

    def devices(self, over):
        """How many a program of the victim's has."""
        endpoint = f"unix:{self.unix}#0" if over == "unix" else f"tcp:127.0.0.1:{self.port}#0"
        environment = client_of(self.key, endpoint, OCL_ICD_VENDORS=str(self.library))
        user = {"user": VICTIM, "group": VICTIM, "extra_groups": [], "cwd": "/"}
        return run(["clinfo", "--raw"], environment, **user).stdout.count("  CL_DEVICE_NAME ")


@pytest.fixture
def lent(open_folder):
    if why := why_no_opencl():
        pytest.skip(why)
    program, library = open_folder / "toposeat-clproxy", open_folder / "libtoposeat-cl.so"
    shutil.copy(native_path("bin/toposeat-clproxy"), program)
    shutil.copy(native_path("lib/libtoposeat-cl.so"), library)
    key = secrets.token_hex(32)
    with subprocess.Popen(
        [program, "--address", "127.0.0.1"],
        env={"PATH": "/usr/bin:/bin", "TOPOSEAT_CL_KEY": key},
        user=VICTIM,
        group=VICTIM,
        extra_groups=[],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        said = json.loads(process.stdout.readline())
        port = int(said["tcp"].rpartition(":")[2])
        yield Lent(key, said["unix"], port, process.pid, library)
        process.terminate()


def test_a_stranger_reaches_nothing(as_user, lent):
    words = ["/usr/bin/python3", "-c", INTRUDER, lent.unix, str(lent.port), str(lent.pid)]
    done = as_user(STRANGER, *words)
    assert done.returncode == 0, done.stderr
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    refused = "PermissionError"
    assert told == {"folder": refused, "unix": refused, "tcp": "False", "environment": refused}
    assert lent.key not in Path(f"/proc/{lent.pid}/cmdline").read_text()


def test_even_root_is_no_user_of_the_socket(lent):
    """Who may connect is no matter of the folder's mode alone."""
    assert os.geteuid() == 0
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10)
        peer.connect(lent.unix)
        assert peer.recv(100) == b""


def test_a_crowd_at_the_door_shuts_nobody_out(lent):
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", CROWD, str(lent.port), str(MANY)],
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
    ) as crowd:
        assert crowd.stdout.readline() == "crowded\n"
        try:
            found = [lent.devices(over) for over in ("unix", "tcp") for _ in range(3)]
        finally:
            crowd.kill()
    assert found == [1] * 6
