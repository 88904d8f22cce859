"""Forms for programs: JSON as `--json` prints it, without NaN or Infinity (null), and matrices.

Where a noun also has a file form (topology, mapping, run), the JSON is that file's schema plus
`version` and what the design asks for, so redirected output can be read back.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from toposeat.errors import UsageError
from toposeat.installed import VERSION
from toposeat.model.lent import BORROWED_SCHEMA, Borrowed, LentDevice
from toposeat.model.quantity import Quantity
from toposeat.model.result_file import MAPPING_SCHEMA, RUN_SCHEMA
from toposeat.model.traffic import PairTable, TableKey, Traffic
from toposeat.model.visible_list import order_line, visible_line
from toposeat.report.view.traffic import gain_share, is_timed, mpi_share, time_parts

if TYPE_CHECKING:
    from toposeat.model.asked import Asked, Request
    from toposeat.model.device_set import DeviceSet
    from toposeat.model.evaluation import Evaluation, MappingResult
    from toposeat.model.health import Health
    from toposeat.model.network import Network
    from toposeat.model.placement import Placement
    from toposeat.model.protocol import Advice, ProtocolRule, Setting, Stack
    from toposeat.model.quantity import Knowledge, Premises
    from toposeat.model.runs import ClockedPattern, ClockedResult, RunRecord
    from toposeat.model.topology import Topology

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


def _members(noun: object, *names: str) -> Json:
    """These members of a noun, plain; of a quantity the value alone."""
    found = {name: getattr(noun, name) for name in names}
    return {
        name: _plain(each.value if isinstance(each, Quantity) else each)
        for name, each in found.items()
    }


def topology_json(document: Mapping[str, Any]) -> Json:
    """The topology file's content (`devices`, `links`, `nics`, `report` ...), as it is saved."""
    members = {name: member for name, member in document.items() if name != "schema"}
    return {**_head(document["schema"]), **_finite(members)}


def knowledge_json(knowledge: Knowledge) -> Json:
    """What is told of device links and affinities: counts of pairs, and ids of what is untold."""
    return {"told": knowledge.told, **_plain(knowledge)}


def mapping_json(result: MappingResult, topology: Topology | None, traffic: Traffic) -> Json:
    """`map --json`: device positions, the line to copy, predictions, certificate, solver.

    Where hosts are alike, device d is device d % slots_per_host of host d // slots_per_host. Ids,
    and a line, there are only where devices are listed.
    """
    ids, line = None, None
    if topology is not None:
        ids = [topology.devices[device].id for device in result.device_of_rank]
        line = order_line(topology, result.device_of_rank)
    return {
        **_head(MAPPING_SCHEMA),
        "topology": result.topology,
        "traffic": traffic.origin,
        "ranks": traffic.ranks,
        **_members(result, "objective", "metric", "device_of_rank"),
        "device_ids": ids,
        "line": line,
        **_members(result, "hosts", "slots", "slots_per_host", "hosts_by_first_rank"),
        "default": _evaluation(result.default),
        "placed": _evaluation(result.placed),
        "certificate": {**_plain(result.certificate), "word": result.certificate.word},
        **_members(result, "premises", "solver", "solve_seconds", "seed", "uniform", "notes"),
        **_members(result, "explanation", "transport", "kept_default", "candidates"),
        **_members(result, "peak_memory_bytes", "stages"),
    }


def _evaluation(found: Evaluation) -> Json:
    """Its members; of phases also seconds of the slowest alone, and of all one after the other."""
    if not found.phases:
        return dict(_plain(found))
    high_s = sum(phase.seconds for phase in found.phases)
    return {**_plain(found), "low_s": _finite(found.low_s), "high_s": _finite(high_s)}


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
                **_members(phase, "index", "label", "begin_s", "end_s", "mpi_s", "active_s"),
                "traffic": _tables(phase.tables, traffic.ranks),
            }
            for phase in traffic.phases
        ],
        "worlds": [
            {
                **_members(world, "id", "name", "ranks", "parent", "flows"),
                "traffic": _tables(world.tables, world.ranks),
            }
            for world in traffic.worlds
        ],
        **_members(traffic, "communicators", "collectives", "collective_model", "report"),
        "metadata": dict(traffic.metadata),
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


def asked_json(asked: Asked, requests: Sequence[Request]) -> Json:
    """What to ask of schedulers; all seconds are predicted."""
    return {
        **_head("toposeat/asked/1"),
        "nodes": asked.nodes,
        "devices_per_node": asked.devices,
        "block": _plain(asked.chosen),
        "blocks": asked.blocks,
        "predicted_scattered_s": asked.scattered_s,
        "tried": [_plain(each) for each in asked.tried],
        "why": list(asked.why),
        "requests": {each.scheduler: list(each.words) for each in requests},
    }


def lent_json(devices: Sequence[LentDevice]) -> Json:
    """Lent devices, in the order in which they were."""
    return {**_head("toposeat/lent/1"), "devices": [_plain(each) for each in devices]}


def borrowed_json(borrowed: Borrowed) -> Json:
    """A job that borrows: `predicted` and `measured` ways of every rank, and the price."""
    price = borrowed.price
    added = None if price is None else {**_plain(price), "share": price.share}
    return {**_head(BORROWED_SCHEMA), **_plain(borrowed), "price": added}


