"""The Python face of the router; its rules are tested in core/tests/problem/test_routes.cpp."""

import pytest

from toposeat import _core

# 0 --- 2 --- 1, and a slower direct link 0 --- 1
LINKS = [(0, 2, 1e-6, 10.0), (2, 1, 1e-6, 10.0), (0, 1, 5e-6, 10.0)]


def test_routes_of_all_pairs():
    assert _core.shortest_routes(3, LINKS, [False, False, True], [0, 1], [1, 0, 2]) == [
        [[0, 1], [], [0]],
        [[], [1, 0], [1]],
    ]
    assert _core.shortest_routes(3, LINKS, [False, False, False], [0], [1]) == [[[2]]]


def test_unreachable_is_empty_and_so_is_nothing_asked():
    assert _core.shortest_routes(2, [], [True, True], [0], [1]) == [[[]]]
    assert _core.shortest_routes(2, [], [True, True], [0, 1], []) == [[], []]
    assert _core.shortest_routes(0, [], [], [], []) == []


@pytest.mark.parametrize(
    ("vertices", "links", "forwards", "sources", "message"),
    [
        (3, LINKS, [True] * 2, [0], "expected one forwarding flag for each of 3 vertices, got 2"),
        (-1, [], [], [], "expected one forwarding flag"),
        (3, [(0, 3, 1e-6, 1.0)], [True] * 3, [0], "link 0 ends at a vertex that does not exist"),
        (3, [(0, -1, 1e-6, 1.0)], [True] * 3, [0], "-1 is not a vertex"),
        (3, [(1, 1, 1e-6, 1.0)], [True] * 3, [0], "link 0 joins a vertex to itself"),
        (3, [(0, 1, -1.0, 1.0)], [True] * 3, [0], "link 0: the latency"),
        (3, [(0, 1, float("nan"), 1.0)], [True] * 3, [0], "link 0: the latency"),
        (3, [(0, 1, 1e-6, 0.0)], [True] * 3, [0], "link 0: the bandwidth"),
        (3, LINKS, [True] * 3, [3], "source 3 is not a vertex, there are 3"),
        (3, LINKS, [True] * 3, [2**40], "is not a vertex"),
    ],
)
def test_bad_input(vertices, links, forwards, sources, message):
    with pytest.raises(ValueError, match=message):
        _core.shortest_routes(vertices, links, forwards, sources, [0])
