"""A node of four GPUs, each with its own link to the host."""

from itertools import permutations

from toposeat.model.quantity import nominal
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    Link,
    LinkKind,
    Route,
    Topology,
)


def node():
    """g0 to g3, whose routes meet at the host."""
    links = tuple(
        Link(
            id=f"l{i}",
            kind=LinkKind.PCIE,
            ends=(f"g{i}", "host"),
            forward_bytes_per_s=nominal(20e9),
            backward_bytes_per_s=nominal(20e9),
            latency_s=nominal(1e-6),
        )
        for i in range(4)
    )
    routes = [
        Route(source=f"g{a}", target=f"g{b}", links=(f"l{a}", f"l{b}"))
        for a, b in permutations(range(4), 2)
    ]
    return Topology(
        name="node",
        origin="test",
        devices=tuple(Device(id=f"g{i}", index=i) for i in range(4)),
        components=(Component(id="host", kind=ComponentKind.NUMA),),
        links=links,
        routes=tuple(routes),
    )
