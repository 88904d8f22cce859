"""What was measured between the GPUs of a node, as it is shown and printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toposeat.model.record import Record

if TYPE_CHECKING:
    from toposeat.model.pair import HostNumbers

Matrix = tuple[tuple[float, ...], ...]  # by source and target; NaN where not measured


class MeasuredPairs(Record, frozen=True, kw_only=True):
    """What a way to copy reaches, pair by pair; ratios are to the farthest pairs."""

    bandwidth_bytes_per_s: Matrix
    latency_s: Matrix
    bandwidth_ratio: Matrix
    latency_ratio: Matrix
    both_ways_bytes_per_s: Matrix
    both_ways_ratio: Matrix


class SharedRates(Record, frozen=True, kw_only=True):
    """GPUs that copy to the others at once, and what they reach together.

    `limits`: the link that they share is the bottleneck; else it carried all that they could send.
    """

    devices: tuple[int, ...]
    out_bytes_per_s: float
    in_bytes_per_s: float
    both_bytes_per_s: float
    limits: bool


class Measurement(Record, frozen=True, kw_only=True):
    """All of it.

    Attributes:
        devices: PCI bus ids, in the order of the matrices.
        protocols: the way that was asked for first, then those that pairs fell back to.
        spread: of large transfers, (median - fastest) / fastest.
        shared: sets of GPUs, copied at once.
        host: copies to and from pinned host memory.
    """

    devices: tuple[str, ...]
    protocols: Mapping[str, MeasuredPairs]
    spread: float
    shared: tuple[SharedRates, ...]
    host: tuple[HostNumbers, ...]
