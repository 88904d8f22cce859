"""Seats on nodes that differ from the plan: all ranks start, or none, and what is missing is said.

The nodes share neither /tmp nor the working directory, and each has a /sys made for the test.
"""

import subprocess
from pathlib import Path

import pytest

from tests.launcher.support import PCI, node_tree, placement_text, seat_line
from tests.support.cluster import LOGIN, toposeat
from tests.support.mpi import FEW_MPI_NAMES, find_mpi
from toposeat.installed import native_path
from toposeat.launch import read_reports, verify
from toposeat.model.placement_file import load_placement

ACTIVE = {"mlx5_0": ("4: ACTIVE", "200 Gb/sec (4X HDR)")}
TELL = (
    "echo rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}} host=$(hostname)"
    " list=$CUDA_VISIBLE_DEVICES nic=$UCX_NET_DEVICES"
    " cpus=$(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status)"
)


@pytest.fixture
def nodes(cluster, tmp_path):
    """Gives every node a /sys with four GPUs and a NIC, unless told otherwise of one."""
    made = []

    def make(**others):
        for name in cluster.nodes:
            tree = cluster.share / tmp_path.name / name
            node_tree(tree, **{"nics": ACTIVE, **others.get(name, {})})  # type: ignore[arg-type]
            own = tree / "sys/devices/system/node/node0"
            own.mkdir(parents=True)
            (own / "cpulist").write_text("0-1\n")
            done = cluster.on(name, ["mount", "--bind", tree / "sys", "/sys"])
            assert done.returncode == 0, done.stderr
            made.append(name)

    yield make
    for name in made:
        assert cluster.on(name, ["umount", "/sys"]).returncode == 0


