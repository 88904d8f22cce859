"""The processor that one source tells alone (lscpu), in the machine that others tell.

Its memory nodes, sockets, cores and caches are components of a part without devices. Cells of
tables and graphs without cores are completed by it; nodes of one socket are joined on its die.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from toposeat.model.cpu_list import cpus_of
from toposeat.model.graph import neighbours, shortest
from toposeat.model.quantity import joined
from toposeat.model.topology import Component, ComponentKind, Device, Link, LinkKind, Topology
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.rates import NODES_PER_SOCKET
from toposeat.topology.graph.routes import with_routes
from toposeat.topology.merging.join import with_ends
from toposeat.topology.premises import scaled


def layout_of(parts: Sequence[Topology]) -> tuple[Component, ...]:
    """The components of the first part that tells a processor and no device."""
    return next((part.components for part in parts if not part.devices and part.components), ())


def with_nodes(machine: Topology, layout: Sequence[Component]) -> Topology:
    """A machine whose devices have the memory node of their CPUs, or the CPUs of their node."""
    nodes = {c.numa_node: c.cpus for c in layout if c.kind is ComponentKind.NUMA and c.cpus}

    def placed(device: Device) -> Device:
        if device.cpus is None:
            return replace(device, cpus=nodes.get(device.numa_node))
        near = cpus_of(device.cpus)
        own = [node for node, cpus in nodes.items() if near <= cpus_of(cpus)]
        is_found = device.numa_node is None and len(own) == 1
        return replace(device, numa_node=own[0]) if is_found else device

    return replace(machine, devices=tuple(map(placed, machine.devices)))


def place_bridges(builder: GraphBuilder) -> None:
    """Put host bridges whose memory node their source did not tell where their devices are."""
    nodes = {c.numa_node: c.id for c in builder.components if c.kind is ComponentKind.NUMA}
    untold = nodes.pop(None, "")
    fabric = [x for x in builder.links if untold in x.ends and x.kind is LinkKind.PCIE]
    for link in fabric:
        below = _devices_below(builder, link, untold)
        told = {device.numa_node: device.cpus for device in below}
        if len(told) != 1 or None in told:
            continue
        ((node, cpus),) = told.items()
        if node not in nodes:
            id = builder.component(ComponentKind.NUMA, f"numa-{node}", numa_node=node, cpus=cpus)
            for other in (*nodes.values(), untold):
                builder.sockets(id, other)
            nodes[node] = id
        a, b = (nodes[node] if end == untold else end for end in link.ends)
        builder.links[builder.links.index(link)] = with_ends(link, a, b)
    if fabric and not any(untold in x.ends for x in builder.links if x.kind is LinkKind.PCIE):
        builder.links = [link for link in builder.links if untold not in link.ends]
        builder.components = [each for each in builder.components if each.id != untold]
        builder.report = [line for line in builder.report if "NUMA node of" not in line]


def _devices_below(builder: GraphBuilder, link: Link, node: str) -> list[Device]:
    """The devices that a link of a memory node leads to over PCIe."""
    near = neighbours(x.ends for x in builder.links if x.kind is LinkKind.PCIE)
    below = shortest({*link.ends} - {node}, near, passes=lambda id: id != node)
    return [device for device in builder.devices if device.id in below]


def lay_out(builder: GraphBuilder, layout: Sequence[Component]) -> None:
    """Give the memory nodes of a graph what is told of them, and join those of a socket."""
    told = {c.numa_node: c for c in layout if c.kind is ComponentKind.NUMA}
    for at, component in enumerate(builder.components):
        known = told.get(component.numa_node)
        if component.kind is ComponentKind.NUMA and known is not None:
            builder.components[at] = replace(
                component,
                cpus=component.cpus or known.cpus,
                cores=component.cores or known.cores,
                caches=component.caches or known.caches,
            )
    nodes = nodes_as_sockets(builder.components, builder.links)
    packages = [c for c in layout if c.kind is ComponentKind.PACKAGE]
    if not nodes or not packages:
        return
    socket_of = {
        c.numa_node: number
        for number, socket in enumerate(packages)
        for c in told.values()
        if cpus_of(c.cpus) <= cpus_of(socket.cpus)
    }
    _join(builder, {id: socket_of.get(node, id) for id, node in nodes.items()})
    builder.metadata[NODES_PER_SOCKET] = str(len(told) // len(packages))


def nodes_as_sockets(
    components: Iterable[Component], links: Iterable[Link]
) -> dict[str, int | None]:
    """Ids and numbers of memory nodes that are joined as if each were a socket; {}: it is told."""
    nodes = {c.id: c.numa_node for c in components if c.kind is ComponentKind.NUMA}
    between = _between(links, nodes)
    drawn = {c.kind for c in components}
    is_told = not all(link.forward_bytes_per_s.premises for link in between)
    return {} if ComponentKind.PACKAGE in drawn or is_told or not between else nodes


def with_nodes_per_socket(topology: Topology, count: int) -> Topology:
    """The machine where each socket has so many memory nodes, in the order of their numbers."""
    nodes = nodes_as_sockets(topology.components, topology.links)
    builder = GraphBuilder(host=topology.hosts[0])
    builder.components += topology.components
    builder.links += topology.links
    _join(builder, {id: id if at is None else at // count for id, at in nodes.items()})
    return with_routes(
        replace(
            topology,
            components=tuple(builder.components),
            links=tuple(builder.links),
            premises=joined([*topology.premises, *builder.premises]),
            metadata={**topology.metadata, NODES_PER_SOCKET: str(count)},
        )
    )


def _between(links: Iterable[Link], nodes: Container[str]) -> list[Link]:
    return [x for x in links if x.kind is LinkKind.SMP and all(end in nodes for end in x.ends)]


def _join(builder: GraphBuilder, socket_of: Mapping[str, int | str]) -> None:
    """Join the memory nodes of a socket on its die, where any has several."""
    sockets: dict[int | str, list[str]] = {}
    for id, socket in socket_of.items():
        sockets.setdefault(socket, []).append(id)
    if any(len(members) > 1 for members in sockets.values()):
        between = _between(builder.links, socket_of)
        builder.links = [link for link in builder.links if link not in between]
        widest = max((x.forward_bytes_per_s for x in builder.links), key=lambda rate: rate.value)
        builder.join_nodes(sockets, die_bytes_per_s=scaled(widest, 2))
        builder.report = [line for line in builder.report if "NUMA nodes are joined" not in line]
