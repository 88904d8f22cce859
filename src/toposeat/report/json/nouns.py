"""JSON forms of the nouns, as `--json` prints them. Never NaN or Infinity: those become null.

Where a noun also has a file form (topology, mapping, run), the JSON is that file's schema plus
`version` and what the design asks for, so redirected output can be read back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toposeat.installed import VERSION
from toposeat.model.evaluation import Evaluation, MappingResult
from toposeat.model.placement import Placement
from toposeat.model.result_file import MAPPING_SCHEMA, RUN_SCHEMA
from toposeat.model.run_record import RunRecord
from toposeat.model.topology import Topology
from toposeat.model.traffic import PairTable, TableKey, Traffic
from toposeat.report.time_words import gain_share, is_timed, time_parts
from toposeat.report.words import mpi_share

DENSE_RANKS = 256  # above this, pair tables are sparse triples (design, section 4)

Json = dict[str, Any]


def json_text(form: Mapping[str, Any]) -> str:
    """`form` as printed: UTF-8, indented two blanks, lists of scalars on one line each."""
    return _write(form, 0) + "\n"


def _write(value: object, depth: int) -> str:
    pad, end = "  " * (depth + 1), "  " * depth
    if isinstance(value, Mapping) and value:
        rows = [f"{pad}{json.dumps(str(k))}: {_write(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{end}}}"
    if isinstance(value, list) and any(isinstance(v, list | Mapping) for v in value):
        rows = [pad + _write(v, depth + 1) for v in value]
        return "[\n" + ",\n".join(rows) + f"\n{end}]"
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _head(schema: str) -> Json:
    return {"schema": schema, "version": VERSION}


def _plain(noun: object) -> Any:
    """Dicts, lists and scalars of a noun, None kept, numbers finite or None."""
    return _finite(msgspec.to_builtins(noun, str_keys=True))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def topology_json(document: Mapping[str, Any]) -> Json:
    """The topology file's content (`devices`, `links`, `nics`, `report` ...), as it is saved."""
    members = {name: member for name, member in document.items() if name != "schema"}
    return {**_head(document["schema"]), **_finite(members)}


def mapping_json(result: MappingResult, topology: Topology, traffic: Traffic) -> Json:
    """`map --json`: device positions, predictions before and after, certificate, solver."""
    return {
        **_head(MAPPING_SCHEMA),
        "topology": topology.name,
        "traffic": traffic.origin,
        "ranks": traffic.ranks,
        "objective": result.objective,
        "metric": result.metric,
        "device_of_rank": list(result.device_of_rank),
        "device_ids": [topology.devices[d].id for d in result.device_of_rank],
        "default": _plain(result.default),
        "placed": _plain(result.placed),
        "certificate": {**_plain(result.certificate), "word": result.certificate.word},
        "solver": result.solver,
        "solve_seconds": _finite(result.solve_seconds),
        "seed": result.seed,
        "uniform": result.uniform,
        "notes": list(result.notes),
        "explanation": _plain(result.explanation),
    }


def _pairs(table: PairTable, ranks: int) -> Json:
    if ranks <= DENSE_RANKS:
        return {
            "form": "dense",
            "bytes": table.dense_bytes(ranks).tolist(),
            "messages": table.dense_messages(ranks).tolist(),
        }
    ends = (table.source.tolist(), table.target.tolist())
    return {
        "form": "sparse",
        "bytes": [list(t) for t in zip(*ends, table.bytes.tolist(), strict=True)],
        "messages": [list(t) for t in zip(*ends, table.messages.tolist(), strict=True)],
    }


def profile_json(traffic: Traffic) -> Json:
    """`report PROFILE --json`: `traffic[kind][space]` has `bytes` and `messages`, row = sender.

    Above 256 ranks they are lists of [source, target, value] instead (`form` says which).
    """
    tables = _tables(traffic.tables, traffic.ranks)
    for (kind, space), histogram in traffic.histograms.items():
        of_kind = tables.setdefault(kind.value, {})
        entry = of_kind.setdefault(space.value, _pairs(PairTable.empty(), traffic.ranks))
        entry["message_size_histogram"] = histogram.tolist()
    mapped = traffic.mapped_space
    return {
        **_head("toposeat/traffic/1"),
        "origin": traffic.origin,
        "ranks": traffic.ranks,
        "mapped_space": None if mapped is None else mapped.value,
        "traffic": tables,
        "time": {
            "timed": is_timed(traffic),
            "mpi_share": _finite(mpi_share(traffic)),
            "gain_share": _finite(gain_share(traffic)),
            "parts": _plain(time_parts(traffic)),
            "ranks": _plain(traffic.rank_info),
        },
        "device_choice": traffic.device_choice.value,
        "phases": [
            {
                **_plain({k: getattr(phase, k) for k in ("index", "label", "begin_s", "end_s")}),
                "mpi_s": _finite(phase.mpi_s),
                "active_s": _finite(phase.active_s),
                "traffic": _tables(phase.tables, traffic.ranks),
            }
            for phase in traffic.phases
        ],
        "worlds": [
            {
                "id": world.id,
                "name": world.name,
                "ranks": world.ranks,
                "parent": world.parent,
                "traffic": _tables(world.tables, world.ranks),
                "flows": _plain(world.flows),
            }
            for world in traffic.worlds
        ],
        "communicators": _plain(traffic.communicators),
        "collectives": _plain(traffic.collectives),
        "collective_model": traffic.collective_model,
        "metadata": dict(traffic.metadata),
        "report": list(traffic.report),
    }


def _tables(tables: Mapping[TableKey, PairTable], ranks: int) -> Json:
    form: Json = {}
    for (kind, space), table in sorted(tables.items()):
        entry = _pairs(table, ranks)
        entry["message_size_histogram"] = None
        form.setdefault(kind.value, {})[space.value] = entry
    return form


def placement_json(placement: Placement) -> Json:
    """Seats in rank order and every host's devices."""
    return {
        **_head("toposeat/placement/1"),
        "ranks": placement.ranks,
        **_plain(placement),
    }


def run_json(record: RunRecord) -> Json:
    """One run: what was started, what each rank got, measured wall time."""
    return {**_head(RUN_SCHEMA), **_plain(record)}


def comparison_json(
    evaluations: Sequence[tuple[str, Evaluation]],
    topology: Topology,
    traffic: Traffic,
    *,
    metric: str = "bandwidth",
) -> Json:
    """Several placements side by side, all predicted; `metric` is that of their pairwise cost."""
    return {
        **_head("toposeat/comparison/1"),
        "topology": topology.name,
        "traffic": traffic.origin,
        "ranks": traffic.ranks,
        "metric": metric,
        "predicted": [{"name": name, **_plain(e)} for name, e in evaluations],
    }
