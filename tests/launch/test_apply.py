"""The launcher's own arguments beside toposeat-exec."""

import os
from pathlib import Path

import pytest

from tests.support.processes import executable
from tests.support.tables import rows, variables
from toposeat.installed import native_path
from toposeat.launch import run_placed

LINES = Path(__file__).with_name("lines.txt")
# What stands for the first word of a line, and what it answers where its name does not tell.
LAUNCHERS = {
    "ompi": ("orterun", ""),
    "hydra": ("mpiexec.mpich", ""),
    "impi": ("mpirun", "Intel(R) MPI Library for Linux* OS, Version 2021.18"),
}


@pytest.fixture
def command(tmp_path):
    """Makes what `run` would start, and its notes; long paths are abbreviated."""

    def made(placed, text, env=None, **options):
        name, *rest = text.split()
        own, answer = LAUNCHERS.get(name, (name, ""))
        shell = "python3" if name == "torchrun" else "/bin/sh"  # it starts others by its own
        tool = executable(tmp_path / own, f"#!{shell}\necho '{answer}'\n")
        executable(tmp_path / "app", "#!/bin/sh\n")
        environment = {"PATH": f"{tmp_path}{os.pathsep}/usr/bin:/bin", **(env or {})}
        argv = [str(tool), *rest]
        record = run_placed(argv, *placed, dry_run=True, environment=environment, **options)
        words = " ".join(record.launched).replace(str(tool), name)
        for path, short in ((native_path("bin/toposeat-exec"), "TE"), (placed[1], "PLACE")):
            words = words.replace(str(path), short)
        return words, record.notes

    return made


@pytest.mark.parametrize(("text", "expected"), rows(LINES, "bound"))
def test_binding_is_taken_from_the_launcher(place, command, text, expected):
    assert command(place(2, bind=True), text) == (expected, ())


@pytest.mark.parametrize(("text", "env", "said"), rows(LINES, "binders"))
def test_two_binders_are_not_stacked_silently(*, place, command, text, env, said):
    words, (note,) = command(place(2, bind=True), text, variables(env))
    assert "none" not in words.split()
    assert said in note


def test_a_placement_without_cpus_leaves_binding_to_the_launcher(place, command):
    assert command(place(2), "ompi -n 2 --bind-to core app") == (
        "ompi --rank-by slot -n 2 --bind-to core TE -m PLACE -- app",
        (),
    )


def test_options_reach_toposeat_exec(place, command):
    words, _ = command(place(2), "ompi -n 2 app", visibility="mask", strict=True)
    assert words == "ompi --rank-by slot -n 2 TE -m PLACE --visibility mask --strict -- app"


@pytest.mark.parametrize(
    "option", ["--map-by node", "--rank-by node", "-N 2", "--mca rmaps_base_mapping_policy node"]
)
def test_an_order_of_ones_own_stays(place, command, option):
    words, _ = command(place(2), f"ompi -n 2 {option} app")
    assert "slot" not in words.split()
