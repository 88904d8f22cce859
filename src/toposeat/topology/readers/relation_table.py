"""From a table of words to a relation matrix: what all makers' `topo -m` have in common."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from toposeat.errors import InputError
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.topology.graph.relation import Relation, RelationMatrix
from toposeat.topology.readers.word_table import Row, Table, Vocabulary

Meaning = Callable[[str], Relation | None]


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
        InputError: with file and line: rows missing, asymmetric, damaged affinities.
    """
    return _Checker(table, meaning, vocabulary.save, path).matrix()


class _Checker:
    """Checks and reads one table."""

    def __init__(self, table: Table, meaning: Meaning, save: str, path: str | Path | None) -> None:
        self.table = table
        self.meaning = meaning
        self.save = save
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
        found: dict[tuple[str, str], Relation] = {}
        for row in self.table.rows:
            for column, cell in zip(self.table.columns, row.cells, strict=True):
                relation = self.meaning(cell)
                if relation is None:
                    continue
                mirror = found.get((column, row.label))
                if mirror is not None and mirror != relation:
                    self._refuse(
                        f"the matrix is asymmetric: {column} -> {row.label} is {mirror.token}, but"
                        f" {row.label} -> {column} is {cell}",
                        row.line,
                        f"the file was edited or damaged; {self.save}",
                    )
                if mirror is None:
                    found[row.label, column] = relation
        return found

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
