"""Jobs of a user beside a stranger on the same node: nothing is forged, nothing stops."""

import json
import shutil
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.neighbour.conftest import STRANGER, VICTIM

pytestmark = pytest.mark.mpi

SENT = [[0, 1_000_000], [1_000_000, 0]]
# As far as toposeat knows, srun may start tasks on any node; these are all here.
SRUN = """#!/bin/sh
while :; do case $1 in -n) n=$2; shift 2;; -*) shift;; *) break;; esac; done
exec mpiexec.mpich -n "$n" "$@"
"""


@pytest.fixture(scope="session")
def programs(open_folder):
    """A folder with the program and an srun."""
    if shutil.which("mpicc.mpich") is None:
        pytest.skip("needs Debian's MPICH: libmpich-dev, mpich")
    folder = open_folder / "programs"
    folder.mkdir()
    source = Path(__file__).with_name("program.c")
    subprocess.run(["mpicc.mpich", "-o", folder / "program", source], check=True)
    (folder / "srun").write_text(SRUN)
    (folder / "srun").chmod(0o755)
    return folder


@contextmanager
def stranger():
    """Another user's attacks as long as the block; what they achieved is known at its end."""
    script = Path(__file__).with_name("stranger.py").read_text()
    told = {}
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", script, str(VICTIM)],
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    ) as attacker:
        assert attacker.stdout.readline() == "begun\n"
        yield told
        said, _ = attacker.communicate()
    told.update(json.loads(said))


def start(installed, programs, folder, words):
    """A job of the victim's, whose ranks wait for `folder/go`."""
    line, variables = installed
    return subprocess.Popen(
        [*line, *words],
        env={**variables, "HOME": "/nonexistent", "PATH": f"{programs}:/usr/bin:/bin"},
        user=VICTIM,
        group=VICTIM,
        extra_groups=[],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ports_of_toposeat():
    """Inodes of listening sockets that processes of toposeat hold in a second; as root.

    A table that changes while it is read has gaps. The stranger has that second, too.
    """
    held = set()
    for _ in range(10):
        held |= _ports_now()
        time.sleep(0.1)
    return held


def _ports_now():
    inodes = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] in ("0A", "07"):  # listens; or, of udp, is bound
                inodes.add(words[9])
    held = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_ours = b"toposeat.cli.main" in b" ".join(words[:3]) or words[0].endswith(b"-exec")
            if process.stat().st_uid == VICTIM and is_ours:
                for each in (process / "fd").iterdir():
                    with suppress(FileNotFoundError):  # one that it has just closed
                        held.add(str(each.readlink()))
        except OSError:
            continue
    return {inode for inode in inodes if f"socket:[{inode}]" in held}


def wait_for_ranks(program, job):
    end = time.monotonic() + 60
    while time.monotonic() < end and job.poll() is None:
        found = subprocess.run(
            ["pgrep", "-c", "-u", str(VICTIM), "-f", f"^{program} "],
            capture_output=True,
            check=False,
        )
        if int(found.stdout or 0) >= 2:
            return
        time.sleep(0.05)
    raise AssertionError(job.communicate())


@pytest.mark.parametrize("launcher", ["mpiexec.mpich", "srun"])
def test_a_profile_is_what_the_ranks_sent(as_user, installed, programs, scratch, launcher):
    job_folder, program = scratch / "job", str(programs / "program")
    with stranger() as told:
        words = [
            "profile",
            "-o",
            "p.prof",
            "--",
            launcher,
            "-n",
            "2",
            program,
            str(job_folder / "go"),
        ]
        job = start(installed, programs, job_folder, words)
        wait_for_ranks(program, job)
        held = ports_of_toposeat()
        (job_folder / "go").touch()
        out, err = job.communicate(timeout=100)
    assert job.returncode == 0, err
    assert bool(held) == (launcher == "srun"), "a port is opened where ranks may be elsewhere"
    assert bool(told["ports"]) == (launcher == "srun"), "the stranger found what it was to attack"
    assert (told["secrets"], told["greeted"], told["written"], told["told"]) == ([], 0, 0, 0)
    done = as_user(VICTIM, "toposeat", "report", "p.prof", "--json", cwd=job_folder)
    report = json.loads(done.stdout)
    assert report["ranks"] == 2
    assert report["traffic"]["point-to-point"]["host"]["bytes"] == SENT, out


@pytest.mark.parametrize("launcher", ["mpiexec.mpich", "srun"])
def test_a_job_starts_as_placed(as_user, installed, programs, scratch, launcher):
    job_folder, program = scratch / "job", str(programs / "program")
    done = as_user(
        VICTIM, "toposeat", "map", "ring:2", "-t", "dgx-1v", "-o", "p.place", cwd=job_folder
    )
    assert done.returncode == 0, done.stderr
    with stranger() as told:
        run = ["run", "-p", "p.place", "--", launcher, "-n", "2", program, str(job_folder / "go")]
        words = ["emulate", "-t", "dgx-1v", "--", *installed[0], *run]
        job = start(installed, programs, job_folder, words)
        wait_for_ranks(program, job)
        held = ports_of_toposeat()
        (job_folder / "go").touch()
        _, err = job.communicate(timeout=100)
    assert job.returncode == 0, err
    assert "mismatch" not in err
    assert "unverified" not in err
    assert bool(held) == (launcher == "srun"), err
    assert (told["secrets"], told["greeted"], told["written"], told["told"]) == ([], 0, 0, 0)
