"""A run as text: the measured wall time and what each rank really got."""

from __future__ import annotations

import shlex
from collections import Counter

from rich.console import RenderableType
from rich.text import Text

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.run_record import RealisedSeat, RunRecord, Verdict
from toposeat.report.text.console import PLAIN, TextStyle, columns, labelled, lay_out, sentences
from toposeat.report.units import clean, format_seconds, plural

_STYLE_OF_VERDICT = {
    Verdict.AS_PLACED: "green",
    Verdict.MISMATCH: "bold red",
    Verdict.NOT_CHECKED: "yellow",
}


def render_run_text(record: RunRecord, style: TextStyle = PLAIN) -> str:
    """What was run, how long it took (measured), and the verdict on every rank."""
    repeats = f", {plural(record.repeats, 'run')}" if record.repeats > 1 else ""
    parts: list[RenderableType] = [
        labelled("Run", clean(shlex.join(record.command))),
        *([_placed_by(record)] if record.placement else []),
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


def _placed_by(record: RunRecord) -> RenderableType:
    text = f"{clean(record.placement)}, visibility {clean(record.visibility)}"
    return labelled("Placed by", text)


def verification_words(record: RunRecord) -> str:
    """`14 ranks as placed, 2 ranks mismatch`."""
    if not record.seats:
        return "No rank reported what it got."
    counts = Counter(seat.verdict for seat in record.seats)
    parts = [f"{plural(counts[v], 'rank')} {v.value}" for v in Verdict if counts[v]]
    return "Verification: " + ", ".join(parts)


def _differences(record: RunRecord) -> list[str]:
    """What differs, each once, with the ranks it holds for."""
    ranks_of: dict[str, list[int]] = {}
    for seat in record.seats:
        for difference in seat.differences:
            ranks_of.setdefault(difference, []).append(seat.rank)
    said = []
    for difference, ranks in ranks_of.items():
        who = "rank" if len(ranks) == 1 else "ranks"
        said.append(f"{who} {format_cpu_list(sorted(ranks)).replace(',', ', ')}: {difference}")
    return said


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
