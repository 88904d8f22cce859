"""`compare PLACE -- LAUNCH` as its user meets it: refusals, failures, the lines."""

import json
import shlex
import subprocess
import sys

import pytest

from tests.support.processes import ran
from toposeat.cli.main import main
from toposeat.mapping import seat_ranks
from toposeat.model.placement_file import save_placement
from toposeat.topology import read_topology

pytestmark = pytest.mark.mpi
MPICH = pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)  # starts at once
TOPOSEAT = (sys.executable, "-c", "from toposeat.cli.main import entry; entry()")
SECONDS = "([-0-9.,]+) s"


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "p.place"
    save_placement(
        seat_ranks(read_topology("power9-4"), 2, (3, 1), metadata={}), path, overwrite=True
    )
    return path


def launcher(mpi, ranks):
    return [str(mpi.mpirun), *mpi.run_flags, "-n", str(ranks)]


def words(place, *options):
    return ["compare", str(place), "-t", "power9-4", "--traffic", "ring:2", *options]


def compare(mpi, place, *options, script, ranks=2):
    line = [*launcher(mpi, ranks), "sh", "-c", script]
    return ran(
        [*TOPOSEAT, *words(place, *options), "--", *line],
        env=dict(mpi.env),
        stdin=subprocess.DEVNULL,
    )


@MPICH
def test_a_failure_says_which_run_and_keeps_the_exit_code(mpi, place, tmp_path):
    marks = tmp_path / "marks"  # two of the default's ranks; the placement's come after
    script = f"echo x >>{marks}; [ $(grep -c x {marks}) -le 2 ] || exit 7"
    done = compare(mpi, place, "--json", "--repeats", "2", script=script)
    assert (done.returncode, done.stdout) == (7, "")
    cause, hint = done.stderr.splitlines()[-2:]
    assert cause == (
        f"error: a run of {place} ended with exit code 7 (repeat 1 of 2; the runs before it are"
        " dropped)"
    )
    assert hint.startswith("hint:  its messages are above; its ")


@MPICH
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo nothing here", "no time found by "),
        ("echo 0.000 s", "'0.000', found by "),
    ],
)
def test_a_time_that_is_none(mpi, place, script, said):
    done = compare(mpi, place, "--repeats", "1", "--time", SECONDS, script=script)
    assert (done.returncode, done.stdout) == (1, "")
    cause, hint = done.stderr.rstrip().split("\n", 1)
    assert said in cause
    if said.startswith("no time"):
        assert hint.endswith("its output ends with 'nothing here'")
    assert hint.startswith("hint:  group 1 must be ")


@MPICH
def test_what_cannot_work_is_refused_before_the_first_run(mpi, place, tmp_path):
    script = f"touch {tmp_path / 'ran'}"
    done = compare(mpi, place, script=script, ranks=3)
    assert done.returncode == 2
    assert "for 2 ranks, the launch line starts 3 ranks" in done.stderr
    done = compare(mpi, place, "--time", "([0-9", script=script)
    assert done.returncode == 2
    assert "is not a regular expression" in done.stderr
    assert not (tmp_path / "ran").exists()


@MPICH
def test_a_dry_run_prints_the_lines(mpi, place, capsys):
    line = [*launcher(mpi, 2), "echo", "a b"]
    assert main([*words(place, "--dry-run"), "--", *line]) == 0
    default, placed = map(shlex.split, capsys.readouterr().out.splitlines())
    assert default == line
    assert placed[-2:] == ["echo", "a b"]
    assert str(place) in placed


@MPICH
def test_one_repeat_has_no_verdict(mpi, place):
    done = compare(mpi, place, "--json", "--repeats", "1", "--time", SECONDS, script="echo 2 s")
    assert done.returncode == 0, done.stderr
    clocked = json.loads(done.stdout)["clocked"]
    assert clocked["default_s"] == clocked["again_s"] == [2.0]
    assert clocked["orders"][0]["gain"]["low"] is None
    assert clocked["orders"][0]["is_noise"] is True
