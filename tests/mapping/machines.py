"""Small machines for the mapping tests."""

import dataclasses
from itertools import product

import numpy as np

from toposeat.model.quantity import Premise, Quantity, nominal
from toposeat.model.route import CurvePoint, RouteCurve
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    FactKind,
    Link,
    LinkKind,
    Route,
    Topology,
)
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.topology.graph.graph_builder import GraphBuilder


def traffic_of(matrix, messages=None):
    return traffic_of_table(len(matrix), PairTable.from_dense(matrix, messages))


def traffic_of_pairs(ranks, source, target, nbytes):
    """One message from each source to its target."""
    nbytes = np.broadcast_to(nbytes, len(source))
    ones = np.ones(len(source), np.int64)
    return traffic_of_table(ranks, PairTable.from_pairs(source, target, nbytes, ones))


def traffic_of_table(ranks, table):
    key = (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE)
    return Traffic(ranks=ranks, origin="test", tables={key: table})


def tree_topology(arities, shared, caps=None):
    """A regular tree; the uplink of a level-l block carries `shared[l]`, both directions together.

    `arities` go from the leaves up; with `caps`, a pair whose lowest common ancestor is at level l
    has a flow limit of `caps[l]`. The two blocks below the root of a machine with as many shared
    values as arities are joined by one link, as two sockets are.
    """
    devices = int(np.prod(arities))
    sizes = [int(np.prod(arities[:level])) for level in range(len(arities) + 1)]
    links = {}
    components = {}

    def vertex(device, level):
        if level == 0:
            return f"d{device}"
        name = f"s{level}.{device // sizes[level]}"
        components[name] = Component(id=name, kind=ComponentKind.SWITCH)
        return name

    def link(low, high, level):
        name = f"L{level}:{low}-{high}"
        links[name] = Link(
            id=name,
            kind=LinkKind.PCIE if level < len(arities) - 1 else LinkKind.SMP,
            ends=(low, high),
            forward_bytes_per_s=nominal(shared[level]),
            backward_bytes_per_s=nominal(shared[level]),
            combined_bytes_per_s=nominal(shared[level]),
            latency_s=nominal(0.0),
        )
        return name

    routes = []
    top = len(arities) - 1
    for a in range(devices):
        for b in range(devices):
            if a == b:
                continue
            meet = next(lv for lv in range(1, len(sizes)) if a // sizes[lv] == b // sizes[lv])
            climb = min(meet, top)
            up = [link(vertex(a, lv), vertex(a, lv + 1), lv) for lv in range(climb)]
            down = [link(vertex(b, lv), vertex(b, lv + 1), lv) for lv in range(climb)]
            across = []
            if meet > top:
                ends = sorted([vertex(a, top), vertex(b, top)])
                across = [link(ends[0], ends[1], top)]
            routes.append(
                Route(
                    source=f"d{a}",
                    target=f"d{b}",
                    links=(*up, *across, *reversed(down)),
                    cap_bytes_per_s=nominal(caps[meet - 1]) if caps else None,
                )
            )
    return Topology(
        name="tree",
        origin="test",
        devices=tuple(Device(id=f"d{i}", index=i) for i in range(devices)),
        components=tuple(components.values()),
        links=tuple(links.values()),
        routes=tuple(routes),
    )


def random_topology(rng, devices):
    """Devices around a few switches, with direct links, asymmetric capacities and pair caps."""
    hubs = [Component(id=f"s{i}", kind=ComponentKind.SWITCH) for i in range(3)]
    links = {}

    def link(a, b):
        low, high = sorted((a, b))
        name = f"{low}-{high}"
        if name not in links:
            forward, backward = (float(rng.integers(1, 9)) * 1e9 for _ in range(2))
            both = float(rng.integers(1, 12)) * 1e9
            links[name] = Link(
                id=name,
                kind=LinkKind.PCIE,
                ends=(low, high),
                forward_bytes_per_s=nominal(forward),
                backward_bytes_per_s=nominal(backward),
                combined_bytes_per_s=nominal(both) if rng.random() < 0.5 else None,
                latency_s=nominal(float(rng.integers(1, 4)) * 1e-6),
            )
        return name

    home = rng.integers(0, 3, devices)
    routes = []
    for a in range(devices):
        for b in range(devices):
            if a == b:
                continue
            if (a * b + a + b) % 3 == 0:
                path = [link(f"d{a}", f"d{b}")]
            else:
                path = [link(f"d{a}", f"s{home[a]}")]
                if home[a] != home[b]:
                    path.append(link(f"s{home[a]}", f"s{home[b]}"))
                path.append(link(f"s{home[b]}", f"d{b}"))
            cap = nominal(float(rng.integers(1, 9)) * 1e9) if rng.random() < 0.4 else None
            routes.append(
                Route(source=f"d{a}", target=f"d{b}", links=tuple(path), cap_bytes_per_s=cap)
            )
    return Topology(
        name="random",
        origin="test",
        devices=tuple(Device(id=f"d{i}", index=i) for i in range(devices)),
        components=tuple(hubs),
        links=tuple(links.values()),
        routes=tuple(routes),
    )


def random_traffic(rng, ranks, density):
    matrix = rng.integers(1, 100, (ranks, ranks)) * 10_000 * (rng.random((ranks, ranks)) < density)
    np.fill_diagonal(matrix, 0)
    return traffic_of(matrix.astype(np.int64))


def complete_mesh(rng, devices):
    """A link of its own for every pair, all of different capacity: no tree and no symmetry."""
    links = {
        (a, b): Link(
            id=f"{a}-{b}",
            kind=LinkKind.NVLINK,
            ends=(f"d{a}", f"d{b}"),
            forward_bytes_per_s=nominal(float(rng.integers(1, 9)) * 1e9),
            backward_bytes_per_s=nominal(float(rng.integers(1, 9)) * 1e9),
            latency_s=nominal(1e-6),
        )
        for a in range(devices)
        for b in range(a + 1, devices)
    }
    return Topology(
        name="mesh",
        origin="test",
        devices=tuple(Device(id=f"d{i}", index=i) for i in range(devices)),
        links=tuple(links.values()),
        routes=tuple(
            Route(source=f"d{a}", target=f"d{b}", links=(links[min(a, b), max(a, b)].id,))
            for a in range(devices)
            for b in range(devices)
            if a != b
        ),
    )


def measured_topology(rng, devices):
    """A random machine of which some pairs and devices have numbers of their own.

    Limits of both directions together, latencies, curves by message size, copies within a device.
    """
    machine = random_topology(rng, devices)
    routes = []
    for route in machine.routes:
        limit, latency = float(rng.integers(1, 12)) * 1e9, float(rng.integers(1, 9)) * 1e-6
        small, large = (float(rate) * 1e9 for rate in rng.integers(1, 12, 2))
        curve = RouteCurve(
            points=(
                CurvePoint(message_bytes=4096, latency_s=latency, bytes_per_s=small),
                CurvePoint(message_bytes=65536, latency_s=2 * latency, bytes_per_s=large),
            )
        )
        routes.append(
            dataclasses.replace(
                route,
                combined_bytes_per_s=nominal(limit) if rng.random() < 0.3 else None,
                latency_s=nominal(latency) if rng.random() < 0.3 else None,
                curve=curve if rng.random() < 0.3 else None,
            )
        )
    copies = [
        dataclasses.replace(
            device,
            copy_bytes_per_s=nominal(float(rng.integers(5, 40)) * 1e9),
            copy_latency_s=nominal(float(rng.integers(0, 5)) * 1e-6),
        )
        if rng.random() < 0.7
        else device
        for device in machine.devices
    ]
    return dataclasses.replace(machine, routes=tuple(routes), devices=tuple(copies))


def moved(quantity, factors):
    """A number on the machine whose premises are so many times their nominal value."""
    if quantity is None:
        return None
    factor = float(np.prod([factors.get(what, 1.0) for what in quantity.premises]))
    return Quantity(quantity.value * factor)


def machine_at(machine, factors):
    """The topology written anew with other numbers: nothing of `evaluation.scenarios` is used."""
    return dataclasses.replace(
        machine,
        links=tuple(
            dataclasses.replace(
                link,
                forward_bytes_per_s=moved(link.forward_bytes_per_s, factors),
                backward_bytes_per_s=moved(link.backward_bytes_per_s, factors),
                combined_bytes_per_s=moved(link.combined_bytes_per_s, factors),
            )
            for link in machine.links
        ),
        routes=tuple(
            dataclasses.replace(
                route,
                cap_bytes_per_s=moved(route.cap_bytes_per_s, factors),
                combined_bytes_per_s=moved(route.combined_bytes_per_s, factors),
                ring_bytes_per_s=moved(route.ring_bytes_per_s, factors),
            )
            for route in machine.routes
        ),
        premises=(),
    )


def corners_of(machine):
    ends = [[(p.what, p.low / p.nominal), (p.what, p.high / p.nominal)] for p in machine.premises]
    return [dict(corner) for corner in product(*ends)]


def ends_of(machine):
    """Each premise alone at each of its ends."""
    return [{p.what: end / p.nominal} for p in machine.premises for end in (p.low, p.high)]


def two_islands(across, low):
    """Four devices; the default order is a ring of 20 GB/s links, two more links are assumed."""
    builder = GraphBuilder(flows_fill_links=True, tells=set(FactKind))
    builder.devices += [Device(id=f"gpu{i}", index=i) for i in range(4)]
    premise = Premise(
        what="across", low=low * 30, nominal=30, high=30, unit="GB/s", source="made up."
    )
    for a, b in ((0, 1), (2, 3)):
        builder.link(LinkKind.NVLINK, f"gpu{a}", f"gpu{b}", bytes_per_s=30e9, latency_s=1e-6)
    for a, b in ((1, 2), (3, 0)):
        builder.link(LinkKind.NVLINK, f"gpu{a}", f"gpu{b}", bytes_per_s=20e9, latency_s=1e-6)
    for a, b in ((0, 2), (1, 3)):
        rate = builder.assume(across, premise)
        builder.link(LinkKind.NVLINK, f"gpu{a}", f"gpu{b}", bytes_per_s=rate, latency_s=1e-6)
    return builder.build(name="two islands", origin="test")
