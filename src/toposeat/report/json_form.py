"""Forms for programs: JSON as `--json` prints it, without NaN or Infinity (null), and matrices.

Where a noun also has a file form (topology, mapping, run), the JSON is that file's schema plus
`version` and what the design asks for, so redirected output can be read back.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from toposeat.errors import UsageError
from toposeat.installed import VERSION
from toposeat.model.result_file import MAPPING_SCHEMA
from toposeat.model.traffic import PairTable, TableKey, Traffic
from toposeat.model.visible_list import order_line, visible_line
from toposeat.report.view.traffic import gain_share, is_timed, mpi_share, time_parts

if TYPE_CHECKING:
    from toposeat.model.device_set import DeviceSet
    from toposeat.model.evaluation import Evaluation, MappingResult
    from toposeat.model.health import Health
    from toposeat.model.protocol import Advice
    from toposeat.model.quantity import Premises
    from toposeat.model.topology import Topology

DENSE_RANKS = 256  # above this, pair tables are sparse triples (design, section 4)

Json = dict[str, Any]

# Members that documents show of a noun, by the name of its kind, where they are not those that it
# is made of: `*` is these, `name=member` one under another name.
_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "Asked": (
        *("nodes", "devices_per_node=devices", "block=chosen", "blocks"),
        *("predicted_scattered_s=scattered_s", "tried", "why"),
    ),
    "Certificate": ("*", "word"),
    "HostNumbers": ("device", "what", "to_device", "from_device"),
    "Knowledge": ("told", "*"),
    "MappingResult": ("ranks", "*", "slots", "hosts_by_first_rank", "kept_default"),
    "Network": (
        *("name", "origin", "kind", "description", "devices_per_host", "switches", "levels"),
        *("domain", "sources", "report", "hosts", "links"),
    ),
    "NetworkLink": ("ends", "level", "count", "bytes_per_s", "latency_s"),
    "OrderEffect": ("*", "low", "high"),
    "Phase": ("index", "label", "begin_s", "end_s", "mpi_s", "active_s"),
    "Placement": ("ranks", "*"),
    "PossibleGain": (
        *("pattern", "kind", "default_s", "placed_s", "device_of_rank", "gain_share=share"),
        *("gain_share_bound=share_bound", "proved", "premises"),
    ),
    "Price": ("*", "share"),
    "Setting": ("name", "source", "caution", "variables", "rule"),
    "Stack": ("kind", "version", "transport", "statements", "variables", "rule"),
}
# Nouns that are no list of their members.
_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "ClockedResult": lambda result: {
        **_members(result),
        "orders": [
            {**_members(order), "is_noise": result.is_noise(order)} for order in result.orders
        ],
    },
    "Evaluation": lambda found: _members(found) | _phase_sums(found),
    "LinkLoad": msgspec.to_builtins,  # which leaves out what is not said
    "ProtocolRule": lambda rule: [
        {"from_bytes": first, "protocol": protocol.value} for first, protocol in rule.pieces
    ],
    "Quantity": lambda quantity: quantity.value,
}


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


def document(schema: str, noun: object, **more: object) -> Json:
    """What `--json` prints of a noun, with its schema, the version and what is said besides."""
    return {"schema": schema, "version": VERSION, **form_of(noun), **form_of(more)}


def form_of(noun: object) -> Any:
    """Dicts, lists and scalars of a noun, None kept, numbers finite or None."""
    kind = type(noun).__name__
    if kind in _FORMS:
        return form_of(_FORMS[kind](noun))
    if isinstance(noun, Enum):
        noun = noun.value
    if noun is None or isinstance(noun, str | int | float):
        return None if isinstance(noun, float) and not math.isfinite(noun) else noun
    if isinstance(noun, Mapping):
        return {str(name): form_of(member) for name, member in noun.items()}
    if isinstance(noun, list | tuple):
        return [form_of(each) for each in noun]
    return form_of(_members(noun))


def _members(noun: Any) -> Json:
    """The members that are shown of a noun, by name."""
    kind = type(noun)
    own = getattr(kind, "__struct_fields__", None) or kind.__dataclass_fields__
    found: Json = {}
    for named in _MEMBERS.get(kind.__name__, ("*",)):
        for each in own if named == "*" else (named,):
            name, _, member = each.partition("=")
            found[name] = getattr(noun, member or name)
    return found


def _phase_sums(found: Evaluation) -> Json:
    """Of phases the seconds of the slowest alone, and of all one after the other."""
    if not found.phases:
        return {}
    return {"low_s": found.low_s, "high_s": sum(phase.seconds for phase in found.phases)}


def mapping_json(result: MappingResult, topology: Topology | None, traffic: Traffic) -> Json:
    """`map --json`: device positions, the line to copy, predictions, certificate, solver.

    Where hosts are alike, device d is device d % slots_per_host of host d // slots_per_host. Ids,
    and a line, there are only where devices are listed.
    """
    ids, line = None, None
    if topology is not None:
        ids = [topology.devices[device].id for device in result.device_of_rank]
        line = order_line(topology, result.device_of_rank)
    return document(MAPPING_SCHEMA, result, traffic=traffic.origin, device_ids=ids, line=line)


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
    return document(
        "toposeat/traffic/1",
        {
            name: getattr(traffic, name)
            for name in (
                *("origin", "ranks", "mapped_space", "device_choice", "communicators"),
                *("collectives", "collective_model", "report", "metadata"),
            )
        },
        traffic=tables,
        time={
            "timed": is_timed(traffic),
            "mpi_share": mpi_share(traffic),
            "gain_share": gain_share(traffic),
            "parts": time_parts(traffic),
            "ranks": traffic.rank_info,
        },
        phases=[
            _members(phase) | {"traffic": _tables(phase.tables, traffic.ranks)}
            for phase in traffic.phases
        ],
    )


def _tables(tables: Mapping[TableKey, PairTable], ranks: int) -> Json:
    form: Json = {}
    for (kind, space), table in sorted(tables.items()):
        entry = _pairs(table, ranks)
        entry["message_size_histogram"] = None
        form.setdefault(kind.value, {})[space.value] = entry
    return form


def device_set_json(chosen: DeviceSet, topology: Topology) -> Json:
    """Devices to take by index, in the order of local ranks; the rates are predicted."""
    from toposeat.model.device_set import products_in  # noqa: PLC0415 - 3 ms, for one verb

    def indices(devices: Iterable[int]) -> list[int | None]:
        return [topology.devices[device].index for device in devices]

    return document(
        "toposeat/choice/1",
        {
            "devices": indices(chosen.devices),
            "line": visible_line(topology, chosen.devices),
            "products": {
                name: indices(own) for name, own in products_in(topology, chosen.devices).items()
            },
            "ring_bytes_per_s": chosen.bytes_per_s,
            "ring_range": [chosen.low, chosen.high],
            "premises": chosen.premises,
            "transport": chosen.transport,
            "lowest": {
                "devices": indices(chosen.lowest),
                "ring_bytes_per_s": chosen.lowest_bytes_per_s,
            },
            "left": [
                {
                    "size": left.size,
                    "groups": [indices(group) for group in left.groups],
                    "ring_bytes_per_s": left.bytes_per_s,
                }
                for left in chosen.left
            ],
            "predicted_s": chosen.placement and chosen.placement.placed.predicted_s,
            "sets": chosen.sets,
            "sets_tried": chosen.sets_tried,
        },
    )


def comparison_json(
    evaluations: Sequence[tuple[str, Evaluation]],
    machine: str,
    traffic: Traffic,
    *,
    metric: str = "bandwidth",
    premises: Sequence[Premises | None] = (),
    notes: Sequence[str] = (),
) -> Json:
    """Several placements side by side, all predicted; `metric` is that of their pairwise cost.

    `premises` are those of each gain over the first, `notes` of the machine.
    """
    of_each = premises or [None] * len(evaluations)
    predicted = [
        {"name": name, **form_of(found), "premises": each}
        for (name, found), each in zip(evaluations, of_each, strict=True)
    ]
    about = {"topology": machine, "traffic": traffic.origin, "ranks": traffic.ranks}
    return document("toposeat/comparison/1", about, metric=metric, predicted=predicted, notes=notes)


def health_json(topology: Topology | None, health: Health) -> Json:
    """The verdict; `machine` and `wiring` are null where there is no GPU. Gains are predicted.

    For fleets: codes and severities do not change.
    """
    machine = None
    if topology is not None:
        named = {name: getattr(topology, name) for name in ("name", "origin", "hosts")}
        machine = {**named, "devices": len(topology.devices)}

    def with_line(noun: Any) -> Json:
        line = None if topology is None else order_line(topology, noun.device_of_rank)
        return {"line": line, **_members(noun)}

    return document(
        "toposeat/doctor/2",
        {
            "verdict": health.verdict,
            "healthy": health.verdict.value == "healthy",
            "machine": machine,
            "wiring": health.wiring,
            "transport": health.transport,
            "gains": [*map(with_line, health.gains)],
            "orders": [*map(with_line, health.orders)],
            "findings": [*health.findings, *health.node],
        },
    )


def advice_json(advice: Advice) -> Json:
    """What could be set, and every run.

    `recommended` is null unless runs have verified it; `emulated` names the stand-in machine where
    they were on one, and then it holds for that stand-in alone.
    """
    return document(
        "toposeat/advice/2",
        {
            "stack": advice.stack,
            "settings": [
                {**_members(each), "skipped": advice.skipped.get(each.name)}
                for each in advice.stack.settings
            ],
            "clocked": advice.clocked,
            "emulated": "" if advice.clocked is None else advice.clocked.emulated,
            "recommended": advice.recommended,
        },
    )


MAX_RANKS = 4096  # of a dense matrix; 16.8 million cells


def matrix_file(traffic: Traffic, form: str) -> bytes:
    """The bytes that a mapper serves (`Traffic.mapped_table`), row = sender, as one dense matrix.

    `form` is `csv` or `npy`.
    """
    if traffic.ranks > MAX_RANKS:
        raise UsageError(
            f"a dense matrix of {traffic.ranks} ranks, at most {MAX_RANKS} are written",
            hint="use --format json, which is sparse above 256 ranks, or query the profile",
        )
    matrix = traffic.mapped_table().dense_bytes(traffic.ranks)
    if form == "npy":
        out = io.BytesIO()
        np.save(out, matrix, allow_pickle=False)
        return out.getvalue()
    return "".join(f"{','.join(map(str, row))}\n" for row in matrix.tolist()).encode()
