"""Puts numbers of pairs on routes: measured ones before nominal ones, none of them invented.

A program may print a dozen matrices of one machine (peer access on and off, one way and both, copy
engine and kernel, read and write). A route takes the one whose conditions are those of an MPI
program on that pair: peer access as the pair has it, one way, copy engine, written by the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toposeat.model.pair import BANDWIDTH
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import Device, PairNumbers, Route
from toposeat.topology.constants import GB_PER_S

_ENGINES = ("", "ce", "sm")
_OPERATIONS = ("", "write", "read")
_SOURCES = (Source.USER, Source.MEASURED, Source.NOMINAL, Source.ASSUMED)
_STAGED_IS_FASTER = 0.8  # a direct copy below this share of a staged one
_DOUBT = 0.10  # two measurements further apart are reported


@dataclass(frozen=True, slots=True)
class PairTable:
    """The best number of each ordered pair; NaN where none is known. Shape (n, n)."""

    values: NDArray[np.float64]
    sources: NDArray[np.int8]  # positions in `_SOURCES`

    def quantity(self, i: int, j: int) -> Quantity | None:
        """The number of one pair."""
        value = float(self.values[i, j])
        return None if np.isnan(value) else Quantity(value, _SOURCES[self.sources[i, j]])


def best_numbers(
    matrices: Sequence[PairNumbers],
    peer: NDArray[np.float64],
    report: list[str],
    *,
    what: str,
    both_ways: bool = False,
) -> PairTable:
    """The number of each pair whose conditions fit it best.

    Args:
        matrices: in order of trust.
        peer: shape (n, n): 1 where peer access is on, 0 where it is off, NaN where not known.
        report: takes conditions that did not fit, and measurements far apart.
        what: `BANDWIDTH` or `LATENCY`.
        both_ways: sums of both directions at once.
    """
    count = len(peer)
    values = np.full((count, count), np.nan)
    sources = np.zeros((count, count), np.int8)
    unfit: dict[tuple[str, str], None] = {}
    inner = np.eye(count, dtype=np.bool_)
    chosen = [m for m in matrices if m.what == what and m.both_ways is both_ways]
    chosen.sort(key=_conditions)
    for matrix in chosen:
        fits = _fits(matrix, peer, others=chosen)
        numbers = np.where(matrix.values > 0, matrix.values, np.nan)
        usable = fits & ~np.isnan(numbers)
        if not (usable & ~inner).any() and (numbers[~inner] > 0).any():
            access = "on" if matrix.peer else "off"
            unfit.setdefault((matrix.told_by, access), None)
        _report_doubts(matrix, values, np.where(usable, numbers, np.nan), report)
        new = usable & np.isnan(values)
        values[new] = numbers[new]
        sources[new] = _SOURCES.index(matrix.source)
    if np.isnan(values[~inner]).all():
        report.extend(
            f"{origin}: its {what} was measured with peer access {access}, which is not how the"
            " pairs are: left out"
            for origin, access in unfit
        )
    return PairTable(values, sources)


def _conditions(numbers: PairNumbers) -> tuple[int, int, int]:
    """How near the conditions are to those of MPI, nearest first."""
    return (
        _SOURCES.index(numbers.source),
        _ENGINES.index(numbers.engine) if numbers.engine in _ENGINES else len(_ENGINES),
        _OPERATIONS.index(numbers.operation) if numbers.operation in _OPERATIONS else 9,
    )


def _fits(
    numbers: PairNumbers, peer: NDArray[np.float64], *, others: Sequence[PairNumbers]
) -> NDArray[np.bool_]:
    """Pairs whose peer access is as it was in the measurement.

    Where it is not known, numbers with peer access on are taken before those with it off; those
    with it off only if there are no others at all.
    """
    if numbers.peer is None:
        return np.ones(peer.shape, np.bool_)
    inner = np.eye(len(peer), dtype=np.bool_)  # within a device there is no peer
    alone = all(each.peer is False for each in others)
    on, off = peer == 1, peer == 0
    fitting = inner | (~off if numbers.peer else off | (~on & alone))
    return np.asarray(fitting, np.bool_)


def _report_doubts(
    matrix: PairNumbers, taken: NDArray[np.float64], other: NDArray[np.float64], report: list[str]
) -> None:
    if matrix.source is not Source.MEASURED:
        return
    both = ~np.isnan(taken) & ~np.isnan(other)
    np.fill_diagonal(both, val=False)
    if not both.any():
        return
    apart = np.abs(other[both] / taken[both] - 1)
    if apart.max() > _DOUBT and not _other_conditions(matrix):
        report.append(
            f"{matrix.told_by}: the {matrix.what} of {int((apart > _DOUBT).sum())} pairs"
            f" differs from what another source measured, by up to {apart.max():.0%}: the other is"
            " taken"
        )


def _other_conditions(numbers: PairNumbers) -> bool:
    """Whether a difference is expected, because one was measured in another way."""
    return bool(numbers.engine or numbers.operation or numbers.peer is not None)


def peer_matrix(count: int, routes: Sequence[tuple[int, int, bool | None]]) -> NDArray[np.float64]:
    """Peer access as numbers, shape (n, n): 1 on, 0 off, NaN not known."""
    peer = np.full((count, count), np.nan)
    for i, j, access in routes:
        if access is not None:
            peer[i, j] = float(access)
    return peer


def report_unmeasured(table: PairTable, report: list[str], *, what: str) -> None:
    """Say how many pairs keep their nominal number."""
    between = ~np.eye(len(table.values), dtype=np.bool_)
    missing = np.isnan(table.values) & between
    if missing.any() and not missing[between].all():
        report.append(
            f"the {what} of {int(missing.sum())} of {int(between.sum())} pairs was not measured:"
            " they keep the nominal one"
        )


def report_slow_access(matrices: Sequence[PairNumbers], report: list[str]) -> None:
    """Say which pairs copy faster through host memory than to each other."""
    one_way = [m for m in matrices if m.what == BANDWIDTH and not m.both_ways]
    for direct in (m for m in one_way if m.peer):
        for staged in (m for m in one_way if m.peer is False and m.told_by == direct.told_by):
            fast, slow = staged.values, direct.values
            found = (slow > 0) & (fast * _STAGED_IS_FASTER > slow)
            np.fill_diagonal(found, val=False)
            if found.any():
                report.append(
                    f"{direct.told_by}: {int(found.sum())} ordered pairs copy faster through host"
                    f" memory ({fast[found].max() / GB_PER_S:.1f} GB/s) than directly"
                    f" ({slow[found].min() / GB_PER_S:.1f} GB/s): peer access takes a slow way"
                    " (NCCL_P2P_LEVEL, UCX_TLS decide whether it is used)"
                )


@dataclass(frozen=True, slots=True)
class PairTables:
    """What is known of every pair: one way, both ways together, and the latency."""

    rate: PairTable
    both: PairTable
    latency: PairTable

    def on_route(self, route: Route, i: int, j: int) -> Route:
        """The route from device i to device j with its numbers; unknown ones stay as they were."""
        return replace(
            route,
            cap_bytes_per_s=self.rate.quantity(i, j) or route.cap_bytes_per_s,
            combined_bytes_per_s=self.both.quantity(i, j) or route.combined_bytes_per_s,
            latency_s=self.latency.quantity(i, j) or route.latency_s,
        )

    def on_device(self, device: Device, i: int) -> Device:
        """Device i with the numbers of copies within it."""
        return replace(
            device,
            copy_bytes_per_s=self.rate.quantity(i, i) or device.copy_bytes_per_s,
            copy_latency_s=self.latency.quantity(i, i) or device.copy_latency_s,
        )
