"""Machines written link by link, independent of the catalogue."""

from collections.abc import Callable, Sequence
from typing import Any

from toposeat.model.quantity import nominal
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    Link,
    LinkKind,
    PathClass,
    Route,
    Topology,
)

FAR_MORE = 1e30  # a direction that never limits


def device(number):
    return Device(id=f"g{number}", index=number)


def link(name, ends, forward, backward=None, *, combined=None, latency=0.0, kind=LinkKind.PCIE):
    return Link(
        id=name,
        kind=kind,
        ends=ends,
        forward_bytes_per_s=nominal(forward),
        backward_bytes_per_s=nominal(forward if backward is None else backward),
        combined_bytes_per_s=None if combined is None else nominal(combined),
        latency_s=nominal(latency),
    )


# Bandwidth of a single flow by level, relative to level 0 (Faraji et al., section 5.1.1).
RATIOS = (1.0, 2.47, 4.22, 4.47)


def paper_tree():
    """The 16-GPU node of Faraji et al. as their congestion figures see it.

    GPU -[L0]- board switch -[L1]- PCIe switch -[L2]- root complex -[L3]- root complex, with the
    bandwidth of L3 as the unit and both directions of every link summed.
    """
    combined = [RATIOS[3] / ratio for ratio in RATIOS]
    return _tree("paper", lambda level: {"forward": FAR_MORE, "combined": combined[level]})


def mixed_tree(*, bandwidth, latency):
    """The same node as the link model that reproduces the paper's times has it: full duplex.

    Shared capacity of level l is share_l x bandwidth / ratio_l with shares 1, 1, 2, 4.47, and a
    pair of level l has the cap bandwidth / ratio_l. All routes have the one latency.
    """
    shares = (1.0, 1.0, 2.0, 4.47)
    return _tree(
        "mixed",
        lambda level: {
            "forward": shares[level] * bandwidth / RATIOS[level],
            "latency": latency / 2 if level == 0 else 0.0,
        },
        caps=[bandwidth / ratio for ratio in RATIOS],
    )


def _tree(
    name: str,
    numbers: Callable[[int], dict[str, Any]],  # arguments of `link`
    caps: Sequence[float] | None = None,
) -> Topology:
    parts = (
        ("board", ComponentKind.SWITCH),
        ("switch", ComponentKind.SWITCH),
        ("root", ComponentKind.HOST_BRIDGE),
    )
    links, components, lower = [], [], "g"
    for level, (upper, kind) in enumerate(parts):
        count = 16 >> level
        components += [Component(id=f"{upper}{i}", kind=kind) for i in range(count // 2)]
        links += [
            link(f"L{level}-{i}", (f"{lower}{i}", f"{upper}{i // 2}"), **numbers(level))
            for i in range(count)
        ]
        lower = upper
    links.append(link("L3-0", ("root0", "root1"), **numbers(3), kind=LinkKind.SMP))
    return Topology(
        name=name,
        origin="test",
        devices=tuple(device(i) for i in range(16)),
        components=tuple(components),
        links=tuple(links),
        routes=tuple(_tree_route(i, j, caps) for i in range(16) for j in range(16) if i != j),
    )


def _tree_route(source, target, caps):
    up, down, level = [], [], 0
    here, there = source, target
    while here != there and level < 3:
        up.append(f"L{level}-{here}")
        down.append(f"L{level}-{there}")
        here, there, level = here // 2, there // 2, level + 1
    top = ["L3-0"] if here != there else []
    crossed = level - 1 + len(top)
    return Route(
        source=f"g{source}",
        target=f"g{target}",
        links=(*up, *top, *reversed(down)),
        path_class=(PathClass.PIX, PathClass.PXB, PathClass.PHB, PathClass.SYS)[crossed],
        cap_bytes_per_s=None if caps is None else nominal(caps[crossed]),
    )


def two_switches(*, uplink, combined=None, far_cap=None, latency, uplink_latency=None, unit=1):
    """Devices 0, 1 on switch s and 2, 3 on switch t, ports of 100 bytes/s, one uplink s - t.

    `latency` is that of a near pair; the uplink adds its own (the same if not given). `unit`
    multiplies all bandwidths.
    """
    links = [
        link(f"p{i}", (f"g{i}", "s" if i < 2 else "t"), 100 * unit, latency=latency / 2)
        for i in range(4)
    ]
    links.append(
        link(
            "up",
            ("s", "t"),
            uplink * unit,
            combined=None if combined is None else combined * unit,
            latency=latency if uplink_latency is None else uplink_latency,
            kind=LinkKind.SMP,
        )
    )
    return Topology(
        name="two switches",
        origin="test",
        devices=tuple(device(i) for i in range(4)),
        components=tuple(Component(id=name, kind=ComponentKind.SWITCH) for name in "st"),
        links=tuple(links),
        routes=tuple(
            _near(i, j) if i // 2 == j // 2 else _far(i, j, far_cap, unit)
            for i in range(4)
            for j in range(4)
            if i != j
        ),
    )


def _near(i, j):
    return Route(source=f"g{i}", target=f"g{j}", links=(f"p{i}", f"p{j}"), path_class=PathClass.PIX)


def _far(i, j, cap, unit):
    return Route(
        source=f"g{i}",
        target=f"g{j}",
        links=(f"p{i}", "up", f"p{j}"),
        path_class=PathClass.SYS,
        cap_bytes_per_s=None if cap is None else nominal(cap * unit),
    )


def congestion_of_level(loads, level):
    """The highest congestion of the links `L<level>-*` of `paper_tree`."""
    return max(seconds for name, seconds in loads if name.startswith(f"L{level}-"))
