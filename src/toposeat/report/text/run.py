"""A run as text: the measured wall time and what each rank really got."""

from __future__ import annotations

import re
from collections import Counter

from rich.console import RenderableType
from rich.text import Text

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.run_record import RealisedSeat, RunRecord, Verdict
from toposeat.model.shell_words import shell_line
from toposeat.report.text.console import PLAIN, TextStyle, columns, labelled, lay_out, sentences
from toposeat.report.units import clean, format_seconds, plural

_MOST = 9  # causes that are told after a run
_NAMES = re.compile(r"\S*\d[^\s,;)]*")
_STYLE_OF_VERDICT = {
    Verdict.AS_PLACED: "green",
    Verdict.MISMATCH: "bold red",
    Verdict.NOT_CHECKED: "yellow",
}


def render_verdict(record: RunRecord, style: TextStyle = PLAIN) -> str:
    """The verdict, then only what differs from the plan: a dozen lines at most, and one of time.

    A cause is said once for all ranks that have it, also where it names a device of each.
    """
    parts: list[RenderableType] = [Text(_verdict(record))]
    told = [*_differences(record, alike=True), *record.notes]
    parts += sentences(told[:_MOST])
    if len(told) > _MOST:
        parts += sentences([f"{len(told) - _MOST} causes more: run with -o FILE, then report FILE"])
    parts.append(Text(f"Took {format_seconds(record.wall_s)}, exit code {record.exit_code}"))
    return lay_out(parts, style)


def _verdict(record: RunRecord) -> str:
    """`16 ranks as planned on 4 nodes`."""
    if not record.placement:
        return "No placement: ranks are where the launcher put them"
    if not record.seats:
        return "No rank was asked what it got"
    counts = Counter(seat.verdict for seat in record.seats)
    hosts = len({seat.host for seat in record.seats if seat.host})
    where = f" on {plural(hosts, 'node')}" if hosts else ""
    ranks = len(record.seats)
    wrong, unknown = counts[Verdict.MISMATCH], counts[Verdict.NOT_CHECKED]
    if wrong:
        rest = f", {unknown} not checked" if unknown else ""
        return f"{wrong} of {plural(ranks, 'rank')}{where} not as planned{rest}"
    if unknown == ranks and not hosts and record.exit_code:
        return f"No rank reported what it got: the launcher ended with code {record.exit_code}"
    if unknown == ranks:
        return f"{plural(ranks, 'rank')}{where}, not all of the plan checked"
    rest = f", not all of the plan checked for {unknown}" if unknown else ""
    return f"{plural(ranks, 'rank')} as planned{where}{rest}"


def render_run_text(record: RunRecord, style: TextStyle = PLAIN) -> str:
    """What was run, how long it took (measured), and the verdict on every rank."""
    repeats = f", {plural(record.repeats, 'run')}" if record.repeats > 1 else ""
    parts: list[RenderableType] = [
        labelled("Run", clean(shell_line(record.command))),
        labelled("Placed by", _placed_by(record)),
        labelled("Where", f"{clean(record.host)}, {clean(record.started_at)}"),
        labelled(
            "Measured",
            f"wall time {format_seconds(record.wall_s)}{repeats}, exit code {record.exit_code}",
        ),
    ]
    if record.seats:
        parts += ["", _seats(record), "", Text(verification_words(record))]
        parts += sentences(_differences(record))
    parts += sentences(record.notes)
    return lay_out(parts, style)


def _placed_by(record: RunRecord) -> str:
    if not record.placement:
        return "the launcher"
    return f"{clean(record.placement)}, visibility {clean(record.visibility)}"


def verification_words(record: RunRecord) -> str:
    """`14 ranks as placed, 2 ranks mismatch`."""
    if not record.seats:
        return "No rank reported what it got."
    counts = Counter(seat.verdict for seat in record.seats)
    parts = [f"{plural(counts[v], 'rank')} {v.value}" for v in Verdict if counts[v]]
    return "Verification: " + ", ".join(parts)


def _differences(record: RunRecord, *, alike: bool = False) -> list[str]:
    """What differs, each once, with the ranks it holds for.

    With `alike`, sentences that differ in devices, CPUs and other names with digits only are one,
    shown as that of the first rank; what most ranks have comes first.
    """
    ranks_of: dict[str, list[int]] = {}
    first: dict[str, str] = {}
    for seat in record.seats:
        for difference in seat.differences:
            cause = _NAMES.sub("#", difference) if alike else difference
            ranks_of.setdefault(cause, []).append(seat.rank)
            first.setdefault(cause, difference)
    said = []
    for cause, ranks in sorted(ranks_of.items(), key=_commonest) if alike else ranks_of.items():
        who = "rank" if len(ranks) == 1 else "ranks"
        own = {d for seat in record.seats for d in seat.differences if _NAMES.sub("#", d) == cause}
        example = f" (rank {ranks[0]}; the others alike)" if alike and len(own) > 1 else ""
        shown = format_cpu_list(sorted(ranks)).replace(",", ", ")
        said.append(f"{who} {shown}: {first[cause]}{example}")
    return said


def _commonest(cause: tuple[str, list[int]]) -> tuple[int, int]:
    return -len(cause[1]), cause[1][0]


def _seats(record: RunRecord) -> RenderableType:
    header = ("rank", "host", "pci", "visible devices", "cpus", "memory", "nic", "verdict")
    rows: list[list[str | Text]] = [
        [*seat_cells(seat), Text(seat.verdict.value, style=_STYLE_OF_VERDICT[seat.verdict])]
        for seat in record.seats
    ]
    return columns(header, rows, right=(0,), fold=(3, 4, 7), only_used=True)


def seat_cells(seat: RealisedSeat) -> list[str]:
    """Rank, host, PCI bus id, visible devices, CPUs, memory and NIC; `-` for what is not known."""
    known = (seat.host, seat.pci_bus_id, seat.visible_devices, seat.cpus, seat.memory_policy)
    return [str(seat.rank), *(each or "-" for each in (*known, seat.nic))]
