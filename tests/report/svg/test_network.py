"""Pictures of large machines: every host, every uplink, as wide as it is, nothing on top of it."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from msgspec import structs

from tests.report.markup import Page
from toposeat import mapping, pipeline, profile, topology
from toposeat.report import Section, html_page, mapping_svg
from toposeat.report.svg.element import drawn_size
from toposeat.report.svg.network import WIDTH, network_file, network_pictures, network_svg

EVIL = "</title><script>alert(1)</script>\"'&"


def result_on(text, node="", seed=4):
    """Neighbours on a line, in random order (or in the default one)."""
    shape = mapping.read_shape(text)
    if node:
        network = topology.read_network(text)
        shape = mapping.shape_of_network(network, topology.read_topology(node))
    traffic = profile.read_traffic(f"ring:{shape.slots // 2}")
    slots = list(range(traffic.ranks))
    if seed is not None:
        found = np.random.default_rng(seed).permutation(shape.slots)[: traffic.ranks]
        slots = found.tolist()
    (result,) = pipeline.assess(mapping.Machine.of_shape(shape), traffic, [slots])
    return result


def rects(page, name):
    found = [a for tag, a in page.tags if tag == "rect" and (a.get("class") or "") == name]
    return [tuple(float(a[k] or 0) for k in ("x", "y", "width", "height")) for a in found]


MACHINES = [
    ("fattree:4:4:2,taper=2", 8, [4, 4]),
    ("fattree:8:8:8,taper=4", 64, [8] * 8),
    ("fattree:8:32:16,taper=4", 512, [32] * 16),
    ("fattree:8:16:16:4", 1024, [16] * 64),
    ("torus3d:8x4x4,nodes=2", 256, [32] * 8),
    ("dragonfly:9:4:4:8", 144, [16] * 9),
    ("hierarchy:4:8:128", 128, [128]),
    ("fattree:600:2:2", 4, [2, 2]),
]


@pytest.mark.parametrize(("text", "hosts", "leaves"), MACHINES)
def test_every_host_is_drawn_once_and_nothing_overlaps(text, hosts, leaves):
    result = result_on(text)
    svg = network_svg(result, "placed", label="x")
    page, (_, height) = Page(svg), drawn_size(svg)
    assert page.classes("host") == hosts == sum(leaves)
    assert height <= 470  # before and after on one screen
    boxes = np.array(rects(page, "slots"))
    assert len(boxes) == hosts
    x, y, wide, high = boxes.T
    assert x.min() >= 0
    assert (x + wide).max() <= WIDTH + 0.01
    assert (y + high).max() <= height
    assert high.min() >= 3
    assert wide.min() >= min(2 * result.slots_per_host, 500)
    across = (x[:, None] < (x + wide)[None] - 0.02) & (x[None] < (x + wide)[:, None] - 0.02)
    along = (y[:, None] < (y + high)[None] - 0.02) & (y[None] < (y + high)[:, None] - 0.02)
    assert (across & along).sum() == hosts  # each with itself


def test_each_rank_is_named_where_it_sits():
    result = result_on("fattree:8:8:8,taper=4", "hgx-h100")
    for name, slots in (
        ("default", range(result.ranks)),
        ("placed", np.array(result.device_of_rank)),
    ):
        page = Page(network_svg(result, name, label="x"))
        said = {}
        for title in page.titles:
            found = re.match(r"(node\d+): ranks ([\d,-]+)\n", title)
            if found:
                ends = [part.split("-") for part in found[2].split(",")]
                said[found[1]] = {
                    rank for part in ends for rank in range(int(part[0]), int(part[-1]) + 1)
                }
        expected = {}
        for rank, slot in enumerate(slots):
            expected.setdefault(result.hosts[int(slot) // 8], set()).add(rank)
        assert said == expected


@pytest.mark.parametrize("taper", [1, 2, 4])
def test_an_uplink_is_as_wide_as_it_is_fast(taper):
    page = Page(network_svg(result_on(f"fattree:8:4:8,taper={taper}"), "placed", label="x"))
    tracks = rects(page, "track")
    assert len(tracks) == 8
    flows = [each for step in range(7) for each in rects(page, f"flow-{step}")]
    for x, y, width, height in tracks:
        (flow,) = [f for f in flows if f[:2] == (x, y) and f[3] == height]
        assert flow[2] == pytest.approx(width / taper, abs=0.02)


def test_the_busiest_link_has_the_last_colour_and_both_pictures_share_it():
    result = result_on("fattree:8:4:8,taper=4")
    steps = {
        name: [Page(network_svg(result, name, label="x")).classes(f"flow-{n}") for n in range(7)]
        for name in ("default", "placed")
    }
    assert steps["placed"][6] > 0  # random: worse than neighbours side by side
    assert steps["default"][6] == 0
    assert steps["default"][0] > 0  # half of the hosts are idle


@pytest.mark.parametrize("text", [text for text, _, _ in MACHINES])
def test_a_network_is_drawn_without_a_placement(text):
    network = topology.read_network(text)
    stages, assumed = mapping.stages_of_network(network)
    svg = network_file(network, stages, assumed, created="2026-11-28").split("?>", 1)[1]
    page = Page(svg)
    assert page.classes("host") == len(network.hosts) <= page.classes("slots")
    assert {title.split(":")[0] for title in page.titles} >= set(network.host_names)
    for words in (f"{len(network.hosts)} hosts", "host ports: ", "2026-11-28", *assumed):
        assert words in " ".join(page.svg_text)


def test_what_uplinks_carry_is_stated_with_the_taper():
    network = topology.read_network("fattree:8:32:16,taper=4")
    stages, _ = mapping.stages_of_network(network)
    page = Page(network_file(network, stages).split("?>", 1)[1])
    words = " ".join(page.svg_text)
    assert page.svg_text.count("200 GB/s") == 16
    assert words.count("out 200 GB/s of 800 GB/s, 1:4") == 16  # of the list for small windows


def test_a_saved_result_without_groups_has_no_picture():
    result = replace(result_on("fattree:4:4:2"), stages=())
    assert not network_pictures(result)
    assert "leaf by leaf" not in html_page(
        [Section(traffic=profile.read_traffic(f"ring:{result.ranks}"), mapping=result)]
    )


def test_a_large_machine_as_a_file_has_its_picture_and_charts_without_black_rows():
    result = result_on("fattree:4:4:4,taper=2")
    text = mapping_svg(result, None, profile.read_traffic(f"ring:{result.ranks}"))
    root = ElementTree.fromstring(text.split("?>", 1)[1])
    pictures = [each for each in root.iter() if each.get("class") == "machine network"]
    assert len(pictures) == 2
    drawn = {name for each in root.iter() for name in (each.get("class") or "").split()}
    shapes = drawn & {"hit-row", "rank", "slots", "track", "flow-0", "flow-6"}
    (style,) = [each.text or "" for each in root.iter() if each.tag.endswith("style")]
    assert shapes
    for name in shapes:
        assert re.search(rf"\.{name} \{{ fill:", style), name


def test_hostile_names_of_hosts_and_switches_stay_text():
    result = result_on("fattree:4:4:2")
    hosts = tuple(f"{EVIL}{at}" for at in range(len(result.hosts)))
    stages = tuple(tuple(structs.replace(g, name=EVIL) for g in stage) for stage in result.stages)
    svg = network_svg(replace(result, hosts=hosts, stages=stages), "placed", label=EVIL)
    page = Page(svg)
    assert not any(tag == "script" for tag, _ in page.tags)
    assert any(EVIL in title for title in page.titles)
