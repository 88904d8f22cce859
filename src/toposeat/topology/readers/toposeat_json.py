"""Our own topology files, as one format among the others."""

from __future__ import annotations

from toposeat.model.topology import Topology
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.topology_file import parse_topology


def parse(file: FileText) -> Topology:
    """Read a topology file."""
    return parse_topology(file.text, file.path)
