"""Tables of words for pairs of devices: words that are not known, halves that disagree, affinities.

Tools learn words with every generation. A word that both halves state for a pair says that the pair
is not known, with a doubt in the report; one that stands against a known word is damage; and a
table of nothing else is of another kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from toposeat.model.cpu_list import parse_cpu_list
from toposeat.topology.readers.file_text import FileText, Place, line_at
from toposeat.topology.readers.tables import Row, Table

_SHOWN = 4
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WordAt:
    """A cell in upper case, and where it stands."""

    word: str
    place: Place = None

    @property
    def line(self) -> int | None:
        """The line it stands in, if that is known."""
        return line_at(self.place)


def words_of(table: Table, labels: Sequence[str]) -> dict[Pair, WordAt]:
    """The cells that say something of two different devices, by their positions in `labels`."""
    position = {label: i for i, label in enumerate(labels)}
    return {
        (position[row.label], position[column]): WordAt(cell, row.line)
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if row.label != column and cell
    }


def unknown_pairs(
    cells: Mapping[Pair, WordAt],
    is_known: Callable[[str], bool],
    name: Callable[[int], str],
    report: list[str],
    file: FileText,
) -> set[Pair]:
    """The ordered pairs whose words are not known, which is reported.

    Args:
        cells: of ordered pairs of different devices; half of them may be missing.
        is_known: of a word.
        name: of a device, by its position.
        report: where the doubt goes.
        file: for messages.

    Raises:
        InputError: a word that the other half contradicts, or none that is known.
    """
    found = {pair: at for pair, at in cells.items() if not is_known(at.word)}
    for (i, j), at in found.items():
        back = cells.get((j, i), at)
        against = f", but the other way it is {back.word[:20]!r}" if back.word != at.word else ""
        if against or len(found) == len(cells):
            raise file.refusal(
                f"unknown word {at.word[:20]!r} between {name(i)} and {name(j)}"
                + (against or ", and none that is known"),
                at.line,
            )
    if found:
        (i, j), at = next(iter(found.items()))
        words = ", ".join(sorted({each.word[:20] for each in found.values()})[:_SHOWN])
        where = f" at line {at.line}" if at.line else ""
        pairs = len({(min(pair), max(pair)) for pair in found})
        report.append(
            f"{pairs} pairs have a word that is not known ({words}), first {name(i)} - {name(j)}"
            f"{where}: nothing is concluded from it"
        )
    return set(found)


def check_symmetric(
    cells: Mapping[Pair, WordAt],
    meaning: Callable[[str], object],
    name: Callable[[int], str],
    file: FileText,
) -> None:
    """Refuse a table whose halves say different things of a pair."""
    for (i, j), at in cells.items():
        back = cells.get((j, i), at)
        if i > j and meaning(back.word) != meaning(at.word):
            raise file.refusal(
                f"the matrix is asymmetric: {name(j)} -> {name(i)} is {back.word}, but {name(i)} ->"
                f" {name(j)} is {at.word}",
                at.line,
            )


def cpu_affinity(cell: str, row: Row, file: FileText) -> str | None:
    """The CPUs near a device; None where they are not stated."""
    if cell in ("", "N/A"):
        return None
    try:
        parse_cpu_list(cell)
    except ValueError:
        raise file.refusal(
            f"the CPU affinity of {row.label} is damaged: {cell[:40]!r}", row.line
        ) from None
    return cell
