"""Which reader a topology source needs: this machine, the catalogue, a synthetic string, a file."""

from __future__ import annotations

from pathlib import Path

from toposeat.errors import InputError, UsageError
from toposeat.model.files import path_exists
from toposeat.model.topology import Topology
from toposeat.topology.catalogue import catalogue_names, catalogue_topology, hint_for_name
from toposeat.topology.facts import MachineFacts
from toposeat.topology.formats import TREES, Parsed, names_of_formats, parse_file
from toposeat.topology.graph.relation_graph import topology_of_relations
from toposeat.topology.live.discover import discover_this
from toposeat.topology.readers.file_text import FileText, read_file
from toposeat.topology.synthetic import looks_synthetic, synthetic_topology


def read_topology(source: str | Path) -> Topology:
    """Read a topology from anything a user may name.

    Args:
        source: `this`, a catalogue name, a synthetic string, or the path of a file, whose format is
            found from its content. A `Path` is always a file.

    Raises:
        InputError: a file that is missing, damaged or of unknown format, with file and line.
        UsageError: a name that means nothing.
        UnavailableError: `this` machine has no GPU.
    """
    if isinstance(source, Path):
        return _machine(_read_path(source), source)
    text = source.strip()
    if text == "this":
        return discover_this()
    if text.lower() in catalogue_names():
        return catalogue_topology(text.lower())
    if not text:
        raise UsageError("the topology source is empty", hint=_hint())
    path = Path(source)
    if path_exists(path):
        return _machine(_read_path(path), path)
    if looks_synthetic(text):
        return synthetic_topology(text)
    if "/" in text or path.suffix:
        raise InputError("no such file", path=source, hint=_hint())
    raise UsageError(
        f"{source!r} is no file, no catalogue name and no synthetic machine",
        hint=hint_for_name(text),
    )


def parse_topology_text(text: str, path: Path) -> Topology:
    """A topology from the text of a file of any known format; `path` is for names and messages.

    Raises:
        InputError: damaged, or of unknown format, with file and line.
    """
    return _machine(parse_file(FileText(text, path)), path)


def _read_path(path: Path) -> Parsed:
    for tree in TREES:
        if tree.looks_like(path):
            return tree.parse(path)
    return parse_file(read_file(path))


def _machine(parsed: Parsed, path: Path) -> Topology:
    """One source alone as a machine."""
    if not isinstance(parsed, MachineFacts):
        return parsed
    if parsed.relations is None:
        raise InputError(
            f"{parsed.origin}: tells too little to be a machine by itself",
            path=path,
            hint=f"give the matrix as well: toposeat discover -t MATRIX -t {path}",
        )
    return topology_of_relations(
        parsed.relations, name=path.stem or path.name, origin=parsed.origin
    )


def _hint() -> str:
    return (
        "give one of: this, a catalogue name, tree:2:2:4 and the like, or a file"
        f" ({names_of_formats()})"
    )
