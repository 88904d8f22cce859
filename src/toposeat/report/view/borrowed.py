"""Lent and borrowed devices: who has what, how near it is, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from toposeat.model.lent import Borrowed, BorrowedSeat, LentDevice, Moved, Price
from toposeat.model.plural import plural
from toposeat.model.runs import SeatVerdict
from toposeat.report.parts import Fact, Part, Table, sentences
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import (
    clean,
    format_bytes,
    format_rate,
    format_seconds,
    known,
    three_digits,
)
from toposeat.report.view.differences import rank_differences

_MOST = 16  # ranks that are listed
_DEAR = 1.0  # of the run's time: beyond it a local device is faster however slow it is


def render_lent_text(devices: Sequence[LentDevice], style: TextStyle = PLAIN) -> str:
    """A line for each device."""
    if not devices:
        return "Nothing is lent\n"
    rows = [
        [
            clean(each.id),
            clean(each.kind),
            clean(each.name),
            known(each.memory_bytes, format_bytes),
            clean(each.address) or "this node only",
            _state(each),
        ]
        for each in devices
    ]
    return lay_out([Table(("device", "kind", "name", "memory", "address", ""), rows)], style)


def _state(device: LentDevice) -> str:
    if device.is_silent:
        return "does not answer"
    room = f", room for {device.room} more" if device.room else ""
    if device.borrowed_by:
        return f"{'shared' if device.jobs > 1 else 'borrowed'} by {clean(device.borrowed_by)}{room}"
    return f"free, for {device.share} jobs" if device.share > 1 else "free"


def render_moved_text(moved: Moved, style: TextStyle = PLAIN) -> str:
    """How many processes have moved, and why others stayed."""
    parts: list[Part] = []
    if moved.processes:
        who = plural(moved.processes, "process")
        took = format_seconds(moved.seconds)
        parts.append(
            Fact("Moved", f"{who} from {clean(moved.source)} to {clean(moved.target)} in {took}")
        )
    if moved.refused:
        who = plural(len(moved.refused), "process")
        why = "; ".join(map(clean, dict.fromkeys(moved.refused)))
        parts.append(Fact("Stayed", f"{who} on {clean(moved.source)}: {why}"))
    if not parts:
        parts.append(Fact("Moved", f"nothing: no process uses {clean(moved.source)} now"))
    return lay_out(parts, style)


def render_borrowed_text(borrowed: Borrowed, style: TextStyle = PLAIN) -> str:
    """What a job is given or got: the verdict, the price, the ranks, and remarks."""
    parts: list[Part] = [Fact("Borrowed", _verdict(borrowed))]
    if borrowed.price is not None:
        parts.append(Fact("Price", price_words(borrowed.price)))
    rows = [row for seat in borrowed.seats for row in _rows(seat)]
    header = ("rank", "on", "device", "of", "round trip", "predicted", "to it", "from it", "pred.")
    parts.append(Table(header, rows[:_MOST], right=(0,)))
    if len(rows) > _MOST:
        parts.append(f"and {len(rows) - _MOST} more: --json lists them all")
    parts += sentences([*rank_differences(borrowed.seats), *_held(borrowed), *borrowed.notes])
    return lay_out(parts, style)


def _held(borrowed: Borrowed) -> list[str]:
    """Of each device what others held when one of its ranks began, the most."""
    most: dict[str, int] = {}
    for device in (own for seat in borrowed.seats for own in seat.devices):
        most[device.id] = max(most.get(device.id, 0), device.others_bytes)
    return [
        f"other processes held {format_bytes(n)} of {id} when it was taken"
        for id, n in most.items()
        if n
    ]


def _verdict(borrowed: Borrowed) -> str:
    ranks = plural(len(borrowed.seats), "rank")
    devices = {device.id for seat in borrowed.seats for device in seat.devices}
    what = f"{plural(len(devices), 'device')} for {ranks}"
    counts = Counter(seat.verdict for seat in borrowed.seats)
    if counts[None]:
        return what
    wrong, unknown = counts[SeatVerdict.MISMATCH], counts[SeatVerdict.NOT_CHECKED]
    if lost := counts[SeatVerdict.LOST]:
        return f"{what}: {lost} of them lost {'its device' if lost == 1 else 'their devices'}"
    if wrong:
        return f"{what}: {wrong} of them did not get what was meant for them"
    if unknown:
        return f"{what}: {unknown} of them not checked"
    return f"{what}, as planned"


def _rows(seat: BorrowedSeat) -> list[list[str]]:
    rows = []
    for device in seat.devices:
        way, seen = device.predicted, device.measured
        rows.append(
            [
                str(seat.rank),
                clean(seat.host),
                clean(device.id),
                clean(device.name),
                "" if seen is None else format_seconds(seen.round_trip_s),
                "unknown" if way is None else format_seconds(way.round_trip_s),
                "" if seen is None else format_rate(seen.to_bytes_per_s),
                "" if seen is None else format_rate(seen.from_bytes_per_s),
                "unknown" if way is None else format_rate(way.bytes_per_s),
            ]
        )
    return rows


def price_words(price: Price) -> str:
    """`borrowing adds 4 % (1.2 s to 30 s, rank 3)`, or that it is better to stay local."""
    of = f"({format_seconds(price.added_s)} to {format_seconds(price.run_s)}, rank {price.rank})"
    if price.share >= _DEAR:
        return f"borrowing adds {three_digits(price.share)}x {of}: stay local"
    return f"borrowing adds {three_digits(100 * price.share)} % {of}"
