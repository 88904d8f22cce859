"""`import toposeat`: what it offers, what it costs, what a notebook shows."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import toposeat
from tests.report.markup import Page, assert_nothing_from_outside
from toposeat.report import notebook_html

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def mapped():
    machine, traffic = toposeat.read_topology("dgx-1v"), toposeat.read_traffic("stencil2d:2x4")
    return machine, traffic, toposeat.map_traffic(machine, traffic)


def test_import_alone_imports_neither_numpy_nor_the_core():
    program = (
        "import sys, toposeat; loaded = [name for name in sys.modules if name.partition('.')[0]"
        " in ('numpy', 'rich', 'msgspec', 'jinja2') or name.startswith('toposeat._core')];"
        "assert not loaded, loaded; assert set(toposeat.__all__) <= set(dir(toposeat))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_placement_and_its_devices_have_one_evaluation():
    machine, traffic, result = mapped()
    placement = toposeat.placement_of(result, machine, traffic)
    assert isinstance(placement, toposeat.Placement)
    assert placement.metadata["traffic"] == traffic.origin
    for given in (placement, result.device_of_rank, list(result.device_of_rank)):
        assert toposeat.evaluate(machine, traffic, given) == result.placed
    with pytest.raises(toposeat.ToposeatError, match="placement for 8 ranks; the traffic has 4"):
        toposeat.evaluate(machine, toposeat.read_traffic("ring:4"), placement)


def test_nouns_show_themselves():
    machine, traffic, result = mapped()
    placement = toposeat.placement_of(result, machine, traffic)
    words = [
        (machine, "V100"),
        (traffic, "8 ranks"),
        (result, "Device of rank 0, 1, ..."),
        (result.placed, "Busiest links"),
        (placement, "local rank"),
    ]
    for noun, expected in words:
        shown = noun._repr_html_()
        assert shown is not None
        assert expected in Page(shown).words


def test_names_are_harmless():
    machine, traffic, result = mapped()
    hostile = replace(
        machine,
        name=EVIL,
        description=EVIL,
        devices=tuple(replace(device, name=EVIL) for device in machine.devices),
        links=tuple(replace(link, name=EVIL) for link in machine.links),
    )
    for noun in (hostile, replace(traffic, origin=EVIL), replace(result, notes=(EVIL,))):
        page = Page(notebook_html(noun))
        assert not any(tag == "script" for tag, _ in page.tags)
        assert not any("src" in attrs for _, attrs in page.tags)
        assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    drawing = toposeat.draw(hostile)
    assert_nothing_from_outside(drawing)
    assert "<script>alert" not in drawing


def test_what_nobody_draws_is_refused():
    with pytest.raises(TypeError, match="show a int"):
        notebook_html(3)


def test_in_the_formatter_of_ipython():
    formatters = pytest.importorskip("IPython.core.formatters", reason="IPython is not installed")
    machine, _, _ = mapped()
    data, _ = formatters.DisplayFormatter().format(machine)
    assert data["text/html"] == machine._repr_html_()


def test_the_example_places_and_names_mistakes(tmp_path):
    """Lint checks its types as a user's type checker would: strictly, by the names exported."""
    example = Path(__file__).parents[1] / "examples" / "library" / "place.py"

    def run(*words):
        line = [sys.executable, str(example), *words]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert run("stencil2d:4x4", "k80-16", "app.place").stdout.startswith("saves 27 %")
    assert toposeat.load_placement(tmp_path / "app.place").ranks == 16
    wrong = run("stencil2d:4x4", "k80-17")
    assert wrong.returncode == 1
    assert "error: " in wrong.stderr
    assert "hint: " in wrong.stderr
