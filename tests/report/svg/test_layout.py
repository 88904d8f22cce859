import re
from itertools import combinations

import pytest

from tests.report import samples
from toposeat.report.svg.layout import arc_depth, lay_out_machine, wires
from toposeat.topology import read_topology

MACHINES = [
    samples.one_device,
    samples.small_tree,
    samples.k80_16,
    samples.mesh_8,
    samples.switch_box,
    lambda: samples.switch_box(64),
    samples.cluster,
    lambda: samples.cluster(4, 16),
]


def overlap(a, b):
    across = a.x < b.right and b.x < a.right
    return across and a.y < b.bottom and b.y < a.bottom


def all_boxes(layout):
    networks = {box.vertex for box in layout.buses}
    return [b for b in layout.boxes.values() if b.vertex not in networks] + layout.buses


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_overlaps_and_all_is_inside(machine):
    layout = lay_out_machine(machine())
    boxes = all_boxes(layout)
    for a, b in combinations(boxes, 2):
        assert not overlap(a, b), (a, b)
    for box in boxes:
        assert box.x >= 0
        assert box.right <= layout.width
        assert box.y >= 0
        assert box.bottom <= layout.height


@pytest.mark.parametrize("machine", MACHINES)
def test_every_vertex_and_link_is_drawn(machine):
    topology = machine()
    layout = lay_out_machine(topology)
    vertices = [d.id for d in topology.devices] + [n.id for n in topology.nics]
    vertices += [c.id for c in topology.components]
    assert set(layout.boxes) == set(vertices)
    assert [w.link.id for w in wires(topology, layout)] == [link.id for link in topology.links]


@pytest.mark.parametrize("machine", MACHINES)
def test_labels_on_wires_are_inside(machine):
    topology = machine()
    layout = lay_out_machine(topology)
    for wire in wires(topology, layout):
        assert 0 < wire.label_x < layout.width
        assert 0 < wire.label_y < layout.height


def test_device_order_and_groups_of_the_k80_node():
    layout = lay_out_machine(samples.k80_16())
    assert layout.device_order == tuple(f"gpu{i}" for i in range(16))
    assert layout.group_starts == (0, 8)


def test_bars_span_what_hangs_below_them():
    layout = lay_out_machine(samples.k80_16())
    for parent, child in layout.tree_links.values():
        above, below = layout.boxes[parent], layout.boxes[child]
        assert above.x <= below.middle <= above.right
        assert above.bottom < below.y


def test_wide_clusters_break_into_bands():
    layout = lay_out_machine(samples.cluster(8, 8))
    assert layout.width < 1400
    assert len({box.band for box in layout.boxes.values()}) > 1
    assert len(layout.buses) == len({box.band for box in layout.buses}) > 1
    (riser,) = layout.risers
    for bus in layout.buses:
        assert bus.x == riser.x
        assert riser.y <= bus.y
        assert bus.bottom <= riser.bottom


@pytest.mark.parametrize("name", ["gb200-nvl72", "gb300-nvl72"])
def test_a_rack_fits_a_page_and_no_link_leaves_its_band(name):
    topology = read_topology(name)
    layout = lay_out_machine(topology)
    assert layout.width <= 1260
    if not topology.nics:
        assert layout.height <= 900
    (riser,) = layout.risers
    for box in layout.boxes.values():
        if box.what in ("device", "nic"):
            assert box.x > riser.right
    short = [wire for wire in wires(topology, layout) if riser.vertex in wire.link.ends]
    assert len(short) == 72
    for wire in short:
        top, bottom = (float(y) for y in re.findall(r"[ V]([0-9.]+)", wire.path))
        assert 0 < bottom - top < 50


def test_links_between_buses_pass_beside_the_devices():
    topology = samples.switch_box(64)
    layout = lay_out_machine(topology)
    trunk = wires(topology, layout)[-1]
    assert trunk.label_x < min(layout.boxes[d.id].x for d in topology.devices)


def test_arcs_nest():
    room = (800.0, 150.0)
    depths = [arc_depth(reach, room) for reach in (50, 200, 400, 800)]
    assert depths == sorted(depths)
    assert depths[-1] == 150.0
