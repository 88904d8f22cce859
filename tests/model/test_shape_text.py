"""Large machines by name."""

import pytest

from toposeat.errors import UsageError
from toposeat.mapping import read_shape
from toposeat.model.shape_text import BLUE_WATERS, KNOWN_SHAPES, is_shape, parse_shape
from toposeat.topology import read_network, read_topology


@pytest.mark.parametrize("known", KNOWN_SHAPES.values(), ids=lambda each: each.name)
def test_a_name_stands_for_its_shape(known):
    assert known is BLUE_WATERS
    assert is_shape(BLUE_WATERS.name)
    named, spelled = parse_shape(BLUE_WATERS.name), parse_shape(BLUE_WATERS.shape)
    assert (named.kind, named.sizes, named.options) == (
        spelled.kind,
        spelled.sizes,
        spelled.options,
    )
    assert named.text == BLUE_WATERS.name
    assert read_shape(BLUE_WATERS.name).slots == BLUE_WATERS.hosts


def test_blue_waters_is_the_published_torus():
    """24x24x24 Geminis, two nodes on each, links along Y half as fast."""
    network = read_network("blue-waters")
    assert len(network.hosts) == BLUE_WATERS.hosts == 2 * 24**3
    assert len(network.switches) == 24**3
    rates = {link.level: link.bytes_per_s.value for link in network.links if link.bytes_per_s}
    assert rates[1] == rates[3] == 2 * rates[2]
    assert network.sources == BLUE_WATERS.sources
    assert network.report == (f"assumed: {BLUE_WATERS.assumed}",)


def test_options_behind_a_name_replace_its_own():
    options = parse_shape("blue-waters,bandwidth=1:1:1,ends=open").options
    assert options["bandwidth"] == "1:1:1"
    assert options["ends"] == "open"
    assert options["nodes"] == "2"


def test_what_is_wrong_behind_a_name_is_named():
    with pytest.raises(UsageError, match="nodes is given twice"):
        parse_shape("blue-waters,nodes=1,nodes=2")
    with pytest.raises(UsageError, match="unknown option 'size'"):
        read_shape("blue-waters,size=3")


@pytest.mark.parametrize("text", ["blue-waters", "torus3d:4x4x4,nodes=2", "fattree:4:4"])
def test_a_shape_is_no_single_machine(text):
    with pytest.raises(UsageError, match="is a network of hosts, not one machine") as caught:
        read_topology(text)
    assert "discover -t it" in caught.value.hint


def test_an_open_torus_has_no_links_around_its_ends():
    joined, opened = (read_network(f"torus3d:3x4x2,ends={ends}") for ends in ("joined", "open"))
    assert len(joined.links) - len(opened.links) == 4 * 2 + 3 * 2  # along X, along Y; Z has two
    with pytest.raises(UsageError, match="ends must be joined or open"):
        read_network("torus3d:3x4x2,ends=half")
