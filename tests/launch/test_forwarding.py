"""Variables that a launcher hands to its ranks are named in its line, their values are not."""

from pathlib import Path

import pytest

from tests.support.tables import rows
from toposeat.launch import LauncherKind, hand_on, parse_launch_line

LINES = Path(__file__).with_name("lines.txt")


@pytest.mark.parametrize(("kind", "given", "expected"), rows(LINES, "handed on"))
def test_what_the_user_says_is_extended(kind, given, expected):
    line = parse_launch_line(given.split(), identify=lambda _: kind)
    own, added = hand_on(line, ["KEY"], {"KEY": "secret"})
    assert (" ".join(own.argv), added) == (expected, {})


@pytest.mark.parametrize(
    ("kind", "variable", "value", "expected"),
    [
        ("srun", "SLURM_EXPORT_ENV", "NONE", "KEY"),
        ("srun", "SLURM_EXPORT_ENV", "A,B", "A,B,KEY"),
        ("openmpi", "OMPI_MCA_mca_base_env_list", "A", "A;KEY"),
    ],
)
def test_what_the_environment_says_is_extended_there(kind, variable, value, expected):
    line = parse_launch_line(["x", "-n", "2", "./a"], identify=lambda _: kind)
    own, added = hand_on(line, ["KEY"], {variable: value})
    assert (own.argv, added) == (line.argv, {variable: expected})


def test_options_are_still_found_behind_the_new_words():
    words = ["mpiexec", "-genvnone", "-n", "2", "-ppn", "1", "./a", "b"]
    line = parse_launch_line(words, identify=lambda _: LauncherKind.MPICH)
    own, _ = hand_on(line, ["KEY"], {})
    again = parse_launch_line(own.argv, identify=lambda _: LauncherKind.MPICH)
    assert own.options == again.options
    assert own.changed(["-x"], {"ppn"}).argv == (
        *("mpiexec", "-x", "-genvlist", "KEY", "-n", "2", "./a", "b"),
    )
