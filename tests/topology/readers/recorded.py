"""Reading recorded files of tools in tests."""

from __future__ import annotations

from pathlib import Path

from toposeat.topology.facts import MachineFacts
from toposeat.topology.formats import Parsed, parse_file
from toposeat.topology.readers.file_text import FileText, read_file


def facts_of(path: Path) -> MachineFacts:
    """What a recorded file of tables says, by the reader that the registry finds for it."""
    return as_facts(parse_file(read_file(path)))


def facts_of_text(text: str, name: str = "f.txt") -> MachineFacts:
    """The same for a text."""
    return as_facts(parse_file(FileText(text, Path(name))))


def as_facts(parsed: Parsed) -> MachineFacts:
    """Facts, nothing else."""
    assert isinstance(parsed, MachineFacts)
    return parsed
