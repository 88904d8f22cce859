"""From a table of words to a relation matrix: what all makers' `topo -m` have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from toposeat.errors import InputError
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.topology.graph.relation import UNKNOWN, Relation, RelationMatrix
from toposeat.topology.readers.word_table import Row, Table, Vocabulary

Meaning = Callable[[str], Relation | None]

_SHOWN = 3  # words named in one sentence


def matrix_of_table(
    table: Table, meaning: Meaning, vocabulary: Vocabulary, path: str | Path | None
) -> RelationMatrix:
    """The relations and affinities that a table states.

    Args:
        table: as found in the text.
        meaning: what a cell says; None for the diagonal.
        vocabulary: of the command, for hints.
        path: for messages.

    Raises:
        InputError: with file and line: rows missing, asymmetric, damaged affinities, no word that
        is known.
    """
    return _Checker(table, meaning, vocabulary, path).matrix()


class _Checker:
    """Checks and reads one table."""

    def __init__(
        self, table: Table, meaning: Meaning, vocabulary: Vocabulary, path: str | Path | None
    ) -> None:
        self.table = table
        self.meaning = meaning
        self.vocabulary = vocabulary
        self.save = vocabulary.save
        self.path = path
        self.report: list[str] = []
        self.gpus = tuple(c for c in table.columns if re.fullmatch(r"GPU\d+", c, re.ASCII))

    def matrix(self) -> RelationMatrix:
        self._check_rows()
        relations = self._relations()
        nics = tuple(c for c in self.table.columns if c not in self.gpus)
        order = {label: i for i, label in enumerate((*self.gpus, *nics))}
        cpus, nodes = self._affinities()
        return RelationMatrix(
            gpus=self.gpus,
            nics=nics,
            relations={
                (min(order[a], order[b]), max(order[a], order[b])): relation
                for (a, b), relation in relations.items()
            },
            cpu_affinity=cpus,
            numa_affinity=nodes,
            report=tuple(self.report),
        )

    def _refuse(self, message: str, line: int, hint: str = "") -> NoReturn:
        raise InputError(message, path=self.path, line=line, hint=hint or self.save)

    def _check_rows(self) -> None:
        table = self.table
        labels = [row.label for row in table.rows]
        for row in table.rows:
            if labels.count(row.label) > 1:
                self._refuse(f"row {row.label} appears twice", row.line)
        missing = [c for c in table.columns if c not in labels]
        if not missing:
            return
        if table.markdown and missing == [c for c in table.columns if c not in self.gpus]:
            self.report.append(
                "the table has no rows for NICs: relations between NICs are not known"
            )
            return
        later = table.columns[table.columns.index(missing[0]) :]
        line = next((r.line for r in table.rows if r.label in later), table.rows[-1].line + 1)
        what = (
            f"the row of {missing[0]} is"
            if len(missing) == 1
            else f"the rows of {', '.join(missing)} are"
        )
        self._refuse(f"{what} missing: the matrix is truncated", line)

    def _relations(self) -> dict[tuple[str, str], Relation]:
        """Relations by (earlier column, later column), after comparing both halves."""
        found: dict[tuple[str, str], tuple[Relation, str, Row]] = {}
        for row in self.table.rows:
            for column, cell in zip(self.table.columns, row.cells, strict=True):
                relation = self.meaning(cell) if self.vocabulary.holds(cell) else UNKNOWN
                if relation is None:
                    continue
                mirror = found.get((column, row.label))
                if mirror is None:
                    found[row.label, column] = relation, cell, row
                elif mirror[0] != relation or (self._is_unknown(cell) and mirror[1] != cell):
                    self._refuse_asymmetric((column, *mirror[1:]), (row.label, cell, row))
        self._report_unknown({pair: (cell, row) for pair, (_, cell, row) in found.items()})
        return {pair: relation for pair, (relation, _, _) in found.items()}

    def _is_unknown(self, cell: str) -> bool:
        return not self.vocabulary.holds(cell)

    def _refuse_asymmetric(
        self, first: tuple[str, str, Row], second: tuple[str, str, Row]
    ) -> NoReturn:
        """Refuse two cells of one pair; a word that is not known is what was damaged."""
        (a, one, above), (b, other, below) = first, second
        hint = f"the file was edited or damaged; {self.save}"
        for cell, pair, mirror, row in (
            (one, f"{a} and {b}", f"{b} -> {a} is {other}", above),
            (other, f"{b} and {a}", f"{a} -> {b} is {one}", below),
        ):
            if self._is_unknown(cell):
                message = f"unknown relation {cell[:20]!r} between {pair}, but {mirror}"
                self._refuse(message, row.line, hint)
        stated = self.meaning(one)
        self._refuse(
            f"the matrix is asymmetric: {a} -> {b} is {stated.token if stated else one}, but"
            f" {b} -> {a} is {other}",
            below.line,
            hint,
        )

    def _report_unknown(self, cells: Mapping[tuple[str, str], tuple[str, Row]]) -> None:
        """Count the words that are not known; without any that is, this is another kind of file."""
        unknown = {pair: at for pair, at in cells.items() if self._is_unknown(at[0])}
        if not unknown:
            return
        (a, b), (cell, row) = next(iter(unknown.items()))
        if len(unknown) == len(cells):
            self._refuse(
                f"unknown relation {cell[:20]!r} between {a} and {b}, like all there are",
                row.line,
                f"known are {self.vocabulary.known}; {self.save}",
            )
        words = ", ".join(sorted({cell for cell, _ in unknown.values()})[:_SHOWN])
        self.report.append(
            f"{len(unknown)} pairs have a relation that is not known ({words}), first {a} - {b} at"
            f" line {row.line}: how they are connected is taken as not known"
        )

    def _affinities(self) -> tuple[tuple[str | None, ...], tuple[int | None, ...]]:
        """CPU list and NUMA node of each GPU."""
        rows = {row.label: row for row in self.table.rows}
        most = max(len(rows[gpu].affinities) for gpu in self.gpus)
        for row in self.table.rows:
            if row.label in self.gpus and len(row.affinities) < most:
                self._refuse(
                    f"row {row.label} ends before its affinities: the matrix is truncated", row.line
                )
            if row.label not in self.gpus and row.affinities:
                self._refuse(
                    f"row {row.label} has more cells than the header has columns", row.line
                )
        names = self.table.affinities
        if most < len(names):
            self.report.append(
                "the affinity cells are empty or incomplete: CPU affinity is not fully known"
            )
        cpus: list[str | None] = []
        nodes: list[int | None] = []
        for gpu in self.gpus:
            cells = dict(zip(names, rows[gpu].affinities, strict=False))
            cpus.append(self._cpu_affinity(cells.get("cpu", "N/A"), rows[gpu]))
            nodes.append(self._numa_affinity(cells.get("numa", "N/A"), rows[gpu]))
        if "numa" in names and all(n is None for n in nodes):
            self.report.append("NUMA affinity is N/A: memory nodes are not known")
        return tuple(cpus), tuple(nodes)

    def _cpu_affinity(self, cell: str, row: Row) -> str | None:
        if cell == "N/A":
            return None
        try:
            parse_cpu_list(cell)
        except ValueError:
            self._refuse(f"the CPU affinity of {row.label} is damaged: {cell[:40]!r}", row.line)
        return cell

    def _numa_affinity(self, cell: str, row: Row) -> int | None:
        if re.fullmatch(r"\d{1,4}", cell, re.ASCII):
            return int(cell)
        if cell != "N/A" and not re.fullmatch(r"\d{1,4}([,-]\d{1,4})+", cell, re.ASCII):
            self._refuse(f"the NUMA affinity of {row.label} is damaged: {cell[:40]!r}", row.line)
        return None  # N/A, or several nodes: none of them is *the* near one
