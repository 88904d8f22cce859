"""Copies between host memory and each GPU, one GPU at a time."""

from __future__ import annotations

from toposeat.model.pair_numbers import BANDWIDTH, LATENCY
from toposeat.model.topology import HostNumbers
from toposeat.topology.measure.pairs import Copiers
from toposeat.topology.measure.results import LARGE_BYTES, LATENCY_BYTES, SMALL_BYTES

_REPEATS = 5
_TO_DEVICE, _FROM_DEVICE = 0, 1


def measure_host(workers: Copiers) -> list[HostNumbers]:
    """Bandwidth (by the slope between two sizes) and latency, both ways.

    GPUs whose driver refuses to pin host memory are left out: copies of pageable memory say what
    the driver's own staging reaches, not what the link does.

    Args:
        workers: with memory for `LARGE_BYTES`.

    Raises:
        MeasureError: a worker failed or stopped answering.
    """
    numbers = []
    for device in range(workers.count):
        into = _best(workers, device, _TO_DEVICE)
        out = _best(workers, device, _FROM_DEVICE)
        if into is None or out is None:
            continue
        numbers += [
            HostNumbers(
                what=BANDWIDTH,
                device=f"GPU{device}",
                to_device=_slope(into),
                from_device=_slope(out),
            ),
            HostNumbers(
                what=LATENCY,
                device=f"GPU{device}",
                to_device=into[LATENCY_BYTES],
                from_device=out[LATENCY_BYTES],
            ),
        ]
    return numbers


def _best(workers: Copiers, device: int, direction: int) -> dict[int, float] | None:
    found = {}
    for size in (LATENCY_BYTES, SMALL_BYTES, LARGE_BYTES):
        words = workers.ask({device: f"host {direction} {size} {_REPEATS} 0"})[device]
        if words[0] != "pinned":
            return None
        found[size] = min(map(float, words[1:]))
    return found


def _slope(seconds: dict[int, float]) -> float | None:
    more = seconds[LARGE_BYTES] - seconds[SMALL_BYTES]
    return (LARGE_BYTES - SMALL_BYTES) / more if more > 0 else None
