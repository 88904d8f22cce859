"""Synthetic machines: shapes, options, and refusals."""

from collections import Counter

import pytest

from toposeat.errors import UsageError
from toposeat.topology import read_topology


@pytest.mark.parametrize(
    ("text", "devices", "links", "classes"),
    [
        ("tree:2:2:2:2", 16, 30, {"PIX": 16, "PXB": 96, "PHB": 128}),
        ("tree:2x8", 16, 18, {"PIX": 112, "PHB": 128}),
        ("tree:4", 4, 4, {"PHB": 12}),
        ("pcie:2:2:4", 16, 23, {"PIX": 48, "PHB": 64, "SYS": 128}),
        ("nvswitch:8", 8, 8, {"NVL": 56}),
        ("full:4", 4, 6, {"NVL": 12}),
        ("ring:8", 8, 8, {"NVL": 56}),
        ("ring:2", 2, 1, {"NVL": 2}),
        ("mesh:4x4", 16, 24, {"NVL": 240}),
        ("torus:4x4", 16, 32, {"NVL": 240}),
        ("torus:4x2", 8, 12, {"NVL": 56}),
        ("tree:1", 1, 1, {}),
    ],
)
def test_shapes(text, devices, links, classes):
    topology = read_topology(text)
    assert (len(topology.devices), len(topology.links)) == (devices, links)
    assert Counter(r.path_class.value for r in topology.routes) == classes
    assert topology.report == ()


def test_torus_routes_take_the_short_way_round():
    """Row-major numbers: GPU 0 is (0, 0), GPU 15 is (3, 3): one wrap in each dimension."""
    topology = read_topology("torus:4x4")
    hops = {d.id: len(topology.route_of_pair["gpu0", d.id].links) for d in topology.devices[1:]}
    assert hops["gpu15"] == hops["gpu5"] == 2
    assert hops["gpu10"] == max(hops.values()) == 4
    assert hops["gpu4"] == hops["gpu12"] == 1


def test_options():
    topology = read_topology("tree:2:4,bw=12/6.5,lat=2")
    by_level = {
        link.ends[0].startswith("gpu"): link.forward_bytes_per_s.value for link in topology.links
    }
    assert by_level == {True: 12e9, False: 6.5e9}
    assert {link.latency_s.value for link in topology.links} == {2e-6}
    one = read_topology("nvswitch:2,bw=300")
    assert {link.forward_bytes_per_s.value for link in one.links} == {300e9}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tree:0", "0 devices"),
        ("tree:1000", "1000 devices"),
        ("tree:16:17", "272 devices"),
        ("tree:", "not a synthetic machine"),
        ("star:4", "no synthetic machine"),
        ("ring:2:2", "ring takes 1 sizes, got 2"),
        ("pcie:2:2", "pcie takes 3 sizes, got 2"),
        ("tree:2:2,bw=x", "expected a number above 0"),
        ("tree:2:2,bw=0", "expected a number above 0"),
        ("tree:2:2,bw=1/2/3", "has 3 numbers"),
        ("tree:2:2,speed=3", "unknown option 'speed'"),
        ("tree:2:2,", "not a synthetic machine"),
    ],
)
def test_refuses(text, words):
    with pytest.raises(UsageError) as caught:
        read_topology(text)
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["pcie:2:2:" + " " * 9000, "ring:8," + "x" * 9000])
def test_what_is_too_long_is_not_quoted_whole(text):
    with pytest.raises(UsageError, match="not a synthetic machine") as caught:
        read_topology(text)
    assert len(str(caught.value)) < 200
    assert caught.value.hint
