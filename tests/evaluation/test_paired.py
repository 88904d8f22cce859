import math

import numpy as np
import pytest

from toposeat.evaluation.paired import paired_gain


def test_by_hand():
    gain = paired_gain([2.0, 2.0, 2.0], [1.0, 1.2, 0.8])
    assert gain.mean == pytest.approx(0.5)
    assert gain.deviation == pytest.approx(0.1)
    half = 4.303 * 0.1 / math.sqrt(3)  # Student's t, two degrees of freedom
    assert (gain.low, gain.high) == pytest.approx((0.5 - half, 0.5 + half))


def test_one_pair_has_no_spread():
    gain = paired_gain([4.0], [5.0])
    assert (gain.mean, gain.deviation, gain.low, gain.count) == (-0.25, None, None, 1)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(2000):
        gain = paired_gain([1.0] * 5, list(1 - rng.normal(0.1, 0.05, 5)))
        assert gain.low is not None
        assert gain.high is not None
        held += gain.low <= 0.1 <= gain.high
    assert 0.93 <= held / 2000 <= 0.97
