"""Fortran (mpif.h, mpi, mpi_f08) and Python (mpi4py) are seen as C is."""

import os
import sys
from dataclasses import replace

import pytest

from tests.support.interposed import PROGRAMS, compile_c, doubts, library, run_ranks
from tests.support.mpi import FEW_MPI_NAMES
from toposeat.launch import parse_launch_line
from toposeat.model.traffic import TrafficKind
from toposeat.profile import choose_library, read_records

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

FORTRAN = ["debian-openmpi", "debian-mpich"]


@pytest.mark.parametrize("mpi", FORTRAN, indirect=True)
@pytest.mark.parametrize("binding", ["mpif", "mpi"])
def test_fortran(mpi, binding, build_dir, tmp_path):
    ranks = 3
    program = compile_c(mpi, PROGRAMS / f"ring_{binding}.f90", build_dir)
    done = run_ranks(mpi, ranks, [program], tmp_path / "records")
    assert done.returncode == 0, done.stderr
    traffic = read_records(tmp_path / "records")
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert table.target.tolist() == [(rank + 1) % ranks for rank in range(ranks)]
    assert table.bytes.tolist() == [10 * 800 + 2 * 400] * ranks
    assert table.messages.tolist() == [12] * ranks
    assert {(e.operation, e.bytes, e.calls) for e in traffic.collectives} == {("allreduce", 800, 1)}


@pytest.mark.parametrize("mpi", FORTRAN, indirect=True)
def test_fortran_f08_example(mpi, examples_dir, build_dir, tmp_path):
    ranks = 4
    program = compile_c(mpi, examples_dir / "halo_f08" / "halo_f08.f90", build_dir)
    done = run_ranks(mpi, ranks, [program], tmp_path / "records")
    assert done.returncode == 0, done.stderr
    table = read_records(tmp_path / "records").table(kind=TrafficKind.POINT_TO_POINT)
    sent = table.dense_bytes(ranks)
    for rank in range(ranks):
        assert sent[rank, (rank + 1) % ranks] == 10 * 4096 * 8
        assert sent[rank, (rank - 1) % ranks] == 10 * 2048 * 8
    assert sent.sum() == ranks * 10 * (4096 + 2048) * 8
    assert table.messages.tolist() == [10] * 2 * ranks


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_mpi4py_example(mpi, examples_dir, tmp_path):
    """mpi4py's wheel has modules for libmpi.so.40 and libmpi.so.12.

    For other MPIs, a folder with an mpi4py that was compiled for NAME is given as
    TOPOSEAT_TEST_MPI4PY_NAME (- as _, upper case).
    """
    pytest.importorskip("mpi4py")
    if mpi.name == "debian-mpich" or mpi.abi == "abi":
        variable = f"TOPOSEAT_TEST_MPI4PY_{mpi.name.upper().replace('-', '_')}"
        if variable not in os.environ:
            pytest.skip(f"the wheel of mpi4py is not for {mpi.name}, and no {variable} is given")
        mpi = replace(mpi, env={**mpi.env, "PYTHONPATH": os.environ[variable]})
    ranks, iterations = 4, 10
    script = examples_dir / "mpi4py_ring" / "ring.py"
    program = [sys.executable, str(script), str(iterations)]
    launched = parse_launch_line([str(mpi.mpirun), *mpi.run_flags, "-n", str(ranks), *program])
    assert choose_library(launched, mpi.env) == library(mpi)
    done = run_ranks(mpi, ranks, program, tmp_path / "records")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ring: 10 iterations, sum 6.0\n"
    traffic = read_records(tmp_path / "records")
    assert doubts(traffic) == ()
    sent = traffic.table(kind=TrafficKind.POINT_TO_POINT).dense_bytes(ranks)
    for rank in range(ranks):
        # Pickled objects add some bytes, to the left and among the ranks of the pickled allreduce.
        ring = sent[rank, (rank + 1) % ranks]
        assert 0 <= ring - iterations * 8192 * 8 < 1000
        assert 0 < sent[rank, (rank - 1) % ranks] < 1000 or ranks == 2
    exact = traffic.table(kind=TrafficKind.EXACT_COLLECTIVE).dense_bytes(ranks)
    events = [e for e in traffic.collectives if e.operation == "alltoallv"]
    assert sorted(e.bytes for e in events) == [8 * 10] * ranks
    assert all(exact[r, p] >= 8 * (p + 1) for r in range(ranks) for p in range(ranks) if p != r)
