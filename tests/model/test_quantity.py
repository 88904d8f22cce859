"""Ranges of numbers, and the facts that keep them."""

import numpy as np
import pytest

from toposeat.model.pair import HostNumbers, LaneState, PairNumbers
from toposeat.model.quantity import check_pair_number


@pytest.mark.parametrize(
    ("what", "value"),
    [("bandwidth", None), ("bandwidth", float("nan")), ("bandwidth", 0.0), ("bandwidth", 1e14),
     ("bandwidth", 1e-3), ("latency", 0.0), ("latency", 1e-6), ("latency", 3600.0)],
)  # fmt: skip
def test_possible_or_not_known(what, value):
    check_pair_number(what, value)


@pytest.mark.parametrize(
    ("what", "value"),
    [("bandwidth", 1.01e14), ("bandwidth", 3.8e-310), ("latency", 1e-320), ("latency", 3601.0)],
)
def test_impossible_numbers_are_no_facts(what, value):
    values = np.full((2, 2), np.nan)
    values[0, 1], values[1, 0] = value, 1.0
    with pytest.raises(ValueError, match="is not within"):
        PairNumbers(what=what, values=values)
    with pytest.raises(ValueError, match="is not within"):
        HostNumbers(what=what, device="gpu0", to_device=value)


def test_a_lane_faster_than_any():
    with pytest.raises(ValueError, match="is not within"):
        LaneState(device="gpu0", lane=0, bytes_per_s=2e14)
