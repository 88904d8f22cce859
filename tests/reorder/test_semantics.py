"""With reorder = 1 every role keeps its neighbours, weights and bytes, on every MPI."""

import sys

import pytest

from tests.reorder.reordered import LIBRARY, PROGRAMS, run_reordered
from tests.support.interposed import compile_c
from tests.support.mpi import ALL_MPI_NAMES, FEW_MPI_NAMES
from tests.support.processes import ran
from toposeat.installed import native_path

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

EQUAL = (0, 0, 0, 1, 1, 1)
UNEQUAL = (0, 1, 1, 2, 1, 0)
# What is right for a case does not depend on the MPI; how it is asked does. Six ranks of MPICH on
# two processors take ten times as long as those of Open MPI.
FEWER = {"openmpi": 80, "mpich": 20}
CASES = pytest.mark.parametrize("cases", [None, pytest.param(250, marks=pytest.mark.deep)])


def _tallies(text):
    """Cases, moved ones, links between nodes before and after, of each kind of topology."""
    lines = [line.split() for line in text.splitlines()]
    return {line[0]: [int(line[at]) for at in (1, 3, 5, 7)] for line in lines}


# A device for each rank of a node, of which two are near each other: as toposeat-exec tells it.
_WITH_COSTS = (
    "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; "
    'export TOPOSEAT_REORDER_COSTS="$((rank % 3));500;100,500"; exec "$0" "$@"'
)


def _check_random(mpi, build_dir, cases, nodes, before=()):
    """The program itself compares neighbours, weights, bytes and whatever MPI promises."""
    cases, seed = (cases, cases) if cases else (FEWER[mpi.family], 16)
    program = compile_c(mpi, PROGRAMS / "random_topologies.c", build_dir)
    listed = ",".join(map(str, nodes))
    done = run_reordered(mpi, nodes, [*before, program, str(cases), str(seed), listed])
    assert done.returncode == 0, done.stdout + done.stderr
    assert bool(before) == ("less by link" in done.stderr)
    tallies = _tallies(done.stdout)
    assert sum(tally[0] for tally in tallies.values()) == cases
    for kind, (made, moved, between, after) in tallies.items():
        assert moved > 0, kind
        assert moved <= made
        assert after < between
    assert len(done.stderr.splitlines()) <= 8 * len(nodes)  # no rank says more than eight lines


@CASES
@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_equal_nodes_and_by_link(mpi, build_dir, cases):
    _check_random(mpi, build_dir, cases, EQUAL, ("sh", "-c", _WITH_COSTS))


@CASES
@pytest.mark.parametrize("mpi", ALL_MPI_NAMES, indirect=True)
def test_unequal_nodes(mpi, build_dir, cases):
    _check_random(mpi, build_dir, cases, UNEQUAL)


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_switched_off_by_its_variable(mpi, build_dir):
    program = compile_c(mpi, PROGRAMS / "random_topologies.c", build_dir)
    off = {"TOPOSEAT_REORDER": "0"}
    done = run_reordered(mpi, (0, 1, 0, 1), [program, "20", "1", "0,1,0,1"], variables=off)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(tally[1] == 0 for tally in _tallies(done.stdout).values())
    assert "toposeat" not in done.stderr


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_mistakes_are_the_mpis_to_refuse(mpi, build_dir):
    program = compile_c(mpi, PROGRAMS / "mistakes.c", build_dir)
    reordered = run_reordered(mpi, (0, 1, 0, 1), [program])
    plain = run_reordered(mpi, (0, 1, 0, 1), [program], variables={"LD_PRELOAD": ""})
    assert plain.returncode == 0, plain.stdout + plain.stderr
    assert reordered.stdout == plain.stdout
    assert reordered.returncode == 0, reordered.stderr
    assert "toposeat" not in reordered.stderr


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_mpi4py(mpi):
    """Python loads its MPI privately."""
    pytest.importorskip("mpi4py")
    nodes = (0, 1, 0, 1)
    done = run_reordered(mpi, nodes, [sys.executable, PROGRAMS / "ring_of_pairs.py"])
    assert done.returncode == 0, done.stderr
    new_rank = [int(word) for word in done.stdout.split()]
    assert sorted(new_rank) == [0, 1, 2, 3]
    node_of_role = {role: nodes[rank] for rank, role in enumerate(new_rank)}
    assert node_of_role[0] == node_of_role[1]
    assert node_of_role[2] == node_of_role[3]


def test_it_links_no_mpi_and_no_runtime_of_its_own():
    words = ran(["ldd", native_path(LIBRARY)], check=True).stdout
    assert "libmpi" not in words
    assert "libstdc++" not in words


def test_programs_without_mpi_do_not_notice():
    done = ran(["/bin/echo", "hello"], env={"LD_PRELOAD": str(native_path(LIBRARY))}, check=True)
    assert (done.stdout, done.stderr) == ("hello\n", "")
