"""Bonds of device links: directly between two devices, or to the switches of a fabric."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from toposeat.model.graph import components
from toposeat.model.quantity import Premise
from toposeat.model.topology import ComponentKind, FactKind
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.premises import lane_of_untold_product
from toposeat.topology.relation import Relations


class CountedLanes:
    """Lanes of device links by what is at their other end, as each device counts them.

    `kinds` says what a lane of each device is, by id.
    """

    def __init__(self, builder: GraphBuilder, kinds: Mapping[str, k.DeviceLink]) -> None:
        self.builder = builder
        self.kinds = kinds
        self.direct: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.ports: dict[str, Counter[str]] = defaultdict(Counter)

    def to_device(self, here: str, there: str, lanes: int = 1) -> None:
        """Lanes of one device that end at another."""
        self.direct[min(here, there), max(here, there)][here] += lanes

    def to_switch(self, here: str, switch: str, lanes: int = 1) -> None:
        """Lanes that end at a switch, which any name may stand for."""
        self.ports[here][switch] += lanes

    def to_cpu(self, here: str, numa: str, lanes: int) -> None:
        """Lanes that end at a NUMA node (POWER9)."""
        self.builder.device_link(here, numa, self.kinds[here], lanes, port=False)

    def draw(self) -> None:
        """Add a bond for each pair of devices, and the fabrics of the switches."""
        for (a, b), counts in sorted(self.direct.items()):
            if counts[a] != counts[b]:
                self.builder.report.append(
                    f"{a} counts {counts[a]} links to {b}, {b} counts {counts[b]} back: the smaller"
                    " number that is not zero is taken"
                )
            count, lane = min(n for n in counts.values() if n), self.kinds[a]
            self.builder.device_link(a, b, lane, count, port=False, premise=_premise(lane))
        _add_fabrics(self.builder, self.ports, self.kinds)


def _add_fabrics(
    builder: GraphBuilder, ports: Mapping[str, Counter[str]], lanes: Mapping[str, k.DeviceLink]
) -> None:
    """GPUs that share switches share a fabric: one crossbar with one bond per GPU.

    `ports` holds for each device id lanes by the switch they end at.
    """
    switches = {switch for counts in ports.values() for switch in counts}
    cables = ((gpu, switch) for gpu, counts in ports.items() for switch in counts)
    parts = components([*ports, *switches], cables)
    groups = [gpus for part in parts if (gpus := [each for each in part if each in ports])]
    if len(groups) > 1 and any(len(gpus) > 1 for gpus in groups):
        alone = [gpu for gpus in groups if len(gpus) == 1 for gpu in gpus]
        groups = [gpus for gpus in groups if len(gpus) > 1]
        if alone:
            builder.tells.discard(FactKind.DEVICE_LINKS)
        builder.report.extend(
            f"the far ends of the {sum(ports[gpu].values())} device links of {gpu} are not"
            " identified: no other device names such a switch, and no link is drawn"
            for gpu in alone
        )
    names: list[str] = []
    for number, gpus in enumerate(groups):
        id = builder.component(
            ComponentKind.NVSWITCH, f"nvswitch{number}", name=f"NVSwitch fabric {number}"
        )
        names.append(id)
        for gpu in sorted(gpus, key=lambda g: int(g[3:])):
            count, lane = sum(ports[gpu].values()), lanes[gpu]
            builder.device_link(gpu, id, lane, count, port=True, premise=_premise(lane))
    _join_boards(builder, names, groups, ports, lanes)


def _premise(lane: k.DeviceLink) -> Premise | None:
    return lane_of_untold_product(lane) if lane is k.NVLINK_UNKNOWN else None


def _join_boards(
    builder: GraphBuilder,
    names: Sequence[str],
    groups: Sequence[Sequence[str]],
    ports: Mapping[str, Counter[str]],
    lanes: Mapping[str, k.DeviceLink],
) -> None:
    """Two fabrics of one node are the two boards of a DGX-2, which 48 trunk links join."""
    if len(names) != 2 or any(len(gpus) < 8 for gpus in groups):
        if len(names) > 1:
            builder.report.append(
                f"{len(names)} NVSwitch fabrics do not share a switch: no NVLink between them"
            )
        return
    gpus = groups[0]
    first = gpus[0]
    count = sum(sum(ports[gpu].values()) for gpu in gpus)
    builder.report.append(
        "two NVSwitch boards: assumed to be joined at full bisection, as in DGX-2"
    )
    builder.link(
        lanes[first].kind,
        *names,
        bytes_per_s=lanes[first].data_sheet * count,
        latency_s=k.LATENCY_NVSWITCH_BOARDS,
        count=count,
        name="board to board",
    )


# ---- NVLinks from NV# relations


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
    joined = [group for group in components(range(relations.gpus), lanes) if len(group) > 1]
    for number, group in enumerate(joined):
        pairs = {p: n for p, n in lanes.items() if p[0] in group}
        needed = {g: sum(n for p, n in pairs.items() if g in p) for g in group}
        complete = len(pairs) == len(group) * (len(group) - 1) // 2
        worst = max(group, key=lambda g: needed[g])
        if complete and len(group) > 2 and needed[worst] > lane.lanes_per_device:
            ports = {ids[g]: max(n for p, n in pairs.items() if g in p) for g in group}
            fabric = builder.component(
                ComponentKind.NVSWITCH, f"nvswitch{number}", name="NVSwitch fabric"
            )
            for gpu, count in ports.items():
                builder.device_link(gpu, fabric, lane, count, port=True, premise=premise)
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
