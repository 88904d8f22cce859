"""Variables that a launcher hands to its ranks are named in its line, their values are not."""

import pytest

from toposeat.launch.launchers.launcher import LauncherKind
from toposeat.launch.line import hand_on, parse_launch_line


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("openmpi", "mpirun -n 2 ./a", "mpirun -x KEY -n 2 ./a"),
        (
            "openmpi",
            "mpirun -x A -n 1 ./a : -n 1 ./b",
            "mpirun -x KEY -x A -n 1 ./a : -x KEY -n 1 ./b",
        ),
        (
            "openmpi",
            "mpirun --mca mca_base_env_list A;B --mca btl self -n 2 ./a",
            "mpirun --mca mca_base_env_list A;B;KEY --mca btl self -n 2 ./a",
        ),
        ("mpich", "mpiexec -n 2 ./a", "mpiexec -n 2 ./a"),
        ("mpich", "mpiexec -genvall -n 2 ./a", "mpiexec -genvall -n 2 ./a"),
        ("mpich", "mpiexec -genvlist A,B -n 2 ./a", "mpiexec -genvlist A,B,KEY -n 2 ./a"),
        ("mpich", "mpiexec -genvnone -n 2 ./a", "mpiexec -genvlist KEY -n 2 ./a"),
        (
            "intel",
            "mpiexec -n 1 ./a : -envlist A -n 1 ./b : -envnone -n 1 ./c",
            "mpiexec -n 1 ./a : -envlist A,KEY -n 1 ./b : -envlist KEY -n 1 ./c",
        ),
        ("pals", "mpiexec --envlist A -n 2 ./a", "mpiexec --envlist A,KEY -n 2 ./a"),
        ("srun", "srun -n 2 ./a", "srun -n 2 ./a"),
        ("srun", "srun --export=ALL,A=1 -n 2 ./a", "srun --export=ALL,A=1 -n 2 ./a"),
        ("srun", "srun --export=A,B=1 -n 2 ./a", "srun --export=A,B=1,KEY -n 2 ./a"),
        ("srun", "srun --export NONE -n 2 ./a", "srun --export=KEY -n 2 ./a"),
        ("flux", "flux run -n 2 ./a", "flux run -n 2 ./a"),
        ("flux", "flux run --env=-* -n 2 ./a", "flux run --env=-* -n 2 --env=KEY ./a"),
        ("torchrun", "torchrun --nproc-per-node 2 a.py", "torchrun --nproc-per-node 2 a.py"),
    ],
)
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
