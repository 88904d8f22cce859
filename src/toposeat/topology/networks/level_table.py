"""A table of hosts and the levels above them: `host,leaf,spine`, nearest level first."""

from __future__ import annotations

import csv
import re

from toposeat.model.network import Network
from toposeat.topology.networks.builder import HostPath, NetworkBuilder
from toposeat.topology.readers.file_text import FileText

_HINT = "the first line names the columns, host first, nearest level next: host,leaf,spine"


def parse(file: FileText) -> Network:
    """The tree of the table. Cells of hosts may be hostlists: `n[01-16],leaf1,spine1`.

    Raises:
        InputError: with file and line.
    """
    builder = NetworkBuilder(path=file.path)
    rows = [
        (number, line)
        for number, line in enumerate(file.lines, start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    separator = next((each for each in ";\t" if each in rows[0][1]), ",")
    header = _cells(builder, rows[0][1], separator, rows[0][0])
    if len(header) < 2 or len(set(header)) < len(header) or not all(header):
        raise builder.error("the columns need different names", rows[0][0], _HINT)
    paths = []
    for number, line in rows[1:]:
        cells = _cells(builder, line, separator, number)
        if len(cells) != len(header) or not all(cells):
            raise builder.error(f"{len(cells)} cells, expected {len(header)}", number, _HINT)
        hosts = builder.names(cells[0], number)
        paths += [HostPath(host, tuple(cells[1:]), number) for host in hosts]
    builder.hang(paths)
    return builder.build(name=file.name, origin="table of levels")


def _cells(builder: NetworkBuilder, line: str, separator: str, number: int) -> list[str]:
    """Cells without blanks around them. A comma within brackets separates nothing."""
    if separator == "," and "[" in line and '"' not in line:
        cells = re.split(r",(?![^\[\]]*\])", line)
    else:
        try:
            cells = next(csv.reader([line], delimiter=separator, strict=True), [])
        except csv.Error as error:
            raise builder.error(f"no table: {error}", number, _HINT) from None
    return [cell.strip() for cell in cells]
