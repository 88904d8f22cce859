"""JSON files of mapping results and run records."""

from __future__ import annotations

from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.evaluation import MappingResult
from toposeat.model.files import decode_json, encode_json, write_atomically
from toposeat.model.runs import RunRecord

MAPPING_SCHEMA = "toposeat/mapping/3"
RUN_SCHEMA = "toposeat/run/1"
_AGAIN = "print it again: toposeat map TRAFFIC -t SRC --json"


def parse_mapping(text: str, path: str | Path) -> MappingResult:
    """A mapping result from the text of its file."""
    result = decode_json(text, MappingResult, schema=MAPPING_SCHEMA, path=path)
    _check(result, path)
    return result


def is_mapping(head: str) -> bool:
    """Whether a file that begins like this holds a mapping result, of whatever version."""
    return '"toposeat/mapping/' in head or '"toposeat/scale/' in head


def _check(result: MappingResult, path: str | Path) -> None:
    """Refuse a result whose hosts, devices, groups and levels do not go together.

    A machine of many hosts has no groups to draw, and one whose hosts differ none at all.
    """
    hosts, rows = range(len(result.hosts)), (result.default, result.placed)
    sizes = [len(stage) for stage in result.stages]
    names = [[load.level for load in each.levels] for each in rows]
    fits = {
        "devices and ranks": len(result.default.device_of_rank) == result.ranks
        and result.placed.device_of_rank == result.device_of_rank,
        "hosts and devices of ranks": result.slots_per_host >= 0
        and (
            not result.slots_per_host
            or all(0 <= device < result.slots for device in result.device_of_rank)
        ),
        "groups of hosts and their loads": all(
            sorted(host for group in stage for host in group.hosts) == [*hosts]
            and all(group.hosts for group in stage)
            for stage in result.stages
        )
        and all(
            [len(stage) for stage in each.stages_s] == sizes
            and len(each.hosts_s) == (len(hosts) if sizes else 0)
            for each in rows
        ),
        "levels of links by default and as placed": names[0] == names[1],
    }
    for what, is_right in fits.items():
        if not is_right:
            raise InputError(f"the {what} do not go together", path=path, hint=_AGAIN)


def save_mapping(result: MappingResult, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a mapping result, whole or not at all."""
    write_atomically(path, encode_json(result, schema=MAPPING_SCHEMA), overwrite=overwrite)


def parse_run(text: str, path: str | Path) -> RunRecord:
    """A run record from the text of its file; `path` is for messages only."""
    return decode_json(text, RunRecord, schema=RUN_SCHEMA, path=path)


def save_run(record: RunRecord, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a run record, whole or not at all."""
    write_atomically(path, encode_json(record, schema=RUN_SCHEMA), overwrite=overwrite)
