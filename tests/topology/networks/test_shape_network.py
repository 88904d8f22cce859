"""Levels of tori: halves of halves, whatever the size."""

from hypothesis import given
from hypothesis import strategies as st

from toposeat.topology import read_network
from toposeat.topology.networks.shape_network import grid_levels

PLACES = st.integers(1, 4).flatmap(
    lambda dimensions: st.lists(st.tuples(*[st.integers(0, 9)] * dimensions), max_size=40)
)


def halves(group, places):
    """One group at a time, as the documentation of `grid_levels` puts it."""
    columns = list(zip(*(places[host] for host in group), strict=True))
    extent = [max(column) - min(column) + 1 for column in columns]
    longest = 0 if extent[0] > 1 else extent.index(max(extent))
    if extent[longest] < 2:
        return [list(group)]
    middle = min(columns[longest]) + extent[longest] // 2
    low = [host for host in group if places[host][longest] < middle]
    return [low, [host for host in group if places[host][longest] >= middle]]


@given(PLACES)
def test_levels_are_halves_of_halves(places):
    groups = [list(range(len(places)))] if places else []
    for level in grid_levels(places):
        finer = [half for group in groups for half in halves(group, places)]
        assert len(finer) > len(groups)
        groups = finer
        for number, group in enumerate(groups):
            assert {level.group_of_host[host] for host in group} == {number}
    assert all(len({places[host] for host in group}) == 1 for group in groups)


def test_a_torus_of_fifty_thousand_routers():
    """It took more than two seconds, most of them for the levels and for copies of the links."""
    network = read_network("torus4d:6464x2x2x2")
    assert len(network.hosts) == 51_712
    assert [level.groups for level in network.levels[:3]] == [2, 4, 8]
    assert network.levels[-1].groups == 51_712
    assert len(network.levels) == 13 + 3  # 6464 is cut 13 times, then the three dimensions of two
    assert {link.bytes_per_s.value for link in network.links if link.bytes_per_s} == {10e9}
    assert len(network.links) == 51_712 + 3 * 51_712 // 2