@pytest.fixture
def place(cluster, tmp_path):
    """Sixteen ranks in blocks, the devices of each node in reverse, in the login node's /tmp."""
    seats = [
        seat_line(
            rank,
            3 - rank % 4,
            host=cluster.nodes[rank // 4],
            local_rank=rank % 4,
            cpus=str(rank % 2),
            node="0",
            nic="mlx5_0",
        )
        for rank in range(16)
    ]
    path = cluster.share / f"{tmp_path.name}.place"
    path.write_text(placement_text(seats, hosts=cluster.nodes))
    local = f"/tmp/local-{path.name}"
    done = cluster.on(LOGIN, ["mv", path, local])
    assert done.returncode == 0, done.stderr
    return Path(local)


def by_srun(cluster):
    return ["srun", f"-N{len(cluster.nodes)}", "--ntasks-per-node=4"]


def by_mpirun(cluster, mpi):
    if mpi.family == "openmpi":
        hosts = ["--host", ",".join(f"{name}:4" for name in cluster.nodes)]
    else:
        hosts = ["-hosts", ",".join(f"{name}:4" for name in cluster.nodes)]
    return [str(mpi.mpirun), "-n", "16", *hosts]


def run(cluster, place, line, *options, **environment):
    words = [toposeat(), "run", "-p", place, *options, "--", *line, "sh", "-c", TELL]
    return cluster.on(LOGIN, words, cwd=Path("/tmp"), environment=environment or None)


def told(text):
    """What each rank said of itself."""
    rows = [dict(word.split("=", 1) for word in line.split()) for line in text.splitlines()]
    return {int(row["rank"]): row for row in rows}


def test_every_rank_has_its_seat_and_a_nic_that_one_node_lacks_is_left_out_there(
    cluster, nodes, place
):
    nodes(tb2={"nics": {}})
    done = run(cluster, place, by_srun(cluster))
    assert done.returncode == 0, done.stderr
    ranks = told(done.stdout)
    assert sorted(ranks) == list(range(16))
    for rank, row in ranks.items():
        assert row["host"] == cluster.nodes[rank // 4]
        assert row["list"] == "3,2,1,0"
        assert row["cpus"] == str(rank % 2)
        assert row["nic"] == ("" if row["host"] == "tb2" else "mlx5_0:1")
    assert done.stderr.count("NIC mlx5_0 is not on this node") == 1
    assert "ranks 4-7: NIC mlx5_0 is not on this node: it is left out" in done.stderr
    assert "mismatch" not in done.stderr.lower()

    blind = run(cluster, place, by_srun(cluster), "--no-verify")
    assert blind.returncode == 0, blind.stderr
    assert "ranks 4-7: NIC mlx5_0 is not on this node: it is left out" in blind.stderr

    strict = run(cluster, place, by_srun(cluster), "--strict")
    assert (strict.returncode, strict.stdout) == (98, "")
    assert "  ranks 4-7: NIC mlx5_0 is not on this node" in strict.stderr


def test_one_wrong_gpu_and_nobody_starts_under_srun(cluster, nodes, place):
    nodes(tb3={"devices": dict.fromkeys(PCI[:3], "0-1")})
    done = run(cluster, place, by_srun(cluster))
    refused(done)


def test_one_wrong_gpu_and_nobody_starts_under_mpirun(cluster, nodes, place, mpi):
    nodes(tb3={"devices": dict.fromkeys(PCI[:3], "0-1")})
    done = run(cluster, place, by_mpirun(cluster, mpi), **mpi.env)
    refused(done)


def refused(done):
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    lines = done.stderr.splitlines()
    verdict = lines.index("Not started: 4 of 16 ranks cannot be seated as placed")
    assert "exit" not in "".join(lines[:verdict]).lower()  # before launchers have their say
    assert lines[verdict + 1] == (
        f"  ranks 8-11: the placement needs device {PCI[3]}, and this process sees"
        f" {PCI[0]}, {PCI[1]}, {PCI[2]} only"
    )
    assert "error: no rank was started: 4 of 16 ranks cannot be seated as placed" in lines


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_all_ranks_are_seated_under_every_mpirun(cluster, nodes, place, mpi):
    nodes()
    done = run(cluster, place, by_mpirun(cluster, mpi), "--strict", **mpi.env)
    assert done.returncode == 0, done.stderr
    ranks = told(done.stdout)
    assert sorted(ranks) == list(range(16))
    assert {row["list"] for row in ranks.values()} == {"3,2,1,0"}
    assert {row["nic"] for row in ranks.values()} == {"mlx5_0:1"}
    assert all(row["cpus"] == str(rank % 2) for rank, row in ranks.items())


@pytest.mark.parametrize("arbitrary", [False, True])
def test_ranks_of_a_node_that_mpich_does_not_take_for_neighbours_are_a_mismatch(
    cluster, tmp_path, arbitrary
):
    """Slurm's pmi2 tells MPICH a wrong map where ranks are placed by -m arbitrary."""
    mpi = find_mpi("wheel-mpich")
    if isinstance(mpi, str):
        pytest.skip(mpi)
    base = cluster.share / tmp_path.name
    base.mkdir()
    (base / "app.c").write_text(
        "#include <mpi.h>\n"
        "int main(int n, char **v) { return MPI_Init(&n, &v) || MPI_Finalize(); }\n"
    )
    compiler = [str(mpi.mpicc), "-o", str(base / "app"), str(base / "app.c")]
    subprocess.run(compiler, env=dict(mpi.env), check=True, capture_output=True)
    hosts = [cluster.nodes[rank // 4] for rank in range(16)]
    (base / "hosts").write_text("\n".join(hosts) + "\n")
    seats = [seat_line(i, 0, host=host, local_rank=i % 4) for i, host in enumerate(hosts)]
    (base / "app.place").write_text(placement_text(seats, hosts=cluster.nodes))
    reports = base / "reports"
    reports.mkdir()
    line = ["srun", "--mpi=pmi2", "-n16"]
    line += ["-m", "arbitrary"] if arbitrary else ["-N4", "--ntasks-per-node=4"]
    line += [native_path("bin/toposeat-exec"), "-m", base / "app.place", "--visibility", "mask"]
    line += ["--report", reports, "--probe", native_path("lib/libtoposeat_probe.so"), base / "app"]
    environment = {**mpi.env, "SLURM_HOSTFILE": str(base / "hosts")} if arbitrary else mpi.env
    done = cluster.on(LOGIN, line, environment=environment)
    assert done.returncode == 0, done.stderr
    found = verify(load_placement(base / "app.place"), read_reports(reports))
    said = [each for seat in found for each in seat.differences if each.startswith("MPICH")]
    assert len(said) == (16 if arbitrary else 0)
    assert all("shares memory with 0 of the 3 other ranks of its node" in each for each in said)
