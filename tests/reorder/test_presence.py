"""A library that is missing in some ranks, or off in some: the job runs, and nothing is reordered.

Jobs here are ended from outside where they hang, and that fails the test.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.reorder.reordered import LIBRARY, PROGRAMS, run_reordered
from tests.support.interposed import compile_c, compile_with_static_mpi
from tests.support.mpi import ALL_MPI_NAMES, MPI_NAMES
from toposeat.installed import native_path
from toposeat.launch.home import Home

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

NODES = (0, 1, 0, 1)
NEW_RANK = "0 2 1 3"
WITHOUT = "are without this library"
BY_RANK = 'case ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} in %s) %s;; esac; exec "$0" "$@"'
ON_SEVERAL_NODES = {"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MPI_LOCALNRANKS": "2"}


def _at(ranks, do):
    """The start of a command that does something else first in some ranks."""
    return ["sh", "-c", BY_RANK % (ranks, do)]


def _run(mpi, build_dir, before=(), *, arguments=(), variables=None):
    """The new rank of each old one in a row of four, and what toposeat said."""
    program = compile_c(mpi, PROGRAMS / "row.c", build_dir)
    command = [*before, program, *arguments]
    done = run_reordered(mpi, NODES, command, variables=variables, limit_s=60)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("toposeat")]
    return done.stdout.strip(), said


def _check_refused(outcome, why):
    new_rank, said = outcome
    assert new_rank == "0 1 2 3"
    assert len(said) == 1, said
    assert why in said[0]
    assert said[0].endswith("communicators are as the MPI makes them")


@pytest.mark.parametrize("mpi", ALL_MPI_NAMES, indirect=True)
def test_all_ranks_have_it(mpi, build_dir):
    new_rank, said = _run(mpi, build_dir)
    assert new_rank == NEW_RANK
    assert len(said) == 1
    assert "2 of 6 neighbour links between nodes" in said[0]


@pytest.mark.parametrize("mpi", MPI_NAMES[:2], indirect=True)
def test_a_good_order_stays(mpi, build_dir):
    new_rank, said = _run(mpi, build_dir, variables={"TOPOSEAT_REORDER_NODES": "0,0,1,1"})
    assert new_rank == "0 1 2 3"
    assert "2 of 6 neighbour links between nodes, no better order" in said[0]


@pytest.mark.parametrize("ranks", ["0", "1|2|3"])
@pytest.mark.parametrize("mpi", MPI_NAMES, indirect=True)
def test_off_in_some_ranks(mpi, build_dir, ranks):
    before = _at(ranks, "export TOPOSEAT_REORDER=0")
    _check_refused(_run(mpi, build_dir, before), "TOPOSEAT_REORDER=0 in some ranks")


@pytest.mark.parametrize("mpi", ALL_MPI_NAMES, indirect=True)
def test_missing_in_some_ranks(mpi, build_dir):
    outcome = _run(mpi, build_dir, _at("0|1|3", "unset LD_PRELOAD"))
    _check_refused(outcome, f"3 of 4 ranks {WITHOUT}")


@pytest.mark.parametrize("mpi", MPI_NAMES[:2], indirect=True)
def test_pretended_nodes_in_some_ranks(mpi, build_dir):
    """The others ask MPI, which is one more collective: for all or for none."""
    new_rank, _ = _run(mpi, build_dir, _at("0|2", "unset TOPOSEAT_REORDER_NODES"))
    assert new_rank == NEW_RANK  # nodes 0, 1, 0, 1 again: the first rank's number, or pretended


@pytest.mark.parametrize("mpi", ["debian-mpich"], indirect=True)
def test_a_program_with_a_static_mpi(mpi, build_dir):
    """The library is there, and no call of the program comes through it."""
    static = compile_with_static_mpi(mpi, PROGRAMS / "row.c", build_dir)
    before = _at("1|2", f'exec "{static}"')
    _check_refused(_run(mpi, build_dir, before), f"2 of 4 ranks {WITHOUT}")


@pytest.mark.parametrize("mpi", MPI_NAMES, indirect=True)
def test_several_nodes_without_a_home(mpi, build_dir):
    """By hand: who sees two of four ranks on its node cannot know of the others."""
    outcome = _run(mpi, build_dir, variables=ON_SEVERAL_NODES)
    _check_refused(outcome, "this job has several nodes")
    off = _run(mpi, build_dir, variables={**ON_SEVERAL_NODES, "TOPOSEAT_REORDER": "0"})
    assert off == ("0 1 2 3", [])


@pytest.mark.parametrize("mpi", MPI_NAMES[:2], indirect=True)
def test_jobs_at_once_do_not_mix(mpi, build_dir):
    """Half of the ranks of each: together they would look like one whole job."""
    halves = [_at(ranks, "unset LD_PRELOAD") for ranks in ("0|1", "2|3")]
    with ThreadPoolExecutor(len(halves)) as pool:
        outcomes = list(pool.map(lambda before: _run(mpi, build_dir, before), halves))
    for outcome in outcomes:
        _check_refused(outcome, f"2 of 4 ranks {WITHOUT}")


@pytest.mark.parametrize("mpi", MPI_NAMES[:2], indirect=True)
@pytest.mark.parametrize("missing", [False, True])
def test_spawned_ranks_are_a_world_of_their_own(mpi, build_dir, missing):
    """They have the launcher's environment, not that of who spawned them."""
    inherited = {"LD_PRELOAD": str(native_path(LIBRARY)), "TOPOSEAT_REORDER_NODES": "0,1,0,1"}
    outer = replace(mpi, env={**mpi.env, **inherited})
    before = _at("2", "unset LD_PRELOAD") if missing else []
    new_rank, said = _run(outer, build_dir, before, arguments=["spawn"])
    parents = "0 1 2 3" if missing else NEW_RANK
    assert sorted(new_rank.splitlines()) == [parents, f"spawned {NEW_RANK}"]
    assert len(said) == 2
    assert any(WITHOUT in line for line in said) == missing


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("mpi", MPI_NAMES, indirect=True)
def test_home_counts_the_ranks_of_several_nodes(mpi, build_dir, tmp_path, missing):
    before = _at("1|2", "unset LD_PRELOAD") if missing else []
    with Home(tmp_path, hosts=["localhost"]) as home:
        way = {"TOPOSEAT_HOME": home.words, **home.environment}
        outcome = _run(mpi, build_dir, before, variables={**ON_SEVERAL_NODES, **way})
    if missing:
        _check_refused(outcome, f"2 of 4 ranks {WITHOUT}")
    else:
        assert outcome[0] == NEW_RANK
        assert "2 of 6 neighbour links between nodes" in outcome[1][0]


@pytest.mark.parametrize("mpi", MPI_NAMES[:2], indirect=True)
def test_a_home_that_cannot_be_reached(mpi, build_dir):
    way = {"TOPOSEAT_HOME": "9:1:127.0.0.1", "TOPOSEAT_HOME_KEY": "00"}
    outcome = _run(mpi, build_dir, variables={**ON_SEVERAL_NODES, **way})
    _check_refused(outcome, "the ranks of this job cannot all be heard")
