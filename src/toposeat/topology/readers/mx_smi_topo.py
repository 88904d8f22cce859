"""Reader of `mx-smi topo -m`, MetaX's twin of `nvidia-smi topo -m`.

Its words are those of nvidia-smi with `MX` for a connection by MetaXLink; how many lanes that has,
and how fast they are, it does not say.
"""

from __future__ import annotations

import re
from dataclasses import replace

from toposeat.errors import InputError
from toposeat.model.topology import PathClass, Vendor
from toposeat.topology.facts import MachineFacts, facts_of_relations
from toposeat.topology.graph.relation import UNKNOWN, Relation, relation_of_token
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.relation_table import matrix_of_table
from toposeat.topology.readers.word_table import Vocabulary, clean_lines, find_table

_METAXLINK = Relation(PathClass.NVL, 1)
_WORDS = {"MX": _METAXLINK, "ETH": UNKNOWN, "NA": UNKNOWN}
_VOCABULARY = Vocabulary(
    command="mx-smi topo -m",
    is_cell=lambda cell: cell in _WORDS or relation_of_token(cell) is not None,
    known="X, MX, PIX, PXB, PHB, NODE, SYS, ETH, NA",
    unknown_is_value=True,
)
_BANNER = re.compile(r"MetaX System Management Interface|\bMX\s*=\s*Connection", re.IGNORECASE)
_ROW = re.compile(r"[ \t|]*GPU\d+\b.*\bMX\b", re.ASCII)


def looks_like(file: FileText) -> bool:
    """Whether MetaX's banner, its legend or a row with MX is among the first lines."""
    head = file.start[:20_000]
    return _BANNER.search(head) is not None or any(_ROW.match(x) for x in head.split("\n"))


def parse(file: FileText) -> MachineFacts:
    """Read the matrix.

    Raises:
        InputError: with file and line: no matrix, truncated, unknown words, asymmetric.
    """
    table = find_table(clean_lines(file.text), _VOCABULARY, file.path)
    if table is None:
        raise InputError("no matrix of mx-smi topo -m found", path=file.path, hint=_VOCABULARY.save)
    matrix = matrix_of_table(
        table, lambda cell: _WORDS.get(cell) or relation_of_token(cell), _VOCABULARY, file.path
    )
    report = [*matrix.report]
    linked = sum(relation == _METAXLINK for relation in matrix.relations.values())
    if linked:
        report.append(
            f"{linked} pairs are joined by MetaXLink, whose lanes and speed are not stated: drawn"
            " as one device link each"
        )
    return facts_of_relations(
        replace(matrix, report=tuple(report)),
        origin="mx-smi topo -m text",
        vendor=Vendor.UNKNOWN,
    )
