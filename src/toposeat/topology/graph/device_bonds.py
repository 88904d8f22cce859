"""Bonds of device links: directly between two devices, or to the switches of a fabric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from toposeat.model.quantity import Premise
from toposeat.model.topology import ComponentKind, FactKind
from toposeat.topology import constants as k
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.premises import lane_of_untold_product


def add_bonds(
    builder: GraphBuilder,
    direct: Mapping[tuple[str, str], Counter[str]],
    lanes: Mapping[str, k.DeviceLink],
) -> None:
    """Direct bonds: for each pair of device ids (smaller first) the lanes that each end counts."""
    for (a, b), counts in sorted(direct.items()):
        if counts[a] != counts[b]:
            builder.report.append(
                f"{a} counts {counts[a]} links to {b}, {b} counts {counts[b]} back: the smaller"
                " number that is not zero is taken"
            )
        count = min(n for n in counts.values() if n)
        builder.device_link(a, b, lanes[a], count, port=False, premise=_premise(lanes[a]))


def add_fabrics(
    builder: GraphBuilder, ports: Mapping[str, Counter[str]], lanes: Mapping[str, k.DeviceLink]
) -> None:
    """GPUs that share switches share a fabric: one crossbar with one bond per GPU.

    `ports` holds for each device id lanes by the switch (PCI bus id) they end at.
    """
    groups: list[tuple[set[str], set[str]]] = []  # (GPUs, switches)
    for gpu, counts in ports.items():
        gpus, switches = {gpu}, set(counts)
        for other in [g for g in groups if g[1] & switches]:
            gpus |= other[0]
            switches |= other[1]
            groups.remove(other)
        groups.append((gpus, switches))
    if len(groups) > 1 and any(len(gpus) > 1 for gpus, _ in groups):
        alone = [each for each in groups if len(each[0]) == 1]
        groups = [each for each in groups if each not in alone]
        if alone:
            builder.tells.discard(FactKind.DEVICE_LINKS)
        builder.report.extend(
            f"the far ends of the {sum(ports[gpu].values())} device links of {gpu} are not"
            " identified: no other device names such a switch, and no link is drawn"
            for gpus, _ in alone
            for gpu in gpus
        )
    names: list[str] = []
    for number, (gpus, _) in enumerate(groups):
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
    groups: Sequence[tuple[set[str], set[str]]],
    ports: Mapping[str, Counter[str]],
    lanes: Mapping[str, k.DeviceLink],
) -> None:
    """Two fabrics of one node are the two boards of a DGX-2, which 48 trunk links join."""
    if len(names) != 2 or any(len(gpus) < 8 for gpus, _ in groups):
        if len(names) > 1:
            builder.report.append(
                f"{len(names)} NVSwitch fabrics do not share a switch: no NVLink between them"
            )
        return
    gpus = groups[0][0]
    first = next(iter(gpus))
    count = sum(sum(ports[gpu].values()) for gpu in gpus)
    builder.report.append(
        "two NVSwitch boards: assumed to be joined at full bisection, as in DGX-2"
    )
    builder.link(
        lanes[first].kind,
        *names,
        bytes_per_s=lanes[first].data_sheet * count,
        latency_s=k.LATENCY_NVSWITCH_PORT,
        count=count,
        name="board to board",
    )
