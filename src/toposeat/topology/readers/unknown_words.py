"""Words of a matrix that a reader does not know: tools learn some with every generation.

One rule for all matrices: a word that both halves state for a pair says that the pair is not known,
with a doubt in the report; one that stands against a known word is damage; and a matrix of nothing
else is of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from toposeat.topology.readers.file_text import Place, line_at

_WORD = re.compile(r"[A-Z][A-Z0-9?*+_-]{0,15}", re.ASCII)
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class WordAt:
    """A cell in upper case, and where it stands."""

    word: str
    place: Place = None

    @property
    def line(self) -> int | None:
        """The line it stands in, if that is known."""
        return line_at(self.place)


@dataclass(frozen=True, slots=True)
class Strange:
    """What is wrong with unknown words of a matrix, for the caller's message."""

    cause: str
    line: int | None


def could_be_a_word(text: str) -> bool:
    """Whether a tool may have printed it in a cell: upper case, no number, not long."""
    return _WORD.fullmatch(text) is not None


def unknown_pairs(
    cells: Mapping[tuple[int, int], WordAt],
    is_known: Callable[[str], bool],
    name: Callable[[int], str],
    report: list[str],
) -> set[tuple[int, int]] | Strange:
    """The ordered pairs whose words are not known, reported; or why the matrix is refused.

    Args:
        cells: of ordered pairs of different devices; half of them may be missing.
        is_known: of a word.
        name: of a device, by its position.
        report: where the doubt goes.
    """
    found = {pair: at for pair, at in cells.items() if not is_known(at.word)}
    for (i, j), at in found.items():
        back = cells.get((j, i), at)
        if back.word != at.word:
            what = f"unknown word {at.word[:20]!r} between {name(i)} and {name(j)}"
            return Strange(f"{what}, but the other way it is {back.word[:20]!r}", at.line)
    if not found:
        return set()
    (i, j), at = next(iter(found.items()))
    if len(found) == len(cells):
        what = f"unknown word {at.word[:20]!r} between {name(i)} and {name(j)}"
        return Strange(f"{what}, and none that is known", at.line)
    words = ", ".join(sorted({each.word[:20] for each in found.values()})[:_SHOWN])
    where = f" at line {at.line}" if at.line else ""
    pairs = len({(min(pair), max(pair)) for pair in found})
    report.append(
        f"{pairs} pairs have a word that is not known ({words}), first {name(i)} - {name(j)}"
        f"{where}: nothing is concluded from it"
    )
    return set(found)
