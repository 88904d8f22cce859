"""Machines written link by link, independent of the catalogue."""

from __future__ import annotations

from collections.abc import Sequence

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


def device(number: int) -> Device:
    return Device(id=f"g{number}", index=number)


def link(
    name: str,
    ends: tuple[str, str],
    forward: float,
    backward: float | None = None,
    *,
    combined: float | None = None,
    latency: float = 0.0,
    kind: LinkKind = LinkKind.PCIE,
) -> Link:
    return Link(
        id=name,
        kind=kind,
        ends=ends,
        forward_bytes_per_s=nominal(forward),
        backward_bytes_per_s=nominal(forward if backward is None else backward),
        combined_bytes_per_s=None if combined is None else nominal(combined),
        latency_s=nominal(latency),
    )


def paper_tree() -> Topology:
    """The 16-GPU node of Faraji et al. as their congestion figures see it.

    GPU -[L0]- board switch -[L1]- PCIe switch -[L2]- root complex -[L3]- root complex, with the
    bandwidth of L3 as the unit and both directions of every link summed.
    """
    bandwidth = (4.47, 4.47 / 2.47, 4.47 / 4.22, 1.0)
    links, components = [], []
    for level, (width, kind, name) in enumerate(
        (
            (2, ComponentKind.SWITCH, "board"),
            (4, ComponentKind.SWITCH, "switch"),
            (8, ComponentKind.HOST_BRIDGE, "root"),
        )
    ):
        lower = "g" if level == 0 else ("board", "switch")[level - 1]
        components += [Component(id=f"{name}{i}", kind=kind) for i in range(16 // width)]
        links += [
            link(
                f"L{level}-{i}",
                (f"{lower}{i}", f"{name}{i // 2}"),
                FAR_MORE,
                combined=bandwidth[level],
            )
            for i in range(16 * 2 // width)
        ]
    links.append(
        link("L3-0", ("root0", "root1"), FAR_MORE, combined=bandwidth[3], kind=LinkKind.SMP)
    )
    return Topology(
        name="paper",
        origin="test",
        devices=tuple(device(i) for i in range(16)),
        components=tuple(components),
        links=tuple(links),
        routes=tuple(_tree_route(i, j) for i in range(16) for j in range(16) if i != j),
    )


def _tree_route(source: int, target: int) -> Route:
    up, down, level = [], [], 0
    here, there = source, target
    while here != there and level < 3:
        up.append(f"L{level}-{here}")
        down.append(f"L{level}-{there}")
        here, there, level = here // 2, there // 2, level + 1
    top = ["L3-0"] if here != there else []
    return Route(
        source=f"g{source}",
        target=f"g{target}",
        links=(*up, *top, *reversed(down)),
        path_class=(PathClass.PIX, PathClass.PXB, PathClass.PHB, PathClass.SYS)[
            level - 1 + bool(top)
        ],
    )


def two_switches(
    *, uplink: float, combined: float | None = None, far_cap: float | None = None, latency: float
) -> Topology:
    """Devices 0, 1 on switch s and 2, 3 on switch t, ports of 100 bytes/s, one uplink s - t."""
    links = [
        link(f"p{i}", (f"g{i}", "s" if i < 2 else "t"), 100, latency=latency / 2) for i in range(4)
    ]
    links.append(
        link("up", ("s", "t"), uplink, combined=combined, latency=latency, kind=LinkKind.SMP)
    )
    return Topology(
        name="two switches",
        origin="test",
        devices=tuple(device(i) for i in range(4)),
        components=(
            Component(id="s", kind=ComponentKind.SWITCH),
            Component(id="t", kind=ComponentKind.SWITCH),
        ),
        links=tuple(links),
        routes=tuple(
            Route(
                source=f"g{i}",
                target=f"g{j}",
                links=(f"p{i}", f"p{j}") if i // 2 == j // 2 else (f"p{i}", "up", f"p{j}"),
                path_class=PathClass.PIX if i // 2 == j // 2 else PathClass.SYS,
                cap_bytes_per_s=nominal(far_cap)
                if far_cap is not None and i // 2 != j // 2
                else None,
            )
            for i in range(4)
            for j in range(4)
            if i != j
        ),
    )


def congestion_of_level(loads: Sequence[tuple[str, float]], level: int) -> float:
    """The highest congestion of the links `L<level>-*` of `paper_tree`."""
    return max(seconds for name, seconds in loads if name.startswith(f"L{level}-"))
