"""What the boundary refuses: arrays that do not fit together."""

from itertools import combinations

import numpy as np
import pytest

from toposeat import _core


def network(**changes):
    """Two devices, one link of 10 bytes/s."""
    arguments = {
        "devices": 2,
        "forward": np.array([10.0]),
        "backward": np.array([10.0]),
        "combined": np.array([np.inf]),
        "route_begin": np.array([0, 0, 1, 2, 2], np.uint32),
        "route_link": np.array([0, 0], np.uint32),
        "route_reverse": np.array([False, True]),
        "cap": np.full(4, np.inf),
        "latency": np.zeros(4),
    }
    return _core.Network(**{**arguments, **changes})


def traffic(**changes):
    arguments = {
        "ranks": 2,
        "source": np.array([0, 1], np.uint32),
        "target": np.array([1, 0], np.uint32),
        "bytes": np.array([20.0, 40.0]),
        "messages": np.ones(2),
    }
    return _core.RankTraffic(**{**arguments, **changes})


def test_evaluates():
    assert (network().devices, network().links) == (2, 1)
    assert (traffic().ranks, len(traffic())) == (2, 2)
    result = _core.congestion(network(), traffic(), [1, 0])
    assert result.forward_bytes.tolist() == [40.0]
    assert result.backward_bytes.tolist() == [20.0]
    assert result.seconds.tolist() == [4.0]
    assert (result.max_s, result.mean_s, result.hop_bytes) == (4.0, 4.0, 60.0)
    assert _core.flow_time(network(), traffic(), [1, 0]) == 4.0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("backward", np.array([1.0, 2.0]), "differ in length"),
        ("route_reverse", np.array([True]), "differ in length"),
        ("route_begin", np.array([0, 0, 1, 2], np.uint32), "devices\\^2 \\+ 1"),
        ("route_link", np.array([0, 7], np.uint32), "uses a link that does not exist"),
        ("cap", np.zeros(4), "cap is not greater than zero"),
        ("latency", np.full(4, np.nan), "latency is negative or not finite"),
        ("forward", np.array([0.0]), "capacity is not greater than zero"),
    ],
)
def test_a_network_that_does_not_fit(name, value, message):
    with pytest.raises(ValueError, match=message):
        network(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("bytes", np.array([1.0]), "differ in length"),
        ("bytes", np.array([1.0, -1.0]), "finite and not negative"),
        ("source", np.array([0, 2], np.uint32), "rank out of range"),
        ("target", np.array([0, 0], np.uint32), "its own rank"),
    ],
)
def test_a_traffic_that_does_not_fit(name, value, message):
    with pytest.raises(ValueError, match=message):
        traffic(**{name: value})


@pytest.mark.parametrize("placement", [[0], [0, 2], [0, 1, 1]])
def test_an_assignment_that_does_not_fit(placement):
    for function in (
        _core.congestion,
        _core.flow_time,
        _core.flow_times,
    ):
        with pytest.raises(ValueError, match="rank"):
            function(network(), traffic(), placement)
    with pytest.raises(TypeError):
        _core.flow_time(network(), traffic(), [0, -1])


def test_symmetries_are_those_of_a_square_table():
    ring = np.array([[0.0 if (a - b) % 5 in (1, 4) else 1.0 for a in range(5)] for b in range(5)])
    symmetry = _core.Symmetry(ring)
    assert symmetry.representatives([], range(5)) == [0]
    assert symmetry.representatives([0], [1, 2, 3, 4]) == [1, 2]  # the mirror image is left
    assert all(
        len(symmetry.representatives([0, 1], each)) == 2 for each in combinations((2, 3, 4), 2)
    )
    with pytest.raises(ValueError, match="5 places"):
        symmetry.representatives([5], [0])
    with pytest.raises(ValueError, match="square"):
        _core.Symmetry(ring[:3])
