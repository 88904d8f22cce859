"""Checks of devices and NICs one by one: link width, link generation, lanes, partitions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from math import inf

from toposeat.model.health import Finding, Severity
from toposeat.model.topology import PcieState, Topology
from toposeat.topology import products
from toposeat.topology.health.pairs import Pairs, few

_RESEAT = "check slot, riser and bifurcation, reseat the board; a width does not change with load"


def link_width(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Fewer PCIe lanes than device and slot have; a virtual machine may make numbers up."""
    virtual = topology.metadata.get("virtual")
    for name, state in _pcie_states(pairs):
        if state.width is None or state.max_width is None or state.width >= state.max_width:
            continue
        yield Finding(
            severity=Severity.DOUBT if virtual else Severity.FAULT,
            code="pcie-width",
            subject=name,
            detail=f"PCIe link runs with {state.width} of {state.max_width} lanes",
            hint="a virtual machine may show other widths than the host" if virtual else _RESEAT,
        )


def link_generation(_: Topology, pairs: Pairs) -> Iterator[Finding]:
    """A slower PCIe generation than possible: idle devices do that, so it proves nothing."""
    slow: dict[tuple[int, int], list[str]] = defaultdict(list)
    total = 0
    for name, state in _pcie_states(pairs):
        if state.generation is None or state.max_generation is None:
            continue
        total += 1
        if state.generation < state.max_generation:
            slow[state.generation, state.max_generation].append(name)
    for (now, most), names in sorted(slow.items()):
        everyone = len(names) == total and total > 1
        yield Finding(
            severity=Severity.INFO,
            code="pcie-generation",
            subject=few(names),
            detail=f"PCIe link at generation {now} of {most}: may be idle"
            + (", as all are" if everyone else ""),
            hint="look again while something runs on it",
        )


def inactive_lanes(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Device links that are down: a fault where devices of one kind differ in it."""
    by_kind: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for device in topology.devices:
        if device.inactive_lanes is not None:
            by_kind[device.name].append((device.id, device.inactive_lanes))
    for name, members in by_kind.items():
        lane = products.lane_named(name)
        most = inf if lane is None else lane.lanes_per_device  # a drawing may show more
        usual = min(count for _, count in members)
        for id, count in members:
            if not count:
                continue
            odd = count > usual
            total = max(count, min(most, count + pairs.lanes[id]))
            some = pairs.lanes[id] > 0
            yield Finding(
                severity=(
                    Severity.FAULT if odd and some else Severity.DOUBT if some else Severity.INFO
                ),
                code="lanes-inactive",
                subject=pairs.name[id],
                detail=f"{count} of {total} device-link lanes are inactive"
                + (f" (others of its kind: {usual})" if odd else ""),
                hint=(
                    "check bridges and baseboard; nvidia-smi nvlink -e shows errors"
                    if some
                    else "no bridge is fitted, or its links are switched off"
                ),
            )


def unequal_lanes(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Devices of one kind with different numbers of lanes: fewer than most is suspicious."""
    by_kind: dict[str, list[str]] = defaultdict(list)
    for device in topology.devices:
        by_kind[device.name].append(device.id)
    told = {d.id for d in topology.devices if d.inactive_lanes}
    for members in by_kind.values():
        most = max(pairs.lanes[id] for id in members)
        fewer = [id for id in members if pairs.lanes[id] < most and id not in told]
        if not fewer or 2 * len(fewer) >= len(members):
            continue  # as many have fewer as have more: that is how it was built
        counts = sorted({pairs.lanes[id] for id in fewer})
        switched = any(id in pairs.switched for id in members if pairs.lanes[id] == most)
        yield Finding(
            severity=Severity.FAULT if switched else Severity.DOUBT,
            code="lanes-unequal",
            subject=few(pairs.name[id] for id in fewer),
            detail=f"{' or '.join(map(str, counts))} device-link lanes, others of its kind {most}",
            hint="a switch joins its siblings to all others: nvidia-smi nvlink -s, fabric manager"
            if switched
            else "a failed lane, a missing bridge, or a mesh built so: nvidia-smi nvlink -s",
        )


def partitions(topology: Topology, _: Pairs) -> Iterator[Finding]:
    """Devices that are parts of one: they share its PCIe link, MIG slices have no peer access."""
    parts = Counter(d.parent for d in topology.devices if d.parent)
    if not parts:
        return
    mig = any((d.uuid or "").upper().startswith("MIG-") for d in topology.devices)
    yield Finding(
        severity=Severity.INFO,
        code="partitions",
        subject=few(parts),
        detail=f"{sum(parts.values())} devices are parts of {len(parts)} GPUs, whose PCIe links"
        " they share" + ("; a process sees one MIG slice only, without peer access" if mig else ""),
        hint="run with --visibility mask" if mig else "",
    )


def _pcie_states(pairs: Pairs) -> Iterator[tuple[str, PcieState]]:
    """Each physical link once: parts of one GPU share it."""
    seen: set[str] = set()
    for device in pairs.devices:
        if device.pcie is None or (device.parent and device.parent in seen):
            continue
        seen.add(device.parent or "")
        yield pairs.name[device.id], device.pcie
    for nic in pairs.topology.nics:
        if nic.pcie is not None:
            yield nic.name or nic.id, nic.pcie
