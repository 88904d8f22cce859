"""Renames the ids of a topology, to join sources and to name the parts of a merged machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from toposeat.model.topology import Link, Topology


def renamed(topology: Topology, id_of: Mapping[str, str]) -> Topology:
    """The topology with the ids of devices and NICs that `id_of` gives; routes are left out."""

    def name(id: str) -> str:
        return id_of.get(id, id)

    own = tuple(device.id for device in topology.devices)
    return replace(
        topology,
        devices=tuple(replace(each, id=name(each.id)) for each in topology.devices),
        nics=tuple(replace(each, id=name(each.id)) for each in topology.nics),
        links=tuple(
            with_ends(each, name(each.ends[0]), name(each.ends[1])) for each in topology.links
        ),
        pairs=tuple(
            replace(each, source=name(each.source), target=name(each.target))
            for each in topology.pairs
        ),
        routes=(),
        numbers=tuple(
            replace(each, devices=tuple(map(name, each.devices or own)))
            for each in topology.numbers
        ),
        host_copies=tuple(replace(each, device=name(each.device)) for each in topology.host_copies),
        lanes=tuple(replace(each, device=name(each.device)) for each in topology.lanes),
    )


def with_ends(link: Link, a: str, b: str) -> Link:
    """A link between other vertices; its id follows them, as in `GraphBuilder`."""
    if (a, b) == link.ends:
        return link
    _, mark, number = link.id.partition("#")  # of links between the same two
    return replace(link, id=f"{link.kind.value}:{a}-{b}{mark}{number}", ends=(a, b))
