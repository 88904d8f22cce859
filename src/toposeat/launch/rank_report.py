"""The reports that the ranks of a run wrote: by toposeat-exec and by the rank probe.

Files hold lines `key<TAB>value`; control characters are escaped as backslash, x and two digits, and
the backslash is doubled (`launcher/src/report.c`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toposeat.model.input_file import beginning

REPORT_SCHEMA = "# toposeat/report/1"
PROBE_SCHEMA = "# toposeat/probe/1"

_MAX_BYTES = 1 << 20
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|\\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class RankReports:
    """The reports of one rank: of its seat, and by the probe of each process that counts."""

    seat: Mapping[str, tuple[str, ...]]
    probes: tuple[Mapping[str, tuple[str, ...]], ...] = ()

    def value(self, key: str) -> str | None:
        """The first value of `key` in the seat report."""
        return first_value(self.seat, key)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportFolder:
    """The reports of a run by rank. `unreadable` names files that are not what they should be."""

    ranks: Mapping[int, RankReports]
    unreadable: tuple[str, ...] = field(default=())


def first_value(report: Mapping[str, tuple[str, ...]], key: str) -> str | None:
    """The first value of `key`, None if the report has none."""
    values = report.get(key)
    return values[0] if values else None


def left_out(report: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """What of its seat a rank goes without, and why: `cpus`, `memory`, `nic` or `peers`."""
    begin = "left_out_"
    return {
        key.removeprefix(begin): found[0] for key, found in report.items() if key.startswith(begin)
    }


def read_reports(folder: Path, told: Mapping[int, str] | None = None) -> ReportFolder:
    """Read the reports in `folder`; damaged ones are named and left out.

    Args:
        folder: where ranks and their probes left files.
        told: seat reports by rank that came home instead.
    """
    seats: dict[int, Mapping[str, tuple[str, ...]]] = {}
    probes: dict[int, list[Mapping[str, tuple[str, ...]]]] = {}
    unreadable: list[str] = []
    for told_rank, text in (told or {}).items():
        seat = parse_seat_report(text)
        if seat is None:
            unreadable.append(f"of rank {told_rank}")
        else:
            seats[told_rank] = seat
    for path in sorted(folder.iterdir()):
        if path.suffix not in {".seat", ".probe"} or path.name.startswith("."):
            continue
        schema = REPORT_SCHEMA if path.suffix == ".seat" else PROBE_SCHEMA
        report = _read(path, schema)
        rank = _number(first_value(report, "rank")) if report is not None else None
        if report is None or rank is None:
            unreadable.append(path.name)
        elif path.suffix == ".seat":
            seats[rank] = report
        else:
            probes.setdefault(rank, []).append(report)
    return ReportFolder(
        ranks={
            rank: RankReports(seat=seats[rank], probes=tuple(probes.get(rank, ())))
            for rank in sorted(seats)
        },
        unreadable=tuple(unreadable),
    )


def _read(path: Path, schema: str) -> Mapping[str, tuple[str, ...]] | None:
    data = beginning(path, _MAX_BYTES + 1)
    return None if len(data) > _MAX_BYTES else _parse(data.decode("utf-8", "replace"), schema)


def parse_seat_report(text: str) -> Mapping[str, tuple[str, ...]] | None:
    """The values by key of what toposeat-exec wrote about a rank, None if it is not whole."""
    return _parse(text, REPORT_SCHEMA)


def _parse(text: str, schema: str) -> Mapping[str, tuple[str, ...]] | None:
    lines = text.split("\n")
    if lines[0] != schema or lines[-1] != "":
        return None
    values: dict[str, list[str]] = {}
    for line in lines[1:-1]:
        key, tab, value = line.partition("\t")
        if not tab:
            return None
        values.setdefault(key, []).append(_ESCAPE.sub(_unescape, value))
    return {key: tuple(found) for key, found in values.items()}


def _unescape(match: re.Match[str]) -> str:
    return "\\" if match[1] is None else chr(int(match[1], 16))


def _number(text: str | None) -> int | None:
    """A rank, None for anything else (toposeat-exec writes -1 where it does not know)."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 10):
        return None
    return int(text)
