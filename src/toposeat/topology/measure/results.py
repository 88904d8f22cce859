"""Clocked transfers between pairs of GPUs, and what follows: bandwidth, latency, curves."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.files import read_text
from toposeat.model.quantity import Source
from toposeat.model.route import CopyProtocol
from toposeat.model.topology import CurvePoint, RouteCurve

PROTOCOLS = tuple(each.value for each in CopyProtocol)  # numbers 1 to 4 for the worker
LATENCY_BYTES = 8
LATENCY_SIZES = (1, LATENCY_BYTES, 64, 512, 2048)
SMALL_BYTES = 1 << 20
LARGE_BYTES = 4 << 20
BANDWIDTH_SIZES = (64 << 10, 256 << 10, SMALL_BYTES, LARGE_BYTES)
SIZES = (*LATENCY_SIZES, *BANDWIDTH_SIZES)
LARGER_SIZES = (16 << 20, 64 << 20)  # where the budget allows
_FARTHEST = 1.03  # pairs within this factor of the least bandwidth are the farthest


@dataclass(frozen=True)
class Transfers:
    """Repeated transfers of one size: seconds of each, as the receiver saw them.

    `at_once`: while the same pair copied as much the other way.
    """

    source: int
    target: int
    protocol: str
    bytes: int
    seconds: tuple[float, ...]
    at_once: bool = False

    @property
    def best(self) -> float:
        """The fastest: what the links allow when nothing else happens on the host."""
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """(median - fastest) / fastest."""
        return (statistics.median(self.seconds) - self.best) / self.best


@dataclass
class PairResults:
    """All transfers of all pairs, by (source, target, protocol, bytes).

    `both` has those of a pair's two directions at once. `record` is called with each new
    measurement, to keep it in a file. Matrices have shape (count, count), by source and target.
    """

    count: int
    of: dict[tuple[int, int, str, int], Transfers] = field(default_factory=dict)
    both: dict[tuple[int, int, str, int], Transfers] = field(default_factory=dict)
    record: Callable[[Transfers], None] | None = None

    def add(self, each: Transfers) -> None:
        """Keep a measurement, together with earlier ones of the same kind."""
        key = (each.source, each.target, each.protocol, each.bytes)
        known = self.both if each.at_once else self.of
        old = known.get(key)
        seconds = (*old.seconds, *each.seconds) if old else each.seconds
        known[key] = Transfers(*key, seconds, each.at_once)
        if self.record is not None:
            self.record(each)

    def best(self, protocol: str, size: int) -> NDArray[np.float64]:
        """Seconds of the fastest transfer of a size, each ordered pair; NaN where not measured."""
        values = np.full((self.count, self.count), np.nan)
        for i, j in self.pairs():
            found = self.of.get((i, j, protocol, size))
            if found:
                values[i, j] = found.best
        return values

    def bandwidth(self, protocol: str) -> NDArray[np.float64]:
        """Bytes/s of each ordered pair by the slope between two sizes; NaN where not measured.

        T = L + M / Bw: the slope leaves out what every transfer takes, whatever its size.
        """
        seconds = self.best(protocol, LARGE_BYTES) - self.best(protocol, SMALL_BYTES)
        seconds[~(seconds > 0)] = np.nan
        return (LARGE_BYTES - SMALL_BYTES) / seconds

    def both_ways(self, protocol: str) -> NDArray[np.float64]:
        """Bytes/s of each pair's two directions at once, their sum; NaN where not measured.

        It uses the median of each direction, because the fastest transfer may have run alone.
        """
        values = np.full((self.count, self.count), np.nan)
        for i, j in self.pairs():
            ways = [self.both.get((*way, protocol, LARGE_BYTES)) for way in ((i, j), (j, i))]
            found = [statistics.median(each.seconds) for each in ways if each is not None]
            if len(found) == 2:
                values[i, j] = sum(LARGE_BYTES / seconds for seconds in found)
        return values

    def both_ways_ratio(self, protocol: str) -> NDArray[np.float64]:
        """Bandwidth of both directions over that of the farthest pairs (Faraji et al. 2016)."""
        rate = self.both_ways(protocol)
        return rate / np.nanmin(rate) if not np.isnan(rate).all() else rate

    def latency(self, protocol: str) -> NDArray[np.float64]:
        """Seconds of a transfer of 8 bytes, handshake included; NaN where not measured."""
        return self.best(protocol, LATENCY_BYTES)

    def curve(self, source: int, target: int, protocol: str) -> RouteCurve | None:
        """Latency and bandwidth of a pair by message size; None where too little was measured.

        A message of M bytes that took T has, up to 2 KiB, latency T - M / Bw with the bandwidth of
        large ones, and above that bandwidth M / (T - L) with the latency L of the largest small
        one: both parts of the hybrid cost L(M) + M / Bw(M), which gives T at each measured size.
        """
        rate = float(self.bandwidth(protocol)[source, target])
        times = {
            size: found.best
            for size in (*SIZES, *LARGER_SIZES)
            if (found := self.of.get((source, target, protocol, size)))
        }
        small = [size for size in LATENCY_SIZES if size in times]
        if np.isnan(rate) or not small:
            return None
        points = [(size, max(0.0, times[size] - size / rate), rate) for size in small]
        wait = points[-1][1]
        points += [
            (size, wait, size / (times[size] - wait))
            for size in (*BANDWIDTH_SIZES, *LARGER_SIZES)
            if times.get(size, 0.0) > wait
        ]
        return RouteCurve(
            points=tuple(
                CurvePoint(message_bytes=size, latency_s=latency, bytes_per_s=bandwidth)
                for size, latency, bandwidth in points
            ),
            source=Source.MEASURED,
        )

    def latency_ratio(self, protocol: str) -> NDArray[np.float64]:
        """Latency of the farthest pairs over that of each pair, mean over 1 B to 2 KiB.

        Faraji et al. 2016, section 4: larger is nearer. Their "level 3" is here: the pairs whose
        bandwidth is within 3 % of the least.
        """
        return self._ratio(protocol, LATENCY_SIZES)

    def bandwidth_ratio(self, protocol: str) -> NDArray[np.float64]:
        """Bandwidth of each pair over that of the farthest pairs, mean over 64 KiB to 4 MiB.

        The farthest pairs are those of `latency_ratio`. The ratio is of one direction; that of both
        at once, which Faraji et al. use, is `both_ways_ratio`.
        """
        return self._ratio(protocol, BANDWIDTH_SIZES)

    def spread(self) -> float:
        """Median over all large transfers of how far the median is from the fastest."""
        found = [t.spread for t in self.of.values() if t.bytes >= SMALL_BYTES]
        return statistics.median(found) if found else float("nan")

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All ordered pairs."""
        for i in range(self.count):
            for j in range(self.count):
                if i != j:
                    yield i, j

    def _ratio(self, protocol: str, sizes: tuple[int, ...]) -> NDArray[np.float64]:
        rate = self.bandwidth(protocol)
        if np.isnan(rate).all():
            return rate
        farthest = rate <= np.nanmin(rate) * _FARTHEST
        ratios = []
        for size in sizes:
            seconds = self.best(protocol, size)
            if not np.isnan(seconds[farthest]).all():
                ratios.append(np.nanmedian(seconds[farthest]) / seconds)
        return np.mean(ratios, axis=0) if ratios else np.full_like(rate, np.nan)


