"""The matrices stay exact in every cell, however a rank ends."""

import pytest

from tests.support.interposed import PROGRAMS, compile_c, read_truth, run_ranks
from tests.support.mpi import FEW_MPI_NAMES
from tests.support.raw_records import matrices, records_of_ranks
from toposeat.profile.records.segment import State

pytestmark = [pytest.mark.mpi, pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)]

RANKS = 3


@pytest.mark.parametrize("how", ["segv", "abort", "kill", "exit"])
def test_every_cell(mpi, how, build_dir, tmp_path):
    program = compile_c(mpi, PROGRAMS / "crash.c", build_dir)
    done = run_ranks(mpi, RANKS, [program, how, tmp_path / "truth"], tmp_path / "records")
    assert done.returncode != 0
    records = records_of_ranks(tmp_path / "records", RANKS)
    expected = read_truth(tmp_path / "truth", RANKS)[0]
    assert expected[1].sum() == 49 * RANKS
    assert (matrices(records, RANKS)[0] == expected).all()
    states = [record.state for record in records]
    assert states[1] is (State.ABORTED if how == "abort" else State.RUNNING)
