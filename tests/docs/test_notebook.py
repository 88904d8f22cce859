"""Notebooks run in a real kernel: the tutorials, and a first user's twenty lines."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.report.markup import Page
from tests.support.processes import ran

pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

_EXAMPLES = Path(__file__).parents[2] / "examples"
# In a process of its own: what these packages warn of is theirs.
_RUN = """
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""
# Map, compare, draw, export: a line is a cell, as somebody who tries things out writes them.
TWENTY_LINES = """\
import toposeat
toposeat.machine_names()
machine = toposeat.read_topology("rtx-4-crossed-bridges")
machine
machine.rates() / 1e9
traffic = toposeat.read_traffic([(0, 1, 8_000_000), (1, 0, 8_000_000), (2, 3, 8_000_000)])
traffic
result = toposeat.map_traffic(machine, traffic)
result
result.certificate
default = toposeat.evaluate(machine, traffic, [0, 1, 2, 3])
mine = toposeat.evaluate(machine, traffic, [0, 2, 3, 1])
{"default": default.predicted_s, "mine": mine.predicted_s, "mapped": result.placed.predicted_s}
from IPython.display import SVG
SVG(toposeat.draw(machine, traffic, result))
placement = toposeat.placement_of(result, machine, traffic)
placement
placement.devices, placement.environment()
toposeat.save_placement(placement, "app.place")
print(*placement.export_lines(), sep="\\n")
"""


def run(path):
    """The outputs of each cell of code."""
    done = ran([sys.executable, "-c", _RUN, path.name], cwd=path.parent)
    assert done.returncode == 0, done.stderr
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def shown(cell, kind="text/plain"):
    """What a cell shows, in one form; prints too."""
    found = [
        each["data"].get(kind, "") if "data" in each else each["text"] for each in cell["outputs"]
    ]
    return "".join(part for text in found for part in text)


def test_the_tutorials_run_and_show_what_the_pages_say(tmp_path):
    for name in ("notebook", "traffic"):
        shutil.copytree(_EXAMPLES / name, tmp_path / name)
    cells = run(tmp_path / "notebook" / "tutorials.ipynb")
    by_source = {"".join(cell["source"]): cell for cell in cells}

    def cell(words):
        (found,) = (each for source, each in by_source.items() if words in source)
        return found

    assert shown(cell("rates[0")) == "[10.0, 4.05, 2.24]"
    assert "16 x Tesla K80" in shown(cell('read_topology("k80-16")'), "text/html")
    assert "<svg" in shown(cell("toposeat.draw"), "image/svg+xml")
    assert "export CUDA_VISIBLE_DEVICES=" in shown(cell("export_lines"))
    assert "'0,2,1,3'" in shown(cell(".environment()"))
    gains = {
        "layout": "saves 48 % to 92 %",
        "recorded": "saves 25 % to 65 %",
        "job": "saves 44 %",
    }  # of the tutorials
    for name, gain in gains.items():
        html = shown(cell(f"\n{name}" if name != "layout" else "layout = "), "text/html")
        assert gain in Page(html).words
    hosts = shown(cell("seat.host"))
    assert hosts.split("'")[1::2] == [f"node{number}" for number in range(1, 9)]
    assert shown(cell("kept_default")) == "True"
    assert not any("outputs" in each and each["outputs"] for each in stored_cells())


def stored_cells():
    """Cells as they are in the repository, which have no outputs: they would be stale."""
    text = (_EXAMPLES / "notebook" / "tutorials.ipynb").read_text(encoding="utf-8")
    return json.loads(text)["cells"]


def test_twenty_lines_map_compare_draw_and_export(tmp_path):
    lines = TWENTY_LINES.splitlines()
    assert len(lines) == 20
    cells = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"line-{number}",
            "metadata": {},
            "outputs": [],
            "source": line,
        }
        for number, line in enumerate(lines)
    ]
    path = tmp_path / "lines.ipynb"
    path.write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    done = dict(zip(lines, run(path), strict=True))
    assert "'k80-16'" in shown(done["toposeat.machine_names()"])
    for line in ("machine", "traffic", "result", "placement", "result.certificate"):
        assert "toposeat" in shown(done[line], "text/html")
        assert len(shown(done[line])) < 300
    compared = shown(next(cell for line, cell in done.items() if '"mine"' in line))
    seconds = json.loads(compared.replace("'", '"'))
    assert seconds["mapped"] == pytest.approx(seconds["mine"])
    assert seconds["mapped"] < 0.5 * seconds["default"]
    assert "<svg" in shown(done["SVG(toposeat.draw(machine, traffic, result))"], "image/svg+xml")
    assert (tmp_path / "app.place").read_text().startswith("# toposeat/placement/1")
    assert shown(done[lines[-1]]) == (
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID\nexport CUDA_VISIBLE_DEVICES=0,2,1,3\n"
    )
