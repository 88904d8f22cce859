"""What the cells of tables mean: words for pairs of devices, and measured numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite, nan

import numpy as np
from numpy.typing import NDArray

from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.pair import BANDWIDTH
from toposeat.model.quantity import check_pair_number
from toposeat.model.topology import HostNumbers
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import Row, Table, TableSpec

GB_PER_S = 1e9  # every tool divides bytes by 1e9
MICROSECOND = 1e-6
ASYMMETRY_REPORTED = 1.25  # 10 to 25 % between the two directions of a pair is normal
NUMBER_CELLS = "a number or N/A"

_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,12})?(?:E[+-]?\d{1,3})?", re.ASCII)
_COLLIDED = re.compile(r"(?:\d{1,9}\.\d\d){2,}", re.ASCII)
_NOT_KNOWN = frozenset({"", "N/A", "[N/A]", "NAN", "-NAN", "INF", "-"})
_OPEN = (",", "-")
_SHOWN = 4  # words in a message
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WordAt:
    """A cell in upper case, and the line where it stands, if that is known."""

    word: str
    line: int | None = None


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

    Tools learn words with every generation. A word that both halves state for a pair says that the
    pair is not known; one that stands against a known word is damage, and a table of nothing else
    is of another kind: both are refused. Half of the `cells` may be missing.
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
    if len(cell) > 1 and cell.endswith(_OPEN):
        return cell  # `cut_lists` finds it
    with file.at(row.line, f"the CPU affinity of {row.label} is damaged: "):
        parse_cpu_list(cell)
    return cell


_CUT = 12  # characters behind which nvidia-smi ends a list of single CPUs, at a comma
_FEW = 16  # CPUs that a node with GPUs has at least


def cut_lists(lists: Sequence[str | None]) -> set[str]:
    """Lists of devices that leave out what their pattern has: every second CPU, then nothing.

    Such a list is as long as its cell may be, and has fewer CPUs than its node must have. Others
    end with a comma or a dash.
    """
    found = {each for each in lists if each and each.endswith(_OPEN)}
    told = {each: parse_cpu_list(each) for each in lists if each and each not in found}
    most = max((cpus[-1] + 1 for cpus in told.values()), default=0)
    for text, cpus in told.items():
        steps = {b - a for a, b in pairwise(cpus)}
        if len(cpus) < 3 or len(steps) > 1 or steps == {1}:
            continue
        (step,) = steps
        ends_there = len(text) <= _CUT < len(f"{text},{cpus[-1] + step}")
        is_short = most < _FEW or len(cpus) < 4 * lists.count(text) or 2 * len(cpus) * step < most
        if ends_there and is_short:
            found.add(text)
    return found


# ---- numbers


def is_number(cell: str) -> bool:
    """Whether a cell, in upper case, is a number or says that there is none."""
    return _NUMBER.fullmatch(cell) is not None or cell in _NOT_KNOWN


def apart(word: str) -> list[str]:
    """The numbers in a word: several where numbers of two decimals ran together."""
    return re.findall(r"\d+\.\d\d", word) if _COLLIDED.fullmatch(word) else [word]


def counted_numbers(corner: str, *, square: bool = True) -> TableSpec:
    """Tables of numbers whose columns and rows are called 0, 1, 2, ..."""
    return TableSpec(
        label=re.compile(r"\d{1,4}", re.ASCII),
        first="0",
        corner=corner,
        counted=True,
        is_cell=is_number,
        cells=NUMBER_CELLS,
        square=square,
        split=apart,
    )


def values_of(
    table: Table, file: FileText, what: str | None = None, unit: float = 1.0
) -> NDArray[np.float64]:
    """The numbers of a table by row and column, in SI units; NaN where there is none.

    `what` is bandwidth or latency; of what is neither the range is not checked. `unit` is that of a
    cell.
    """
    values = np.array([[_value(cell) * unit for cell in row.cells] for row in table.rows])
    for row, line in zip(values, table.rows, strict=True):
        with file.at(line.line):
            for value in row[np.isfinite(row)].tolist() if what else ():
                check_pair_number(what or "", value)
    return values.reshape(len(table.rows), len(table.columns))


def _value(cell: str) -> float:
    value = nan if cell in _NOT_KNOWN else float(cell)
    return value if isfinite(value) else nan


def host_numbers(
    to_device: NDArray[np.float64],
    from_device: NDArray[np.float64],
    devices: Sequence[str],
    nodes: Sequence[int | None] = (None,),
) -> tuple[HostNumbers, ...]:
    """Copies of each memory node and device where either direction was measured.

    Args:
        to_device: bytes/s by memory node and device; 0, which no copy has, and NaN are not known.
        from_device: the same of the other direction.
        devices: the id of each column's device.
        nodes: the number of each row's memory node, None for the near one.
    """

    def known(value: float) -> float | None:
        return float(value) if 0 < value < inf else None

    return tuple(
        HostNumbers(
            what=BANDWIDTH,
            device=device,
            numa_node=node,
            to_device=known(to_device[row, column]),
            from_device=known(from_device[row, column]),
        )
        for column, device in enumerate(devices)
        for row, node in enumerate(nodes)
        if known(to_device[row, column]) or known(from_device[row, column])
    )


def report_asymmetry(values: NDArray[np.float64], what: str, report: list[str]) -> None:
    """Say so if the two directions of pairs differ by more than is normal."""
    with np.errstate(all="ignore"):
        ratio = np.maximum(values / values.T, values.T / values)
    np.fill_diagonal(ratio, np.nan)
    ratio[~np.isfinite(ratio)] = np.nan
    many = int(np.nansum(np.triu(ratio) > ASYMMETRY_REPORTED))
    if many:
        i, j = np.unravel_index(int(np.nanargmax(ratio)), ratio.shape)
        report.append(
            f"{what}: the two directions of {many} pairs differ by more than"
            f" {ASYMMETRY_REPORTED - 1:.0%}, most between devices {min(i, j)} and {max(i, j)}"
            f" ({ratio[i, j]:.2f} times)"
        )


def report_cut(text: str, tables: Sequence[Table], report: list[str]) -> None:
    """Say so if the text ends inside the last row: its last number may have lost digits."""
    if tables and tables[-1].rows[-1].line == text.count("\n") + 1 and not text.endswith("\r"):
        report.append("the file ends in the last row without a newline: its end may be cut")
