"""Builds NVLinks from NV# relations: a mesh of direct links, or ports of one NVSwitch fabric."""

from __future__ import annotations

from toposeat.model.quantity import Premise
from toposeat.model.topology import ComponentKind
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.premises import lane_of_untold_product
from toposeat.topology.relation import Relations


def guess_lane(
    relations: Relations, lanes: dict[tuple[int, int], int]
) -> tuple[k.DeviceLink, bool]:
    """The NVLink generation, and whether product names prove it.

    Without names the counts decide: 13 and more exist from NVLink 4 on, 7 to 12 from NVLink 3 on,
    and bridges of 4 that join pairs only are those of GA10x boards. Smaller counts decide nothing,
    and 25 GB/s per lane is assumed.
    """
    for device in relations.machine.devices:
        found = products.lane_named(device.name)
        if found is not None:
            return found, True
    most = max(lanes.values(), default=0)
    partners = [sum(gpu in pair for pair in lanes) for gpu in range(relations.gpus)]
    if most > 12:
        return k.NVLINK4, False
    if most > 6:
        return k.NVLINK3, False
    if most == 4 and max(partners) == 1:
        return k.NVLINK3_BRIDGE, False
    if relations.old_words and most:
        return k.NVLINK1, False
    return k.NVLINK_UNKNOWN, False


def add_nvlinks(builder: GraphBuilder, relations: Relations) -> k.DeviceLink:
    """Add the NVLinks of all GPUs and return their generation.

    Where every GPU of a group sees every other and that would need more lanes than a GPU has, the
    lanes end at an NVSwitch fabric, drawn as one crossbar; else each relation is a bond of its own.
    """
    ids = relations.ids
    lanes = relations.nvlink_lanes()
    lane, certain = guess_lane(relations, lanes)
    premise = None if certain else lane_of_untold_product(lane)
    if lanes and not certain:
        builder.report.append(
            f"NVLink generation is not stated: {lane.data_sheet / k.GB_PER_S:g} GB/s per link and"
            f" direction assumed ({lane.name})"
        )
    for number, group in enumerate(_groups(lanes, relations.gpus)):
        pairs = {p: n for p, n in lanes.items() if p[0] in group}
        needed = {g: sum(n for p, n in pairs.items() if g in p) for g in group}
        complete = len(pairs) == len(group) * (len(group) - 1) // 2
        worst = max(group, key=lambda g: needed[g])
        if complete and len(group) > 2 and needed[worst] > lane.lanes_per_device:
            ports = {ids[g]: max(n for p, n in pairs.items() if g in p) for g in group}
            _add_crossbar(builder, f"nvswitch{number}", ports, lane, premise)
            if len(set(pairs.values())) > 1:
                builder.report.append(
                    f"NV# differs between GPUs of one NVSwitch fabric ({min(pairs.values())} to"
                    f" {max(pairs.values())}): some links are down"
                )
            continue
        if needed[worst] > lane.lanes_per_device:
            builder.report.append(
                f"{ids[worst]} would need {needed[worst]} NVLinks, more than"
                f" {lane.lanes_per_device}: the relations are doubtful"
            )
        for (i, j), count in sorted(pairs.items()):
            builder.device_link(ids[i], ids[j], lane, count, port=False, premise=premise)
    return lane


def _groups(lanes: dict[tuple[int, int], int], count: int) -> list[list[int]]:
    """GPUs that NVLinks connect, directly or not."""
    group = list(range(count))
    for i, j in lanes:
        old, new = group[j], group[i]
        group = [new if g == old else g for g in group]
    members = [[v for v in range(count) if group[v] == g] for g in dict.fromkeys(group)]
    return [m for m in members if len(m) > 1]


def _add_crossbar(
    builder: GraphBuilder,
    id: str,
    ports: dict[str, int],
    lane: k.DeviceLink,
    premise: Premise | None,
) -> None:
    """One NVSwitch fabric; `ports` holds the lanes of each device, by id."""
    builder.component(ComponentKind.NVSWITCH, id, name="NVSwitch fabric")
    for gpu, lanes in ports.items():
        builder.device_link(gpu, id, lane, lanes, port=True, premise=premise)
