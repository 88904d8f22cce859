"""Ranks are reordered beside a tool that wraps MPI, which sees what it sees bare."""

import pytest

from tests.interposer.test_beside_tools import PROGRAMS as TOOLS
from tests.reorder.reordered import PROGRAMS, run_reordered
from tests.support.interposed import compile_c, library
from tests.support.mpi import ALL_MPI_NAMES, FEW_MPI_NAMES
from toposeat.model.traffic import TrafficKind
from toposeat.profile import read_records

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

NODES = (0, 1, 0, 1)
SEES = "tool: inits 4 sends 0 allreduces 0 grids 4 marks 0 of 0"


def tool_of(mpi, build_dir, source="beside.c", *options):
    return compile_c(mpi, TOOLS / source, build_dir, "-shared", "-fPIC", *options)


def lines_of(done, word):
    return [line for line in done.stderr.splitlines() if line.startswith(word)]


@pytest.mark.parametrize("mpi", ALL_MPI_NAMES, indirect=True)
@pytest.mark.parametrize("options", [(), ("-DBY_THREAD",)])
@pytest.mark.parametrize("place", ["linked", "inside", "behind"])
def test_both_see_the_call(mpi, options, place, build_dir):
    link, behind = [], []
    if place == "inside":
        link = [*options, str(TOOLS / "beside.c")]
    elif place == "linked":
        link = ["-Wl,--no-as-needed", str(tool_of(mpi, build_dir, "beside.c", *options))]
    else:
        behind = [tool_of(mpi, build_dir, "beside.c", *options)]
    program = compile_c(mpi, PROGRAMS / "row.c", build_dir, *link)
    done = run_reordered(mpi, NODES, [program], preload=behind, limit_s=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 2 1 3\n"
    assert lines_of(done, "tool: ") == [SEES]
    assert len(lines_of(done, "toposeat: reorder: ")) == 1


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_with_the_recorder(mpi, build_dir, tmp_path):
    """What reordering and the tool ask of MPI by themselves is not the program's traffic."""
    link = ["-Wl,--no-as-needed", str(tool_of(mpi, build_dir))]
    program = compile_c(mpi, PROGRAMS / "row.c", build_dir, *link)
    made = {"TOPOSEAT_PROFILE_DIR": str(tmp_path)}
    done = run_reordered(mpi, NODES, [program], preload=[library(mpi)], variables=made)
    assert (done.returncode, done.stdout) == (0, "0 2 1 3\n"), done.stderr
    assert lines_of(done, "tool: ") == [SEES]
    traffic = read_records(tmp_path)
    assert not len(traffic.table(kind=TrafficKind.POINT_TO_POINT).target)
    assert {(e.operation, e.bytes, e.calls) for e in traffic.collectives} == {("gather", 4, 1)}


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_a_tool_that_goes_past_it_is_named(mpi, build_dir):
    """One that takes the next MPI_X from dlsym: here for MPI_Init and the grid."""
    tool = compile_c(mpi, PROGRAMS / "past.c", build_dir, "-shared", "-fPIC")
    program = compile_c(mpi, PROGRAMS / "row.c", build_dir)
    done = run_reordered(mpi, NODES, [program], preload=[tool], limit_s=60)
    assert (done.returncode, done.stdout) == (0, "0 1 2 3\n"), done.stderr
    said = lines_of(done, "toposeat: reorder: ")
    assert len(said) == 1
    assert "another tool has begun MPI past this library" in said[0]
