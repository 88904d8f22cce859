"""Topology files: JSON, schema `toposeat/topology/1`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toposeat.model.files import builtins_of, decode_json, encode_json, read_text, write_atomically
from toposeat.model.topology import Topology

TOPOLOGY_SCHEMA = "toposeat/topology/1"


def load_topology(path: str | Path) -> Topology:
    """Read a topology file.

    Raises:
        InputError: with file and line, if it is missing, damaged or of another schema.
    """
    return parse_topology(read_text(path), path)


def parse_topology(text: str, path: str | Path) -> Topology:
    """A topology from the text of its file; `path` is for messages only.

    Raises:
        InputError: with file and line, if it is damaged or of another schema.
    """
    return decode_json(text.removeprefix("\ufeff"), Topology, schema=TOPOLOGY_SCHEMA, path=path)


def save_topology(topology: Topology, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a topology file, whole or not at all."""
    write_atomically(path, encode_json(topology, schema=TOPOLOGY_SCHEMA), overwrite=overwrite)


def topology_document(topology: Topology) -> dict[str, Any]:
    """What the file holds, as plain dicts and lists."""
    return {"schema": TOPOLOGY_SCHEMA, **builtins_of(topology)}