def device_set_json(chosen: DeviceSet, topology: Topology) -> Json:
    """Devices to take by index, in the order of local ranks; the rates are predicted."""

    def indices(devices: Iterable[int]) -> list[int | None]:
        return [topology.devices[device].index for device in devices]

    return {
        **_head("toposeat/choice/1"),
        "devices": indices(chosen.devices),
        "line": visible_line(topology, chosen.devices),
        "ring_bytes_per_s": _finite(chosen.bytes_per_s),
        "ring_range": [_finite(chosen.low), _finite(chosen.high)],
        "transport": _plain(chosen.transport),
        "lowest": {
            "devices": indices(chosen.lowest),
            "ring_bytes_per_s": _finite(chosen.lowest_bytes_per_s),
        },
        "left": [
            {
                "size": left.size,
                "groups": [indices(group) for group in left.groups],
                "ring_bytes_per_s": left.bytes_per_s,
            }
            for left in chosen.left
        ],
        "predicted_s": None if chosen.placement is None else chosen.placement.placed.predicted_s,
        **_members(chosen, "sets", "sets_tried"),
    }


def run_json(record: RunRecord) -> Json:
    """One run: what was started, what each rank got, measured wall time."""
    return {**_head(RUN_SCHEMA), **_plain(record)}


def comparison_json(
    evaluations: Sequence[tuple[str, Evaluation]],
    machine: str,
    traffic: Traffic,
    *,
    metric: str = "bandwidth",
    premises: Sequence[Premises] = (),
    notes: Sequence[str] = (),
) -> Json:
    """Several placements side by side, all predicted; `metric` is that of their pairwise cost.

    `premises` are those of each gain over the first, `notes` of the machine.
    """
    of_each = [*map(_plain, premises)] or [None] * len(evaluations)
    return {
        **_head("toposeat/comparison/1"),
        "topology": machine,
        "traffic": traffic.origin,
        "ranks": traffic.ranks,
        "metric": metric,
        "predicted": [
            {"name": name, **_evaluation(e), "premises": each}
            for (name, e), each in zip(evaluations, of_each, strict=True)
        ],
        "notes": list(notes),
    }


def pattern_json(result: ClockedPattern) -> Json:
    """Every run of every size; seconds are clocked, but for those that `predicted` is in."""
    document: Json = {**_head("toposeat/pattern/1"), **_plain(result)}
    document["results"] = [*map(clocked_json, result.results)]
    return document


def clocked_json(result: ClockedResult) -> Json:
    """Every run; seconds are clocked (`emulated` names the stand-in machine), never predicted."""
    document: Json = _plain(result)
    for order, noun in zip(document["orders"], result.orders, strict=True):
        order["is_noise"] = result.is_noise(noun)
    return document


def health_json(topology: Topology | None, health: Health) -> Json:
    """The verdict; `machine` and `wiring` are null where there is no GPU. Gains are predicted.

    For fleets: codes and severities do not change.
    """
    machine = None
    if topology is not None:
        named = _members(topology, "name", "origin", "hosts")
        machine = {**named, "devices": len(topology.devices)}
    return {
        "schema": "toposeat/doctor/2",
        "verdict": health.verdict.value,
        "healthy": health.verdict.value == "healthy",
        "machine": machine,
        "wiring": _plain(health.wiring),
        "transport": _plain(health.transport),
        "gains": [
            {
                **_members(gain, "pattern", "kind", "default_s", "placed_s", "device_of_rank"),
                "line": None if topology is None else order_line(topology, gain.device_of_rank),
                "gain_share": gain.share,
                "gain_share_bound": gain.share_bound,
                **_members(gain, "proved", "premises"),
            }
            for gain in health.gains
        ],
        "orders": [
            {
                "line": None if topology is None else order_line(topology, order.device_of_rank),
                **_plain(order),
            }
            for order in health.orders
        ],
        "findings": _plain([*health.findings, *health.node]),
    }


def network_json(network: Network) -> Json:
    """`discover -t NETWORK --json`. Switches are numbered; rates are bytes/s per direction."""
    return {
        **_head("toposeat/network/1"),
        **_members(network, "name", "origin", "kind", "description", "devices_per_host"),
        **_members(network, "switches", "levels", "domain", "sources", "report"),
        "hosts": [
            {
                "name": host.name,
                "ports": [_members(p, "switch", "name", "bytes_per_s") for p in host.ports],
            }
            for host in network.hosts
        ],
        "links": [
            _members(link, "ends", "level", "count", "bytes_per_s", "latency_s")
            for link in network.links
        ],
    }


def advice_json(advice: Advice) -> Json:
    """What could be set, and every run.

    `recommended` is null unless runs have verified it; `emulated` names the stand-in machine where
    they were on one, and then it holds for that stand-in alone.
    """
    clocked = advice.clocked
    return {
        **_head("toposeat/advice/2"),
        "stack": _stack(advice.stack),
        "settings": [
            {**_setting(each), "skipped": advice.skipped.get(each.name)}
            for each in advice.stack.settings
        ],
        "clocked": None if clocked is None else clocked_json(clocked),
        "emulated": "" if clocked is None else clocked.emulated,
        "recommended": None if advice.recommended is None else _setting(advice.recommended),
    }


def _stack(stack: Stack) -> Json:
    return {
        **_members(stack, "kind", "version", "transport", "statements"),
        "variables": dict(stack.variables),
        "rule": _rule(stack.rule),
    }


def with_stack(document: Json, stack: Stack | None) -> Json:
    """A document of predictions with the stack that they are for: null for direct copies."""
    return document | {"stack": None if stack is None else _stack(stack)}


def _setting(setting: Setting) -> Json:
    """A setting with its variables and its rule."""
    return {
        **_members(setting, "name", "source", "caution"),
        "variables": dict(setting.variables),
        "rule": _rule(setting.rule),
    }


def _rule(rule: ProtocolRule) -> list[Json]:
    """Pieces of a rule: from which size on which protocol."""
    return [{"from_bytes": first, "protocol": protocol.value} for first, protocol in rule.pieces]


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
