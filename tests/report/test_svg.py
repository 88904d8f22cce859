"""Drawings, read from the file: nothing overlaps, nothing is forgotten, nothing is from outside.

`expected/` has some whole (TOPOSEAT_UPDATE_GOLDEN=1 makes them anew: look at them in a browser).
"""

import re
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from msgspec import structs

from tests.report import samples
from tests.report.markup import Page, assert_nothing_from_outside
from tests.report.profile_samples import full_profile
from tests.report.samples import EVIL, result_on
from tests.report.test_expected import compare, empty, ring_of
from tests.support.catalogue import CATALOGUE
from toposeat import mapping, profile
from toposeat.errors import InputError
from toposeat.report import (
    Section,
    html_page,
    mapping_svg,
    network_file,
    topology_svg,
    traffic_svg,
)
from toposeat.topology import read_network, read_topology

SVG = "{http://www.w3.org/2000/svg}"
MACHINES = {
    "one": samples.one_device,
    "small tree": samples.small_tree,
    "k80": samples.k80_16,
    "mesh": samples.mesh_8,
    "box": samples.switch_box,
    "box of 64": lambda: samples.switch_box(64),
    "hosts": samples.cluster,
    "hosts of 16": lambda: samples.cluster(4, 16),
}


def rooted(text):
    assert_nothing_from_outside(text)
    root = ElementTree.fromstring(text.split("?>", 1)[1])
    assert root.tag == f"{SVG}svg"
    return root


def classed(root, name):
    return [each for each in root.iter() if name in (each.get("class") or "").split()]


def number(element, *names):
    return [float(element.get(name, 0)) for name in names]


class Box:
    """A rectangle, with what it stands for."""

    def __init__(self, rect, kind=""):
        self.x, self.y, wide, high = number(rect, "x", "y", "width", "height")
        self.right, self.bottom, self.kind = self.x + wide, self.y + high, kind

    def overlaps(self, other):
        across = self.x < other.right and other.x < self.right
        return across and self.y < other.bottom and other.y < self.bottom


def boxes_of(picture):
    """Devices, NICs and parts of a machine; bars between bands are apart."""
    groups = [each for kind in ("device", "nic", "part") for each in classed(picture, kind)]
    found = [
        (Box(rect, each.get("class")), each) for each in groups for rect in each.iter(f"{SVG}rect")
    ]
    return [box for box, each in found if each.find(f"{SVG}title") is not None]


def assert_well_drawn(topology, text):
    """Nothing overlaps, nothing is forgotten, and all is inside, labels with it."""
    root = rooted(text)
    (picture,) = classed(root, "machine")
    _, _, width, height = map(float, picture.get("viewBox").split())
    boxes = boxes_of(picture)
    for a, b in combinations(boxes, 2):
        assert not a.overlaps(b), (topology.name, a.kind, b.kind)
    for box in boxes:
        assert box.x >= 0
        assert box.y >= 0
        assert box.right <= width
        assert box.bottom <= height
    for frame in map(Box, classed(picture, "frame")):
        for box in boxes:
            inside = frame.x <= box.x and box.right <= frame.right
            assert inside or not frame.overlaps(box) or "network" in box.kind
    devices, links = classed(picture, "device"), classed(picture, "link")
    names = [each.text for one in devices for each in classed(one, "big")]
    assert sorted(names) == sorted(f"D{each.index}" for each in topology.devices)
    assert len(classed(picture, "nic")) == len(topology.nics)
    assert sorted(int(each.get("data-link")) for each in links) == [*range(len(topology.links))]
    labels = [each for one in classed(picture, "rate") for each in one.iter(f"{SVG}text")]
    assert len(labels) == len(topology.links) or topology.name == "switch-box"  # no place is free
    for x, y in (number(each, "x", "y") for each in labels):
        assert 0 < x < width
        assert 0 < y < height


@pytest.mark.parametrize("name", [*MACHINES, *CATALOGUE])
def test_machines(name):
    topology = MACHINES[name]() if name in MACHINES else read_topology(name)
    assert_well_drawn(topology, topology_svg(topology))


def test_recorded_machines(shared_dir):
    drawn = 0
    for path in sorted((shared_dir / "machines" / "nvidia-smi-topo").iterdir()):
        try:
            topology = read_topology(path)
        except InputError:
            continue  # recorded with damage on purpose: the reader refuses it
        assert_well_drawn(topology, topology_svg(topology))
        drawn += 1
    assert drawn >= 20


def moved(devices):
    tree, traffic = samples.small_tree(), samples.stencil((3,))
    return mapping_svg(samples.mapping(tree, traffic, devices), tree, traffic)


def network_alone(text, **more):
    network = read_network(text)
    return network_file(network, *mapping.stages_of_network(network), **more)


def on_network(text, name, seed=4, node=""):
    """The picture of the default, or of what is placed."""
    result = result_on(text, node, seed)
    root = rooted(mapping_svg(result, None, profile.read_traffic(f"ring:{result.ranks}")))
    return result, classed(root, "network")[{"default": 0, "placed": -1}[name]]


