"""Traffic from the files of Open MPI's own monitoring (`pml_monitoring`, one text file per rank).

Rows are tab-separated: E is point-to-point traffic of the application, I what the library really
sent for collectives and control, S and R one-sided data sent to and fetched from a peer. C rows are
a fixed model of each collective, not traffic that was seen: they are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from toposeat.errors import InputError
from toposeat.model.files import read_text
from toposeat.model.traffic import MemorySpace, PairTable, RankInfo, Traffic, TrafficKind

_FIRST_LINE = "# POINT TO POINT"
MAX_RANKS = 1 << 20

_NAME = re.compile(r"(?P<prefix>.*)\.(?P<rank>\d{1,7})\.prof", re.ASCII | re.DOTALL)
_BYTES = re.compile(r"(\d{1,18}) bytes", re.ASCII)
_MESSAGES = re.compile(r"(\d{1,18}) msgs sent", re.ASCII)
_KIND_OF_ROW = {
    "E": TrafficKind.POINT_TO_POINT,
    "I": TrafficKind.COLLECTIVE,
    "S": TrafficKind.ONE_SIDED,
    "R": TrafficKind.ONE_SIDED,
}
_OTHER_ROWS = frozenset({"C", "D", "O2A", "A2O", "A2A"})
_HINT = (
    "make them again with: mpirun --mca pml_monitoring_enable 2"
    " --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename PREFIX ..."
)
_CAVEATS = (
    "Open MPI's monitoring does not tell device from host memory: everything counts as host",
    "it records persistent sends (MPI_Start, MPI_Startall) as 0 bytes; if the application uses"
    " them, profile it with toposeat instead",
    "collective traffic is what Open MPI really sent, its control messages included; the model of"
    " each collective that the files also hold is not used",
    "its size histogram covers application and library messages together and was left out",
)


class _Row(NamedTuple):
    source: int
    target: int
    bytes: int
    messages: int
    kind: TrafficKind


def read_monitoring(path: str | Path) -> Traffic:
    """Read the file of one rank, `PREFIX.<rank>.prof`, and those of all other ranks beside it."""
    files = _files_of_run(Path(path))
    rows = [row for rank, file in files.items() for row in _rows(file, rank)]
    ranks = 1 + max([*files, *(row.source for row in rows), *(row.target for row in rows)])
    missing = [rank for rank in range(ranks) if rank not in files]
    report = list(_CAVEATS)
    if missing:
        report.append(f"no file of {len(missing)} of {ranks} ranks, such as rank {missing[0]}")
    if not any(row.kind is TrafficKind.COLLECTIVE for row in rows):
        report.append(
            "no collective traffic is listed: with pml_monitoring_enable 1 it is counted as"
            " point-to-point"
        )
    return Traffic(
        ranks=ranks,
        origin="Open MPI monitoring",
        tables={
            (kind, MemorySpace.HOST): PairTable.from_pairs(
                *zip(*(row[:4] for row in rows if row.kind is kind), strict=True)
            )
            for kind in dict.fromkeys(row.kind for row in rows)
        },
        rank_info=tuple(RankInfo(rank=rank) for rank in sorted(files)),
        report=tuple(report),
        timed=False,
    )


def _files_of_run(path: Path) -> dict[int, Path]:
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise InputError(
            "the name of a monitoring file ends in .<rank>.prof",
            path=path,
            hint="do not rename the files of a run; give any one of them",
        )
    found = {}
    for file in sorted(path.parent.iterdir()):
        other = _NAME.fullmatch(file.name)
        if other is not None and other["prefix"] == match["prefix"]:
            rank = int(other["rank"])
            if rank >= MAX_RANKS:
                raise InputError(f"rank {rank} is out of range", path=file, hint=_HINT)
            found[rank] = file
    return dict(sorted(found.items()))


def _rows(path: Path, rank: int) -> Iterator[_Row]:
    lines = read_text(path).splitlines()
    if not lines or not lines[0].startswith(_FIRST_LINE):
        raise InputError("not a file of Open MPI's monitoring", path=path, line=1, hint=_HINT)
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if not line.strip() or line.startswith("#") or cells[0] in _OTHER_ROWS:
            continue
        row = _row(cells)
        if row is None:
            raise InputError(f"damaged row {line[:40]!r}", path=path, line=number, hint=_HINT)
        if rank not in (row.source, row.target):
            raise InputError(
                f"a row of rank {row.source} in the file of rank {rank}",
                path=path,
                line=number,
                hint="files of different runs are mixed; " + _HINT,
            )
        yield row


def _row(cells: list[str]) -> _Row | None:
    kind = _KIND_OF_ROW.get(cells[0])
    if kind is None or len(cells) < 5:
        return None
    ends = [int(cell) for cell in cells[1:3] if re.fullmatch(r"\d{1,7}", cell, re.ASCII)]
    size, count = _BYTES.fullmatch(cells[3]), _MESSAGES.fullmatch(cells[4])
    if len(ends) != 2 or size is None or count is None or max(ends) >= MAX_RANKS:
        return None
    # R is what this rank fetched: the bytes flow from the peer to it.
    source, target = reversed(ends) if cells[0] == "R" else ends
    return _Row(source, target, int(size[1]), int(count[1]), kind)
