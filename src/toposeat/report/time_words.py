"""Where the time of a profiled run went, and what share of it could gain at all.

Times are measured, never predicted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from toposeat.model.traffic import MemorySpace, TimeKind, Traffic
from toposeat.report.units import format_count, format_percent, format_seconds, three_digits

NOT_TIMED = "not timed"
_ALL = 0.99  # a larger share is as good as all: the limit would be the clock's error


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of the run's time, over all ranks."""

    name: str  # "collective, device memory", "outside MPI"
    space: MemorySpace | None  # None: not the application's own messages
    seconds: float
    share: float  # of the run
    calls: int | None


def is_timed(traffic: Traffic) -> bool:
    """Whether times were measured at all."""
    return traffic.timed and any(info.wall_s > 0 for info in traffic.rank_info)


def time_parts(traffic: Traffic) -> list[TimePart]:
    """Time in MPI by kind and memory, other MPI calls, and the rest; [] when not timed.

    Shares are of the sum of all ranks' run times; they add up to 1. Of a rank whose threads are in
    MPI at once, for longer together than it ran, they are of its threads' time.
    """
    if not is_timed(traffic):
        return []
    wall = sum(info.wall_s for info in traffic.rank_info)
    inside = sum(min(info.mpi_s, info.wall_s) for info in traffic.rank_info)
    seconds: dict[tuple[TimeKind, MemorySpace], float] = defaultdict(float)
    of_run: dict[tuple[TimeKind, MemorySpace], float] = defaultdict(float)
    calls: Counter[tuple[TimeKind, MemorySpace]] = Counter()
    for info in traffic.rank_info:
        within = min(1.0, info.wall_s / info.mpi_s) if info.mpi_s > 0 else 1.0
        for part in info.time:
            seconds[part.kind, part.space] += part.seconds
            of_run[part.kind, part.space] += part.seconds * within
            calls[part.kind, part.space] += part.calls
    parts = []
    for (kind, space), spent in sorted(seconds.items(), key=lambda entry: -entry[1]):
        if kind is not TimeKind.OTHER and (spent > 0 or calls[kind, space]):
            name = f"{kind.value}, {space.value} memory"
            parts.append(
                TimePart(name, space, spent, of_run[kind, space] / wall, calls[kind, space])
            )
    known = sum(part.share for part in parts) * wall
    if inside - known > 1e-12 * wall:  # more than rounding
        name = "other MPI calls" if parts else "in MPI calls"
        other = sum(n for (kind, _), n in calls.items() if kind is TimeKind.OTHER)
        rest = inside - known
        parts.append(TimePart(name, None, rest, rest / wall, other if parts else None))
    outside = max(wall - max(inside, known), 0.0)
    parts.append(TimePart("outside MPI", None, outside, outside / wall, None))
    return parts


def gain_share(traffic: Traffic) -> float | None:
    """Share of the run that placement could shorten at all; None when not timed.

    Placement serves device traffic where there is any (`Traffic.mapped_space`): then it is the time
    in MPI calls on device buffers, else that in all calls that move data. Without a split by kind,
    all time in MPI.
    """
    parts = time_parts(traffic)
    if not parts:
        return None
    if not any(info.time for info in traffic.rank_info):
        return min(1 - parts[-1].share, 1.0)
    mapped = traffic.mapped_space
    shares = [p.share for p in parts if p.space is not None and mapped in (None, p.space)]
    return min(sum(shares), 1.0)


def gain_place(traffic: Traffic) -> str:
    """Where the time of `gain_share` is spent."""
    if not any(info.time for info in traffic.rank_info):
        return "in MPI calls"
    on_device = traffic.mapped_space is MemorySpace.DEVICE
    return "in MPI calls on device buffers" if on_device else "in MPI calls that move data"


def gain_words(traffic: Traffic) -> str:
    """The verdict in one sentence: what share of the run could gain at all."""
    if not len(traffic.mapped_table()):
        return "Nothing to gain: no rank sent anything to another."
    share = gain_share(traffic)
    if share is None:
        return "It is not known what share of the run could gain: the profile has no times."
    limit = f", so never faster than {three_digits(1 / (1 - share))}x" if share < _ALL else ""
    return (
        f"At most {format_percent(share)} of the run could gain from placement: its ranks spend"
        f" that {gain_place(traffic)}, waiting included (measured){limit}."
    )


def time_rows(traffic: Traffic) -> list[tuple[str, ...]]:
    """What, seconds of all ranks, share of the run, calls."""
    return [
        (
            part.name,
            format_seconds(part.seconds),
            format_percent(part.share),
            "" if part.calls is None else format_count(part.calls),
        )
        for part in time_parts(traffic)
    ]
