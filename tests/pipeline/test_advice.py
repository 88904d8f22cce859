"""What follows from runs: a program whose printed time depends on the environment it is given."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from tests.launch.test_ucx_protocols import recorded
from tests.support.four_gpus import node
from toposeat import mapping, pipeline
from toposeat.errors import ToposeatError
from toposeat.launch import find_installations, named_stack, stack_of
from toposeat.model.placement_file import save_placement
from toposeat.model.protocol import Basis
from toposeat.report import advice_json, render_advice_text

pytestmark = pytest.mark.mpi

# Says which protocol it uses as UCX would, then a time.
PROGRAM = r"""
[ "$UCX_PROTO_INFO" = y ] && cat {tables}
case "$UCX_TLS" in *^cuda_ipc*) echo "{staged} s";; *) echo "{direct} s";; esac
"""
GET = {"UCX_RNDV_SCHEME": "get_zcopy", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY": "on"}
STAGED = {"UCX_RNDV_SCHEME": "auto", "UCX_TLS": "^cuda_ipc"}


@pytest.fixture(scope="module")
def installation():
    found = [each for each in find_installations() if each.family == "openmpi"]
    if not found:
        pytest.skip("no Open MPI here")
    return found[0]


def advised(installation, folder, *, staged, direct, repeats=2, tables="get", extra=()):
    """Two ranks whose environment says that the receiver reads."""
    placement = mapping.seat_ranks(node(), 2, (0, 3), metadata={})
    save_placement(placement, folder / "far.place", overwrite=True)
    (folder / "tables").write_text(recorded(tables))
    script = PROGRAM.format(tables=folder / "tables", staged=staged, direct=direct)
    environment = {**installation.environment(), **GET}
    line = (*installation.launch_words(2), "--mca", "pml", "ucx", *extra, "sh", "-c", script)
    return pipeline.clocked_advice(
        pipeline.AdviceCase(placement=placement, path=folder / "far.place"),
        stack_of(line, environment),
        pipeline.ClockPlan(command=line, repeats=repeats, pattern=r"([0-9.]+) s"),
        environment=environment,
        progress=lambda done, of: None,
    )


def names_tried(advice):
    return [each.name for each in advice.clocked.orders]


def test_what_the_clock_shows_is_recommended(installation, tmp_path):
    advice = advised(installation, tmp_path, staged=0.5, direct=1.0)
    assert names_tried(advice) == ["sender writes", "through the host"]
    assert advice.skipped == {"receiver reads": "set already"}
    assert advice.recommended.variables == STAGED
    assert [s.basis for s in advice.stack.statements if "UCX_PROTO_INFO" in s.text] == [
        Basis.MEASURED
    ]
    text = render_advice_text(advice)
    assert "export UCX_TLS='^cuda_ipc'" in text
    assert "through the host: verified, saves 50.0 % of the time" in text
    assert "-x UCX_RNDV_SCHEME -x UCX_TLS" in text
    assert "EMULATED" not in text
    assert advice_json(advice)["recommended"]["variables"] == STAGED
    assert advice.clocked is not None
    clocked = replace(advice.clocked, emulated="k80-16")
    on_stand_in = structs.replace(advice, clocked=clocked)
    assert "EMULATED" in render_advice_text(on_stand_in)
    assert "do not set it on a real machine" in render_advice_text(on_stand_in)
    assert advice_json(on_stand_in)["emulated"] == "k80-16"


@pytest.mark.parametrize(("staged", "direct"), [(1.0, 1.0), (1.5, 1.0)])
def test_what_does_not_help_is_not(installation, tmp_path, staged, direct):
    advice = advised(installation, tmp_path, staged=staged, direct=direct)
    assert names_tried(advice) == ["sender writes", "through the host"]
    assert advice.recommended is None
    text = render_advice_text(advice)
    assert "no measurable gain; keep the environment as it is" in text
    assert "export" not in text


def test_one_repeat_verifies_nothing(installation, tmp_path):
    advice = advised(installation, tmp_path, staged=0.5, direct=1.0, repeats=1)
    assert advice.recommended is None
    assert "nothing is verified" in render_advice_text(advice)


def test_what_the_stack_says_counts_more_than_what_is_expected(installation, tmp_path):
    advice = advised(installation, tmp_path, staged=0.5, direct=1.0, tables="noipc")
    # it stages already, whatever its variables are taken to mean
    assert "what it does already" in advice.skipped["through the host"]
    assert names_tried(advice) == ["sender writes"]
    assert advice.recommended is None


def test_a_setting_that_the_line_overrules_is_not_tried(installation, tmp_path):
    advice = advised(installation, tmp_path, staged=0.5, direct=1.0, extra=("-x", "UCX_TLS=all"))
    assert names_tried(advice) == ["sender writes"]
    assert "remove it" in advice.skipped["through the host"]


def test_a_program_that_fails_is_said(installation, tmp_path):
    with pytest.raises(ToposeatError, match="exit code"):
        advised(installation, tmp_path, staged=0.5, direct=1.0, extra=("false",))


def test_the_names_of_stacks_are_those_of_the_page():
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "choose-a-protocol.md"
    text = page.read_text()
    for name in ("openmpi-ucx", "openmpi-ob1", "mpich", "cray-mpich"):
        assert f"| `{name}` |" in text
        for setting in named_stack(name, {}).settings:
            for variable in setting.variables:
                known = variable in text or variable.endswith("READ_WRITE_PROTOCOL")
                assert known, (name, variable)
