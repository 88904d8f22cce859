"""The nvidia-smi word for a way through a machine, from what it passes through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toposeat.model.topology import ComponentKind, Link, LinkKind, PathClass

DEVICE_LINKS = frozenset({LinkKind.NVLINK, LinkKind.XGMI, LinkKind.XELINK})


def class_of_route(
    source: str, links: Sequence[Link], kinds: Mapping[str, ComponentKind]
) -> PathClass:
    """The class of a way from a source over links; `kinds` are those of components by id."""
    used = {link.kind for link in links}
    if LinkKind.NETWORK in used:
        return PathClass.NET
    if LinkKind.SMP in used:
        return PathClass.SYS
    if not kinds and used <= DEVICE_LINKS:  # a ring of 256 has 4 million steps to walk
        return PathClass.NVL
    walk = [source]
    for link in links:
        walk.append(link.ends[1] if walk[-1] == link.ends[0] else link.ends[0])
    passed = [kinds[v] for v in walk[1:-1] if v in kinds]
    relays = len(walk) - 2 - len(passed)  # devices that forward
    if used <= DEVICE_LINKS and not set(passed) - {ComponentKind.NVSWITCH}:
        return PathClass.NVL
    if used <= {LinkKind.C2C}:
        return PathClass.C2C
    return _class_inside_numa_node(passed, relays)


def _class_inside_numa_node(passed: Sequence[ComponentKind], relays: int) -> PathClass:
    bridges = passed.count(ComponentKind.HOST_BRIDGE)
    if bridges > 1:
        return PathClass.NODE
    if bridges == 1 or ComponentKind.NUMA in passed or ComponentKind.PACKAGE in passed:
        return PathClass.PHB
    near = passed.count(ComponentKind.SWITCH) <= 1 and not relays
    return PathClass.PIX if near else PathClass.PXB
