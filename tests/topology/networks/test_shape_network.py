"""Levels of tori: halves of halves, whatever the size."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from toposeat.topology import read_network

SIZES = st.integers(2, 4).flatmap(
    lambda dimensions: st.lists(st.integers(1, 7), min_size=dimensions, max_size=dimensions)
)


def halves(group, places):
    """One group at a time, across its longest side."""
    columns = list(zip(*(places[host] for host in group), strict=True))
    extent = [max(column) - min(column) + 1 for column in columns]
    longest = extent.index(max(extent))
    if extent[longest] < 2:
        return [list(group)]
    middle = min(columns[longest]) + extent[longest] // 2
    low = [host for host in group if places[host][longest] < middle]
    return [low, [host for host in group if places[host][longest] >= middle]]


@settings(deadline=None)
@given(SIZES, st.integers(1, 2))
def test_levels_are_halves_of_halves(sizes, nodes):
    places = [place for place in product(*map(range, sizes)) for _ in range(nodes)]
    shape = "x".join(map(str, sizes))
    groups = [list(range(len(places)))]
    for level in read_network(f"torus{len(sizes)}d:{shape},nodes={nodes}").levels:
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
