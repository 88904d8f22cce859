"""Square tables of devices as AMD's tools print them: a title, a header of labels, a row each.

    ============ Link Type between two GPUs ============      LINK TYPE TABLE:
           GPU0         GPU1                                               0000:03:00.0 0000:0c:00.0
    GPU0   0            PCIE                                  0000:03:00.0 SELF         PCIE
    GPU1   PCIE         0                                     0000:0c:00.0 PCIE         SELF

Labels come as `GPU0`, `GPU[0]`, `GPU 0` or PCI bus ids. Everything between tables (banners,
low-power warnings, prompts) is passed over; a table that is cut or lacks rows is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.topology import canonical_pci
from toposeat.topology.readers.word_table import MAX_ENDPOINTS, Line

_LABEL = re.compile(
    r"GPU\[(\d{1,4})\]|GPU\s?(\d{1,4})(?![\w.])"
    r"|((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?![\w.])",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class PairTable:
    """One table: `cells[i, j]` is what row i says in column j, `row_lines[i]` where row i is."""

    kind: str
    labels: tuple[str, ...]
    cells: dict[tuple[int, int], str]
    row_lines: tuple[int, ...]
    line: int


def label_at(text: str) -> tuple[str, str] | None:
    """The label that a line starts with, and the rest of the line; None if there is none."""
    text = text.lstrip()
    match = _LABEL.match(text)
    if match is None:
        return None
    return _name(match), text[match.end() :]


def read_tables(
    lines: Sequence[Line], titles: Mapping[str, str], path: Path, hint: str
) -> list[PairTable]:
    """All tables below known titles.

    Args:
        lines: of the file, cleaned.
        titles: patterns of titles (lower case) -> kinds.
        path: for messages.
        hint: what to do about a damaged file.

    Raises:
        InputError: a table without rows, with rows missing, twice or cut.
    """
    found: list[PairTable] = []
    position = 0
    while position < len(lines):
        kind = _kind(lines[position].text, titles)
        if kind is None:
            position += 1
            continue
        table, position = _TableScan(lines, position, kind, path, hint).read()
        if table is not None:
            found.append(table)
    return found


def _kind(text: str, titles: Mapping[str, str]) -> str | None:
    bare = text.strip(" =:*#|\t").lower()
    if not bare or len(bare) > 80:
        return None
    return next((kind for pattern, kind in titles.items() if re.fullmatch(pattern, bare)), None)


class _TableScan:
    """Reads the one table that follows a title."""

    def __init__(
        self, lines: Sequence[Line], position: int, kind: str, path: Path, hint: str
    ) -> None:
        self.lines = lines
        self.position = position + 1
        self.title = lines[position]
        self.kind = kind
        self.path = path
        self.hint = hint

    def read(self) -> tuple[PairTable | None, int]:
        """The table, None where the title has none below it; the position after it."""
        columns = self._header()
        if not columns:
            return None, self.position
        rows: dict[str, tuple[list[str], int]] = {}
        while self.position < len(self.lines) and len(rows) < len(columns):
            line = self.lines[self.position]
            if not line.text.strip():
                self.position += 1
                continue
            head = label_at(line.text)
            if head is None:
                break
            label, rest = head
            if label in rows:
                self._refuse(f"row {label} appears twice", line.number)
            if label not in columns:
                self._refuse(f"row {label} has no column", line.number)
            self.position += 1
            rows[label] = (self._cells(label, rest.split(), columns, line.number), line.number)
        missing = [c for c in columns if c not in rows]
        if missing:
            self._refuse(
                f"the {self.kind} table has no row for {', '.join(missing[:8])}: it is truncated",
                rows[next(reversed(rows))][1] if rows else self.title.number,
            )
        cells = {
            (i, j): cell for i, label in enumerate(columns) for j, cell in enumerate(rows[label][0])
        }
        lines = tuple(rows[label][1] for label in columns)
        return PairTable(self.kind, tuple(columns), cells, lines, self.title.number), self.position

    def _header(self) -> list[str]:
        """Labels of the header, which a narrow terminal may have wrapped."""
        columns: list[str] = []
        while self.position < len(self.lines):
            line = self.lines[self.position]
            if not line.text.strip() and not columns:
                self.position += 1
                continue
            labels = _labels_only(line.text)
            if labels is None:
                break
            columns.extend(labels)
            self.position += 1
        if len(columns) > MAX_ENDPOINTS:
            self._refuse(f"more than {MAX_ENDPOINTS} devices", self.title.number)
        if len(set(columns)) < len(columns):
            self._refuse("the header names a device twice", self.title.number)
        return columns

    def _cells(self, label: str, cells: list[str], columns: list[str], number: int) -> list[str]:
        """The cells of a row, whose end may stand on the next lines."""
        while len(cells) < len(columns) and self.position < len(self.lines):
            text = self.lines[self.position].text
            if not text.strip() or label_at(text) is not None or text.lstrip().startswith("="):
                break
            cells = cells + text.split()
            self.position += 1
        if len(cells) != len(columns):
            self._refuse(
                f"row {label} of the {self.kind} table has {len(cells)} cells, its header"
                f" {len(columns)} columns",
                number,
            )
        return cells

    def _refuse(self, message: str, line: int) -> None:
        raise InputError(message, path=self.path, line=line, hint=self.hint)


def _labels_only(text: str) -> list[str] | None:
    """The labels of a line that holds nothing else; None for other lines."""
    labels: list[str] = []
    rest = text.strip()
    while rest:
        match = _LABEL.match(rest)
        if match is None:
            return None
        labels.append(_name(match))
        rest = rest[match.end() :].lstrip()
    return labels or None


def _name(match: re.Match[str]) -> str:
    bracketed, plain, bus = match.groups()
    if bus is not None:
        return canonical_pci(bus)
    return f"GPU{int(bracketed or plain)}"
