from itertools import combinations

import pytest

from tests.report.markup import Page
from tests.support.catalogue import CATALOGUE
from toposeat.errors import InputError
from toposeat.report import TextStyle, render_topology_text, topology_svg
from toposeat.report.svg.layout import lay_out_machine
from toposeat.topology import read_topology


def assert_well_drawn(topology):
    """Nothing overlaps, nothing is forgotten, the file is well formed, the text fits."""
    layout = lay_out_machine(topology)
    boxes = list(layout.boxes.values())
    for a, b in combinations(boxes, 2):
        across = a.x < b.right and b.x < a.right
        assert not (across and a.y < b.bottom and b.y < a.bottom), (topology.name, a, b)
    for frame in layout.frames:
        for box in boxes:
            beside = box.right <= frame.x or frame.x + frame.width <= box.x
            inside = frame.x <= box.x and box.right <= frame.x + frame.width
            level = box.y < frame.y + frame.height and frame.y < box.bottom
            assert beside or inside or not level, (topology.name, frame, box)
    page = Page(topology_svg(topology).split("?>", 1)[1])
    assert page.classes("link") == len(topology.links)
    assert page.classes("device") == len(topology.devices)
    text = render_topology_text(topology, TextStyle(width=80))
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("name", CATALOGUE)
def test_catalogue(name):
    assert_well_drawn(read_topology(name))


def test_recorded_machines(shared_dir):
    drawn = 0
    for path in sorted((shared_dir / "machines" / "nvidia-smi-topo").iterdir()):
        try:
            topology = read_topology(path)
        except InputError:
            continue  # recorded with damage on purpose: the reader refuses it
        assert_well_drawn(topology)
        drawn += 1
    assert drawn >= 20
