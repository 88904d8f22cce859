"""Damaged rows of a table whose halves say the same: what other rows leave of them.

Cells ran together, got lost or moved. A reading of such a row gives each column one known word or
none, in the order of the row, with the mark on the diagonal, and says nothing against a whole row.
If all readings say the same, the row is mended; else it is untold, and whole rows tell its pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations

from toposeat.model.few import few
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import LONGEST_WORD, Row, Table, TableSpec

_MOST_COLUMNS = 40  # of a table whose rows are mended: readings of longer ones take too long
_REST_CELL = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*[,-]?|N/A", re.ASCII)
_State = tuple[int, int]  # how many words of a row are used, and how many letters of the next one


def with_damaged_rows(table: Table, spec: TableSpec, file: FileText, report: list[str]) -> Table:
    """The table with its damaged rows mended or untold, which is reported.

    Raises:
        InputError: no row of a device is whole.
    """
    damaged = [row for row in table.rows if row.damage]
    if not damaged:
        return table
    known = {row.label: row for row in table.rows if not row.damage}
    if not any(map(spec.is_needed, known)):
        raise file.refusal(damaged[0].damage, damaged[0].line)
    while found := _agreeing(
        [_mended(row, table, spec, known) for row in damaged if row.label not in known], table
    ):
        known |= found
    for what, is_known in (("mended, since one reading is left", True), ("untold", False)):
        if those := [row for row in damaged if (row.label in known) is is_known]:
            where = few(f"{row.label} in line {row.line}" for row in those)
            report.append(f"damaged rows that are {what}: {where}")
    untold = (("",) * len(table.columns), ("",) * len(table.extras))
    rows = [
        known.get(row.label) or Row(row.label, *untold, row.line)
        for row in table.rows
        if row.label in known or spec.is_needed(row.label)
    ]
    return replace(table, rows=tuple(rows))


def _agreeing(rows: Sequence[Row | None], table: Table) -> dict[str, Row]:
    """Those of the rows that say nothing against each other."""
    found = {row.label: row for row in rows if row}
    against = set()
    for one, other in combinations(found.values(), 2):
        words = {a.cells[table.columns.index(b.label)] for a, b in ((one, other), (other, one))}
        if len(words - {""}) > 1:
            against |= {one.label, other.label}
    return {label: row for label, row in found.items() if label not in against}


def _mended(row: Row, table: Table, spec: TableSpec, known: Mapping[str, Row]) -> Row | None:
    """The row as all its readings have it; None if they differ, or there is none."""
    own = table.columns.index(row.label)
    told = [known[each].cells[own] if each in known else "" for each in table.columns]
    words_at = cache(lambda state: tuple(_words_at(row.words, state, spec)))

    def steps(state: _State, at: int) -> Iterator[tuple[str, _State]]:
        """What the cell in a column may be, and what is used of the row behind it."""
        if at != own:
            yield "", state
        for word, after in words_at(state):
            if word == spec.mark if at == own else word != spec.mark and told[at] in ("", word):
                yield word, after

    if len(told) > _MOST_COLUMNS:
        return None
    reached: list[set[_State]] = [{(0, 0)}]
    for at in range(len(told)):
        reached.append({after for state in reached[-1] for _, after in steps(state, at)})
    ends = {state: _rest_from(row, state, table, spec) for state in reached[-1]}
    rests = {state: rest for state, rest in ends.items() if rest is not None}
    if len(set(rests.values())) != 1:
        return None
    good, (rest, *_), cells = set(rests), rests.values(), list[str]()
    for at in reversed(range(len(told))):
        ways = [(word, s) for s in reached[at] for word, after in steps(s, at) if after in good]
        good = {state for _, state in ways}
        choices = {told[at] or word for word, _ in ways}
        if len(choices) != 1:
            return None
        cells.insert(0, choices.pop())
    return replace(row, cells=tuple(cells), rest=rest)


def _words_at(
    words: tuple[str, ...], state: _State, spec: TableSpec
) -> Iterator[tuple[str, _State]]:
    """The known words that may come next; only what is none itself is cut into several."""
    used, letters = state
    if used == len(words):
        return
    word = words[used].upper()
    lengths = range(1, min(len(word) - letters, LONGEST_WORD) + 1)
    for length in (len(word),) if not letters and spec.holds(word) else lengths:
        piece = word[letters : letters + length]
        if spec.holds(piece):
            is_used = letters + length == len(word)
            yield piece, (used + 1, 0) if is_used else (used, letters + length)


def _rest_from(row: Row, state: _State, table: Table, spec: TableSpec) -> tuple[str, ...] | None:
    """What stands behind the cells, by column; None where that cannot be."""
    used, letters = state
    behind = (row.words[used][letters:], *row.words[used + 1 :]) if letters else row.words[used:]
    rest = (*row.rest, *behind)
    if len(rest) > len(table.extras) or not all(map(_REST_CELL.fullmatch, behind)):
        return None
    return spec.with_empty(rest, table.extras)
