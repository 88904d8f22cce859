"""JSON files of mapping results and run records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toposeat.errors import InputError
from toposeat.model.evaluation import MappingResult
from toposeat.model.files import decode_json, encode_json, parse_json, write_atomically
from toposeat.model.runs import RunRecord

MAPPING_SCHEMA = "toposeat/mapping/3"
RUN_SCHEMA = "toposeat/run/1"
_ON_NODES = "toposeat/mapping/2"  # until 2026: of machines whose devices were listed
_AT_SCALE = "toposeat/scale/2"  # and of the others

_AGAIN = "print it again: toposeat map TRAFFIC -t SRC --json"


def parse_mapping(text: str, path: str | Path) -> MappingResult:
    """A mapping result from the text of its file, or from an older one.

    Args:
        text: of the file.
        path: for messages only.

    Raises:
        InputError: with file and line, if it is damaged, of another schema, or contradicts itself.
    """
    head = text[:200]
    schema = MAPPING_SCHEMA
    if f'"{_AT_SCALE}"' in head:
        raw = parse_json(text, path, hint="the file is damaged; make it again")
        text = json.dumps(_renewed(raw))
    elif f'"{_ON_NODES}"' in head:
        schema = _ON_NODES
    result = decode_json(text, MappingResult, schema=schema, path=path)
    _check(result, path)
    return result


def is_mapping(head: str) -> bool:
    """Whether a file that begins like this holds a mapping result, of whatever version."""
    names = (MAPPING_SCHEMA, _AT_SCALE)
    return any(f'"{name.rpartition("/")[0]}/' in head for name in names)


def _renewed(raw: Any) -> Any:
    """A mapping that an older version wrote of a large machine, in today's members.

    Of groups it said what all of them take at once; that is not what is said today.
    """
    if not isinstance(raw, dict):
        return raw
    ranks = len(raw.get("device_of_rank") or ())
    for name, row in (("default", list(range(ranks))), ("placed", raw.get("device_of_rank"))):
        if isinstance(each := raw.get(name), dict):
            each["device_of_rank"] = row
            if isinstance(phases := each.get("phases"), list) and phases:
                each["predicted_s"] = sum(phase["seconds"] for phase in phases)
    if isinstance(why := raw.get("explanation"), dict):
        for move in why.get("moves", ()):
            move["links_before"] = move.pop("levels_before", None)
            move["links_after"] = move.pop("levels_after", None)
    placed = raw["placed"] if isinstance(raw.get("placed"), dict) else {}
    value = {"cost": "cost", "congestion": "max_congestion_s"}.get(
        str(raw.get("objective")), "predicted_s"
    )
    certificate = {
        **(raw["certificate"] if isinstance(raw.get("certificate"), dict) else {}),
        "objective": raw.get("objective"),
        "value": placed.get(value),
    }
    return {
        **raw,
        "schema": MAPPING_SCHEMA,
        "metric": "bandwidth",
        "certificate": certificate,
    }


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
    """A run record from the text of its file; `path` is for messages only.

    Raises:
        InputError: with file and line, if it is damaged or of another schema.
    """
    return decode_json(text, RunRecord, schema=RUN_SCHEMA, path=path)


def save_run(record: RunRecord, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a run record, whole or not at all."""
    write_atomically(path, encode_json(record, schema=RUN_SCHEMA), overwrite=overwrite)
