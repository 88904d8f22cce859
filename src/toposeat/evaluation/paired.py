"""Gains from runs that take turns: mean, spread, and Student's interval of paired ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from toposeat.model.runs import Gain

# Student's t, two-sided 95 %, by degrees of freedom 1, 2, ...; beyond the table its last value.
_T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def paired_gain(before: Sequence[float], after: Sequence[float]) -> Gain:
    """What share of `before` is saved: the mean over pairs of 1 - after / before.

    Args:
        before: seconds, each > 0.
        after: seconds of the run beside it.

    Returns:
        The gain; its deviation and 95 % interval only from two pairs on.
    """
    gains = [1 - b / a for a, b in zip(before, after, strict=True)]
    mean = statistics.fmean(gains)
    if len(gains) < 2:
        return Gain(mean=mean, count=len(gains))
    deviation = statistics.stdev(gains)
    half = _T95[min(len(gains) - 1, len(_T95)) - 1] * deviation / math.sqrt(len(gains))
    return Gain(mean=mean, deviation=deviation, low=mean - half, high=mean + half, count=len(gains))
