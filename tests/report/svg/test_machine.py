from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.report import samples
from tests.report.markup import Page, assert_nothing_from_outside
from toposeat.report import mapping_svg, topology_svg
from toposeat.report.svg.machine import Seating, congestion_step, machine_svg
from toposeat.report.view.links import each_way, lane_words, rate_number
from toposeat.topology import read_topology

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    "machine",
    [samples.one_device, samples.small_tree, samples.mesh_8, samples.switch_box, samples.cluster],
)
def test_standalone_file_is_xml_with_every_device(machine):
    topology = machine()
    text = topology_svg(topology)
    root = ElementTree.fromstring(text.split("?>", 1)[1])
    assert root.tag == f"{SVG}svg"
    devices = [g for g in root.iter(f"{SVG}g") if g.get("class") == "device"]
    names = [t.text for g in devices for t in g.iter(f"{SVG}text") if "big" in t.get("class", "")]
    assert sorted(names, key=str) == sorted(f"D{d.index}" for d in topology.devices)
    links = [g for g in root.iter(f"{SVG}g") if g.get("class") == "link"]
    assert sorted(int(g.get("data-link", "-1")) for g in links) == list(range(len(topology.links)))
    assert_nothing_from_outside(text)


def test_tooltips_tell_capacity_and_source():
    page = Page(topology_svg(samples.small_tree()))
    assert (
        "cross-socket: package 0 - package 1\n10.0 GB/s per direction (nominal)\n"
        "10.0 GB/s both together (nominal)"
    ) in page.titles
    assert "D0\nTesla K80\n0000:04:00.0\nGPU-00000000" in page.titles


def test_names_from_a_file_stay_text():
    evil = '"><script>alert(1)</script><g a="&amp;'
    tree = samples.small_tree()
    hostile = replace(
        tree,
        name=evil,
        devices=tuple(replace(d, name=evil, uuid=evil) for d in tree.devices),
        components=tuple(replace(c, name=evil) for c in tree.components),
        links=tuple(replace(li, name=evil) for li in tree.links),
    )
    text = topology_svg(hostile)
    assert "<script" not in text
    page = Page(text)
    assert any(evil in title for title in page.titles)


def test_seats_and_loads_are_drawn():
    tree, traffic = samples.small_tree(), samples.stencil((3,))
    result = samples.mapping(tree, traffic, (0, 1, 3))
    seating = Seating(
        rank_of_device={0: 0, 1: 1, 3: 2},
        moved=frozenset({3}),
        evaluation=result.placed,
        top_s=result.placed.max_congestion_s,
    )
    page = Page(machine_svg(tree, label="placed", seating=seating))
    assert page.classes("moved") == 1
    assert page.classes("idle") == 1
    assert "D3\nTesla K80\n0000:07:00.0\nGPU-00000003\nrank 2 (moved)" in page.titles
    assert "D2\nTesla K80\n0000:06:00.0\nGPU-00000002\nno rank" in page.titles
    assert page.classes("busiest") == 1
    assert "210 us" in page.svg_text
    predicted = [
        title for title in page.titles if "predicted: 2.00 MiB, congestion 210 us" in title
    ]
    assert len(predicted) == 1
    assert page.classes("load-6") == 1
    assert page.classes("load-0") > 0


def test_a_placement_as_a_file_is_one_drawing_with_what_changes():
    tree, traffic = samples.small_tree(), samples.stencil((3,))
    for devices, moved in (((0, 1, 3), 1), ((0, 1, 2), 0)):
        text = mapping_svg(samples.mapping(tree, traffic, devices), tree, traffic)
        ElementTree.fromstring(text.split("?>", 1)[1])
        page = Page(text.split("?>", 1)[1])
        assert page.classes("device") == 4
        assert sum("\nrank 2" in title for title in page.titles) == 1
        assert page.classes("moved") == moved
        assert ("placed: busiest link 210 us" in page.words) is (moved == 1)
        assert (page.classes("was") > 0, page.classes("is") > 0) == (moved == 1, moved == 1)
        assert ("was idle" in page.svg_text) is (moved == 1)
        assert any("default predicted: " in title for title in page.titles) is (moved == 1)
        assert_nothing_from_outside(text)


def test_steps_are_proportional():
    assert [congestion_step(v, 6.0) for v in (0, 0.1, 1.5, 3.5, 6.0)] == [0, 1, 2, 4, 6]
    assert congestion_step(1.0, 0.0) == 0


STATED = ("dgx-1v", "k80-16", "rtx-4-crossed-bridges", "hgx-h100", "gb200-nvl72", "l40s-8")


@pytest.mark.parametrize("name", [*STATED, "summit-6", "mi250x-8", "dgx-2", "perlmutter-4"])
def test_each_link_states_its_rate(name):
    """In GB/s beside its line, and again in the key with its medium and lanes."""
    topology = read_topology(name)
    root = ElementTree.fromstring(topology_svg(topology, created="2026-11-28").split("?>", 1)[1])
    stated = [g for g in root.iter(f"{SVG}g") if g.get("class") == "rate"]
    numbers = Counter("".join(g.itertext()) for g in stated)
    expected = Counter(rate_number(link.forward_bytes_per_s) for link in topology.links)
    assert numbers == expected
    words = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    assert "Drawn 2026-11-28" in words
    for link in topology.links:
        assert f"{lane_words(link)}, {each_way(link)} each way" in words


def test_two_lanes_are_two_lines_and_more_capacity_is_wider():
    page = Page(topology_svg(read_topology("dgx-1v")).split("?>", 1)[1])
    drawn = [a for tag, a in page.tags if tag == "path" and "wire" in (a.get("class") or "")]
    width = {d["d"]: float(d["stroke-width"] or 0) for d in reversed(drawn)}  # the lowest stroke
    inner = {d["d"] for d in drawn if "between" in (d["class"] or "")}
    double = [w for path, w in width.items() if path in inner]
    assert len(double) == 8 + 1  # links, and the key's sample
    assert min(double) > 2 * max(w for path, w in width.items() if path not in inner)


def test_a_host_of_several_says_what_leads_out_of_it():
    page = Page(topology_svg(read_topology("gb200-nvl72")).split("?>", 1)[1])
    assert page.svg_text.count("out: NVLink 3.60 TB/s") == 18
