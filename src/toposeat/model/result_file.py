"""JSON files of mapping results and run records."""

from __future__ import annotations

from pathlib import Path

from toposeat.model.evaluation import MappingResult
from toposeat.model.files import decode_json, encode_json, write_atomically
from toposeat.model.run_record import RunRecord

MAPPING_SCHEMA = "toposeat/mapping/2"
RUN_SCHEMA = "toposeat/run/1"


def parse_mapping(text: str, path: str | Path) -> MappingResult:
    """A mapping result from the text of its file; `path` is for messages only.

    Raises:
        InputError: with file and line, if it is damaged or of another schema.
    """
    return decode_json(text, MappingResult, schema=MAPPING_SCHEMA, path=path)


def save_mapping(result: MappingResult, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a mapping result, whole or not at all."""
    write_atomically(path, encode_json(result, schema=MAPPING_SCHEMA), overwrite=overwrite)


def parse_run(text: str, path: str | Path) -> RunRecord:
    """A run record from the text of its file; `path` is for messages only.

    Raises:
        InputError: with file and line, if it is damaged or of another schema.
    """
    return decode_json(text, RunRecord, schema=RUN_SCHEMA, path=path)


def save_run(record: RunRecord, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a run record, whole or not at all."""
    write_atomically(path, encode_json(record, schema=RUN_SCHEMA), overwrite=overwrite)