def named(name):
    """A tree whose parts have a name that may not fit."""
    tree = samples.small_tree()
    components = tuple(replace(each, name=name) for each in tree.components)
    devices = tuple(replace(each, name=name) for each in tree.devices)
    return replace(tree, name=name, components=components, devices=devices)


DRAWN = {
    "names too long": lambda: topology_svg(named("a very long name of a SWITCH, wider than it is")),
    "names in wide characters": lambda: topology_svg(named("机器日本" * 6)),
    "small tree": lambda: topology_svg(samples.small_tree(), created="2026-11-28"),
    "mesh": lambda: topology_svg(samples.mesh_8()),
    "small tree moved": lambda: moved((0, 1, 3)),
    "small tree kept": lambda: moved((0, 1, 2)),
    "profile": lambda: traffic_svg(full_profile()),
    "profile of nothing": lambda: traffic_svg(empty()),
    "network": lambda: network_alone("fattree:4:4:2,taper=2", created="2026-11-28"),
    "network of three levels": lambda: network_alone("fattree:2:2:2:2,taper=2"),
    "network moved": lambda: mapping_svg(
        result_on("fattree:4:4:2,taper=2"), None, profile.read_traffic("ring:16")
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_drawings_are_as_expected(name):
    text = DRAWN[name]()
    rooted(text)
    text = re.sub(r"<style>.*?</style>", "<style/>", text, flags=re.DOTALL)
    compare(f"{name}.svg", re.sub(r"(?=<(g|svg|rect|path)\b)", "\n", text) + "\n")


def test_names_from_a_file_stay_text():
    tree = samples.small_tree()
    hostile = replace(
        tree,
        name=EVIL,
        devices=tuple(replace(d, name=EVIL, uuid=EVIL) for d in tree.devices),
        components=tuple(replace(c, name=EVIL) for c in tree.components),
        links=tuple(replace(li, name=EVIL) for li in tree.links),
    )
    result = result_on("fattree:4:4:2")
    stages = tuple(tuple(structs.replace(g, name=EVIL) for g in stage) for stage in result.stages)
    hosts = tuple(f"{EVIL}{at}" for at in range(len(result.hosts)))
    hosts_and_switches = replace(result, hosts=hosts, stages=stages)
    for text in (
        topology_svg(hostile),
        mapping_svg(hosts_and_switches, None, profile.read_traffic("ring:16")),
    ):
        rooted(text)
        page = Page(text.split("?>", 1)[1])
        assert not any(tag == "script" for tag, _ in page.tags)
        assert any(EVIL in title for title in page.titles)


def test_wide_clusters_break_into_bands():
    (picture,) = classed(rooted(topology_svg(samples.cluster(8, 8))), "machine")
    riser, *bars = (Box(each.find(f"{SVG}rect")) for each in classed(picture, "network"))
    assert float(picture.get("width")) < 1400
    assert len(bars) == len({bar.y for bar in bars}) > 1
    for bar in bars:
        assert bar.x == riser.x
        assert riser.y <= bar.y <= bar.bottom <= riser.bottom


@pytest.mark.parametrize("name", ["gb200-nvl72", "gb300-nvl72"])
def test_a_rack_fits_a_page_and_no_link_leaves_its_band(name):
    topology = read_topology(name)
    (picture,) = classed(rooted(topology_svg(topology)), "machine")
    assert float(picture.get("width")) <= 1260
    assert topology.nics or float(picture.get("height")) <= 900
    riser = Box(classed(picture, "nvswitch")[0].find(f"{SVG}rect"))
    assert all(box.x > riser.right for box in boxes_of(picture) if box.kind in ("device", "nic"))
    short = [each for each in classed(picture, "link") if "NVLink switch" in each[0].text]
    assert len(short) == 72
    for link in short:
        top, bottom = (float(y) for y in re.findall(r"[ V]([0-9.]+)", link[1].get("d")))
        assert 0 < bottom - top < 50
    outward = [each.text for each in classed(picture, "host-rate")]
    assert outward.count("out: NVLink 3.60 TB/s") == 18


def test_two_lanes_are_two_lines_and_more_capacity_is_wider():
    page = Page(topology_svg(read_topology("dgx-1v")).split("?>", 1)[1])
    drawn = [a for tag, a in page.tags if tag == "path" and "wire" in (a.get("class") or "")]
    width = {d["d"]: float(d["stroke-width"] or 0) for d in reversed(drawn)}  # the lowest stroke
    inner = {d["d"] for d in drawn if "between" in (d["class"] or "")}
    double = [w for path, w in width.items() if path in inner]
    assert len(double) == 8 + 1  # links, and the key's sample
    assert min(double) > 2 * max(w for path, w in width.items() if path not in inner)


@pytest.mark.parametrize("ranks", [1, 2, 9, 41, 100, 1000, 4096, 20_000])
def test_a_matrix_of_any_size_is_small_and_its_numbers_do_not_touch(ranks):
    text = traffic_svg(ring_of(ranks))
    assert len(text) < 200_000
    labels = [
        float(each.get("x")) for each in classed(rooted(text), "axis") if "mid" in each.get("class")
    ]
    assert len(labels) >= 2 or ranks == 1
    if ranks >= 9:
        assert np.diff(labels).min() >= 5 * len(str(ranks - 1))


NETWORKS = [
    ("fattree:4:4:2,taper=2", 8, [4, 4]),
    ("fattree:8:8:8,taper=4", 64, [8] * 8),
    ("fattree:8:32:16,taper=4", 512, [32] * 16),
    ("fattree:8:16:16:4", 1024, [16] * 64),
    ("torus3d:8x4x4,nodes=2", 256, [32] * 8),
    ("dragonfly:9:4:4:8", 144, [16] * 9),
    ("hierarchy:4:8:128", 128, [128]),
    ("fattree:600:2:2", 4, [2, 2]),
]


@pytest.mark.parametrize(("text", "hosts", "leaves"), NETWORKS)
def test_every_host_is_drawn_once_and_nothing_overlaps(text, hosts, leaves):
    result, picture = on_network(text, "placed")
    _, _, width, height = map(float, picture.get("viewBox").split())
    assert len(classed(picture, "host")) == hosts == sum(leaves)
    assert height <= 470  # before and after on one screen
    slots = [number(each, "x", "y", "width", "height") for each in classed(picture, "slots")]
    x, y, wide, high = np.array(slots).T
    assert len(x) == hosts
    assert x.min() >= 0
    assert (x + wide).max() <= width + 0.01
    assert (y + high).max() <= height
    assert high.min() >= 3
    assert wide.min() >= min(2 * result.slots_per_host, 500)
    across = (x[:, None] < (x + wide)[None] - 0.02) & (x[None] < (x + wide)[:, None] - 0.02)
    along = (y[:, None] < (y + high)[None] - 0.02) & (y[None] < (y + high)[:, None] - 0.02)
    assert (across & along).sum() == hosts  # each with itself


@pytest.mark.parametrize("name", ["default", "placed"])
def test_each_rank_is_named_where_it_sits(name):
    result, picture = on_network("fattree:8:8:8,taper=4", name, node="hgx-h100")
    said, expected = {}, {}
    for title in picture.iter(f"{SVG}title"):
        if found := re.match(r"(node\d+): ranks ([\d,-]+)\n", title.text):
            ends = [part.split("-") for part in found[2].split(",")]
            said[found[1]] = {n for part in ends for n in range(int(part[0]), int(part[-1]) + 1)}
    slots = range(result.ranks) if name == "default" else result.device_of_rank
    for rank, slot in enumerate(slots):
        expected.setdefault(result.hosts[int(slot) // 8], set()).add(rank)
    assert said == expected


@pytest.mark.parametrize("taper", [1, 2, 4])
def test_an_uplink_is_as_wide_as_it_is_fast(taper):
    _, picture = on_network(f"fattree:8:4:8,taper={taper}", "placed")
    flows = [each for step in range(7) for each in classed(picture, f"flow-{step}")]
    tracks = classed(picture, "track")
    assert len(tracks) == 8
    for track in tracks:
        place = number(track, "x", "y", "height")
        (flow,) = [each for each in flows if number(each, "x", "y", "height") == place]
        assert float(flow.get("width")) == pytest.approx(
            float(track.get("width")) / taper, abs=0.02
        )


def test_the_busiest_link_has_the_last_colour_and_both_pictures_share_it():
    default, placed = (on_network("fattree:8:4:8,taper=4", n)[1] for n in ("default", "placed"))
    assert classed(placed, "flow-6")  # random: worse than neighbours side by side
    assert not classed(default, "flow-6")
    assert classed(default, "flow-0")  # half of the hosts are idle


@pytest.mark.parametrize("text", [text for text, _, _ in NETWORKS])
def test_a_network_is_drawn_without_a_placement(text):
    network = read_network(text)
    _, assumed = mapping.stages_of_network(network)
    page = Page(network_alone(text, created="2026-11-28").split("?>", 1)[1])
    assert page.classes("host") == len(network.hosts) <= page.classes("slots")
    assert {title.split(":")[0] for title in page.titles} >= set(network.host_names)
    for words in (f"{len(network.hosts)} hosts", "host ports: ", "2026-11-28", *assumed):
        assert words in " ".join(page.svg_text)


def test_a_saved_result_without_groups_has_no_picture():
    result = replace(result_on("fattree:4:4:2"), stages=())
    traffic = profile.read_traffic(f"ring:{result.ranks}")
    assert "leaf by leaf" not in html_page([Section(traffic=traffic, mapping=result)])


def test_shapes_of_a_network_are_filled_by_the_files_own_style():
    """Without a fill they would be black where the file stands alone."""
    root = rooted(DRAWN["network moved"]())
    drawn = {name for each in root.iter() for name in (each.get("class") or "").split()}
    shapes = drawn & {"hit-row", "rank", "slots", "track", "flow-0", "flow-6"}
    (style,) = [each.text or "" for each in root.iter() if each.tag.endswith("style")]
    assert shapes
    for name in shapes:
        assert re.search(rf"\.{name} \{{ fill:", style), name