SCHEMA = "toposeat/measurement-raw/1"
_HINT = "give another file, or remove this one to begin anew"
_Time = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class _Head(msgspec.Struct):
    schema: str = ""
    devices: list[str] = []


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    source: Annotated[int, msgspec.Meta(ge=0)]
    target: Annotated[int, msgspec.Meta(ge=0)]
    protocol: CopyProtocol
    bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
    seconds: Annotated[tuple[_Time, ...], msgspec.Meta(min_length=1)]
    at_once: bool = False


@contextmanager
def raw_file(path: str | Path, pci: Sequence[str]) -> Iterator[PairResults]:
    """Results that hold what a file has, if it is there, and add to it whatever is measured.

    `pci` are the bus ids of the GPUs to measure, in order.
    """
    target = Path(path)
    results = PairResults(len(pci))
    whole = b""
    if target.exists() and target.stat().st_size:
        text = read_text(target)
        whole = text[: text.rfind("\n") + 1].encode()
        _read(whole.decode(), target, pci, results)
    try:
        with target.open("r+b" if target.exists() else "w+b") as file:
            file.truncate(len(whole))
            file.seek(0, 2)
            if not whole:
                file.write(_line({"schema": SCHEMA, "devices": list(pci)}))

            def append(each: Transfers) -> None:
                file.write(_line(each.__dict__))
                file.flush()

            results.record = append
            try:
                yield results
            finally:
                results.record = None
    except OSError as error:
        raise InputError(
            f"cannot write: {error.strerror or error}", path=target, hint="check permissions"
        ) from error


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _read(text: str, path: Path, pci: Sequence[str], results: PairResults) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if number > 1:
                results.add(_transfers(line, len(pci)))
                continue
            head = msgspec.json.decode(line, type=_Head)
            if head.schema != SCHEMA:
                raise ValueError(f"schema {head.schema[:60]!r}, not {SCHEMA!r}")
            if head.devices != list(pci):
                raise ValueError(f"measured on other GPUs than these: {', '.join(pci)[:200]}")
        except (ValueError, RecursionError) as error:
            raise InputError(str(error)[:300], path=path, line=number, hint=_HINT) from error


def _transfers(line: str, count: int) -> Transfers:
    found = msgspec.json.decode(line, type=_Line)
    if found.source == found.target or max(found.source, found.target) >= count:
        raise ValueError(f"no transfer between {count} GPUs: {found.source} to {found.target}")
    fields = msgspec.structs.asdict(found)
    return Transfers(**{**fields, "protocol": found.protocol.value})
