"""A library that is missing in some ranks, or off in some: the job runs, and nothing is reordered.

Jobs here are ended from outside where they hang, and that fails the test. Where ranks wait ten
seconds for others that never come, a test takes the outcome of its job from `waited`.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reorder.reordered import LIBRARY, PROGRAMS, run_reordered
from tests.support.interposed import compile_c, compile_with_static_mpi
from tests.support.mpi import ALL_MPI_NAMES, MPI_NAMES, MpiToolchain, find_mpi
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
    program = compile_c(mpi, PROGRAMS / "row.c", build_dir, "-rdynamic")
    command = [*before, program, *arguments]
    done = run_reordered(mpi, NODES, command, variables=variables, limit_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("toposeat")]
    return done.stdout.strip(), said


def _check_refused(outcome, why):
    new_rank, said = outcome
    assert new_rank == "0 1 2 3"
    assert len(said) == 1, said
    assert why in said[0]
    assert said[0].endswith("communicators are as the MPI makes them")


@pytest.fixture(scope="session")  # tests of other files stand between those of two MPIs
def all_waited(request, build_dir, tmp_path_factory):
    """By name of the test: all jobs wait side by side."""
    asked = [
        (item.name, _WAITING[item.originalname], found)
        for item in request.session.items
        if item.path == Path(__file__) and "waited" in item.fixturenames
        for found in [find_mpi(item.callspec.params["mpi"])]
        if isinstance(found, MpiToolchain)
    ]
    with ThreadPoolExecutor(len(asked) or 1) as pool:
        yield {
            name: pool.submit(job, mpi, build_dir, tmp_path_factory.mktemp("home"))
            for name, job, mpi in asked
        }


@pytest.fixture
def waited(request, all_waited):
    """What the job of this test has come to."""
    return all_waited[request.node.name].result()


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


def _three_missing(mpi, build_dir, folder):
    del folder
    return _run(mpi, build_dir, _at("0|1|3", "unset LD_PRELOAD"))


@pytest.mark.parametrize("mpi", ALL_MPI_NAMES, indirect=True)
def test_missing_in_some_ranks(mpi, waited):
    _check_refused(waited, f"3 of 4 ranks {WITHOUT}")


@pytest.mark.parametrize("mpi", MPI_NAMES[:2], indirect=True)
def test_pretended_nodes_in_some_ranks(mpi, build_dir):
    """The others ask MPI, which is one more collective: for all or for none."""
    new_rank, _ = _run(mpi, build_dir, _at("0|2", "unset TOPOSEAT_REORDER_NODES"))
    assert new_rank == NEW_RANK  # nodes 0, 1, 0, 1 again: the first rank's number, or pretended


def _two_static(mpi, build_dir, folder):
    del folder
    static = compile_with_static_mpi(mpi, PROGRAMS / "row.c", build_dir)
    return _run(mpi, build_dir, _at("1|2", f'exec "{static}"'))


@pytest.mark.parametrize("mpi", ["debian-mpich"], indirect=True)
def test_a_program_with_a_static_mpi(mpi, waited):
    """The library is there, and no call of the program comes through it."""
    _check_refused(waited, f"2 of 4 ranks {WITHOUT}")


@pytest.mark.parametrize("mpi", MPI_NAMES, indirect=True)
def test_several_nodes_without_a_home(mpi, build_dir):
    """By hand: who sees two of four ranks on its node cannot know of the others."""
    outcome = _run(mpi, build_dir, variables=ON_SEVERAL_NODES)
    _check_refused(outcome, "this job has several nodes")
    off = _run(mpi, build_dir, variables={**ON_SEVERAL_NODES, "TOPOSEAT_REORDER": "0"})
    assert off == ("0 1 2 3", [])


def _two_halves(mpi, build_dir, folder):
    del folder
    halves = [_at(ranks, "unset LD_PRELOAD") for ranks in ("0|1", "2|3")]
    with ThreadPoolExecutor(len(halves)) as pool:
        return list(pool.map(lambda before: _run(mpi, build_dir, before), halves))


@pytest.mark.parametrize("mpi", MPI_NAMES[:2], indirect=True)
def test_jobs_at_once_do_not_mix(mpi, waited):
    """Half of the ranks of each: together they would look like one whole job."""
    for outcome in waited:
        _check_refused(outcome, f"2 of 4 ranks {WITHOUT}")


def _spawned(mpi, build_dir, before=()):
    inherited = {"LD_PRELOAD": str(native_path(LIBRARY)), "TOPOSEAT_REORDER_NODES": "0,1,0,1"}
    outer = replace(mpi, env={**mpi.env, **inherited})
    return _run(outer, build_dir, before, arguments=["spawn"])


def _one_of_those_that_spawn_missing(mpi, build_dir, folder):
    del folder
    return _spawned(mpi, build_dir, _at("2", "unset LD_PRELOAD"))


@pytest.mark.parametrize("mpi", MPI_NAMES[:2], indirect=True)
def test_spawned_ranks_are_a_world_of_their_own(mpi, build_dir):
    """They have the launcher's environment, not that of who spawned them."""
    new_rank, said = _spawned(mpi, build_dir)
    assert sorted(new_rank.splitlines()) == [NEW_RANK, f"spawned {NEW_RANK}"]
    assert len(said) == 2
    assert not any(WITHOUT in line for line in said)


@pytest.mark.parametrize("mpi", MPI_NAMES[:2], indirect=True)
def test_spawned_ranks_are_counted_by_themselves(mpi, waited):
    new_rank, said = waited
    assert sorted(new_rank.splitlines()) == ["0 1 2 3", f"spawned {NEW_RANK}"]
    assert len(said) == 2
    assert sum(WITHOUT in line for line in said) == 1


def _by_home(mpi, build_dir, folder, before=()):
    with Home(folder, hosts=["localhost"]) as home:
        way = {"TOPOSEAT_HOME": home.words, **home.environment}
        return _run(mpi, build_dir, before, variables={**ON_SEVERAL_NODES, **way})


def _two_missing_at_home(mpi, build_dir, folder):
    return _by_home(mpi, build_dir, folder, _at("1|2", "unset LD_PRELOAD"))


@pytest.mark.parametrize("mpi", MPI_NAMES, indirect=True)
def test_home_counts_the_ranks_of_several_nodes(mpi, build_dir, tmp_path):
    new_rank, said = _by_home(mpi, build_dir, tmp_path)
    assert new_rank == NEW_RANK
    assert "2 of 6 neighbour links between nodes" in said[0]


@pytest.mark.parametrize("mpi", MPI_NAMES, indirect=True)
def test_home_misses_ranks_of_several_nodes(mpi, waited):
    _check_refused(waited, f"2 of 4 ranks {WITHOUT}")


@pytest.mark.parametrize("mpi", MPI_NAMES[:2], indirect=True)
def test_a_home_that_cannot_be_reached(mpi, build_dir):
    way = {"TOPOSEAT_HOME": "9:1:127.0.0.1", "TOPOSEAT_HOME_KEY": "00"}
    outcome = _run(mpi, build_dir, variables={**ON_SEVERAL_NODES, **way})
    _check_refused(outcome, "the ranks of this job cannot all be heard")


_WAITING = {
    "test_missing_in_some_ranks": _three_missing,
    "test_a_program_with_a_static_mpi": _two_static,
    "test_jobs_at_once_do_not_mix": _two_halves,
    "test_spawned_ranks_are_counted_by_themselves": _one_of_those_that_spawn_missing,
    "test_home_misses_ranks_of_several_nodes": _two_missing_at_home,
}
