"""JSON files of mapping results and run records."""

from __future__ import annotations

from pathlib import Path

from toposeat.model.evaluation import MappingResult
from toposeat.model.files import decode_json, encode_json, read_text, write_atomically
from toposeat.model.run_record import RunRecord

MAPPING_SCHEMA = "toposeat/mapping/1"
RUN_SCHEMA = "toposeat/run/1"


def load_mapping(path: str | Path) -> MappingResult:
    """Read a mapping result.

    Raises:
        InputError: with file and line, if it is missing, damaged or of another schema.
    """
    return parse_mapping(read_text(path), path)


def parse_mapping(text: str, path: str | Path) -> MappingResult:
    """The same from the text of the file; `path` is for messages only."""
    return decode_json(text, MappingResult, schema=MAPPING_SCHEMA, path=path)


def save_mapping(result: MappingResult, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a mapping result, whole or not at all."""
    write_atomically(path, encode_json(result, schema=MAPPING_SCHEMA), overwrite=overwrite)


def load_run(path: str | Path) -> RunRecord:
    """Read a run record.

    Raises:
        InputError: with file and line, if it is missing, damaged or of another schema.
    """
    return parse_run(read_text(path), path)


def parse_run(text: str, path: str | Path) -> RunRecord:
    """The same from the text of the file; `path` is for messages only."""
    return decode_json(text, RunRecord, schema=RUN_SCHEMA, path=path)


def save_run(record: RunRecord, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a run record, whole or not at all."""
    write_atomically(path, encode_json(record, schema=RUN_SCHEMA), overwrite=overwrite)
