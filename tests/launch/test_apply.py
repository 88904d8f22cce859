"""The launcher's own arguments beside toposeat-exec."""

from pathlib import Path

import pytest

from tests.support.tables import rows, variables
from toposeat.installed import native_path
from toposeat.launch import LauncherKind, parse_launch_line
from toposeat.launch.apply import ExecOptions, placed_command
from toposeat.launch.realise import Realisation

LINES = Path(__file__).with_name("lines.txt")
KINDS = {
    "ompi": LauncherKind.OPENMPI,
    "hydra": LauncherKind.MPICH,
    "impi": LauncherKind.INTEL,
    "srun": LauncherKind.SRUN,
    "flux": LauncherKind.FLUX,
    "torchrun": LauncherKind.TORCHRUN,
}


def command(placed, text, env=None, **options):
    line = parse_launch_line(text.split(), identify=lambda name: KINDS.get(name, LauncherKind.NONE))
    plan = Realisation(line=line, seating=placed[0])
    return placed_command(plan, placed[1], ExecOptions(**options), env or {})


def shown(found, path):
    """The command with the long paths abbreviated."""
    words = " ".join(found.argv)
    return words.replace(str(native_path("bin/toposeat-exec")), "TE").replace(str(path), "PLACE")


@pytest.mark.parametrize(("text", "expected"), rows(LINES, "bound"))
def test_binding_is_taken_from_the_launcher(place, text, expected):
    placed = place(2, bind=True)
    found = command(placed, text)
    assert shown(found, placed[1]) == expected
    assert found.notes == ()


@pytest.mark.parametrize(("text", "env", "said"), rows(LINES, "binders"))
def test_two_binders_are_not_stacked_silently(place, text, env, said):
    placed = place(2, bind=True)
    found = command(placed, text, variables(env))
    assert "none" not in found.argv
    assert len(found.notes) == 1
    assert said in found.notes[0]


def test_a_placement_without_cpus_leaves_binding_to_the_launcher(place):
    placed = place(2)
    found = command(placed, "ompi -n 2 --bind-to core app")
    assert (shown(found, placed[1]), found.notes) == (
        "ompi --rank-by slot -n 2 --bind-to core TE -m PLACE -- app",
        (),
    )


def test_options_reach_toposeat_exec(place, tmp_path):
    placed = place(2)
    found = command(
        placed,
        "ompi app",
        visibility="mask",
        strict=True,
        report_dir=tmp_path,
    )
    probe = native_path("lib/libtoposeat_probe.so")
    assert shown(found, placed[1]) == (
        "ompi --rank-by slot TE -m PLACE --visibility mask"
        f" --report {tmp_path} --probe {probe} --strict -- app"
    )


@pytest.mark.parametrize(
    "option", ["--map-by node", "--rank-by node", "-N 2", "--mca rmaps_base_mapping_policy node"]
)
def test_an_order_of_ones_own_stays(place, option):
    found = command(place(2), f"ompi {option} app")
    assert "slot" not in found.argv
