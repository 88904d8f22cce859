"""Applies the states of single lanes, as a driver reports them, to the bonds of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toposeat.model.quantity import Quantity, nominal
from toposeat.model.topology import LaneState, Link
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.routes import DEVICE_LINKS


def apply_lane_states(builder: GraphBuilder, origin: str, lanes: Sequence[LaneState]) -> None:
    """Apply the rates and inactive lanes that a driver states to the bonds of the graph.

    A bond with more lanes than its ends have active ones loses lanes where that can only be this
    bond; else the report says that more are drawn than there are.

    Args:
        builder: with its bonds.
        origin: of the states.
        lanes: of its devices.
    """
    active: dict[str, int] = {}
    rates: dict[str, set[float]] = {}
    for place, device in enumerate(builder.devices):
        mine = [lane for lane in lanes if lane.device == device.id]
        if not mine:
            continue
        up = [lane.bytes_per_s for lane in mine if lane.bytes_per_s is not None]
        builder.devices[place] = replace(
            device,
            inactive_lanes=len(mine) - len(up),
            told_by={**(device.told_by or {}), "inactive_lanes": origin},
        )
        active[device.id] = len(up)
        rates[device.id] = set(up)
    _lower_bonds(builder, origin, _whole(builder, active))
    for id, found in rates.items():
        drawn = sum(link.count for link in _bonds(builder, id))
        if drawn and drawn != active[id]:
            builder.report.append(
                f"{origin}: {id} has {active[id]} active device links, but {drawn} are drawn"
            )
        if len(found) == 1:
            rate = next(iter(found))
            for link in _bonds(builder, id):
                _set_rate(builder, link, nominal(rate * link.count))


def _whole(builder: GraphBuilder, active: Mapping[str, int]) -> dict[str, int]:
    """Active lanes of the devices of which as many lanes are told as are drawn."""
    inactive = {device.id: device.inactive_lanes or 0 for device in builder.devices}
    return {
        id: lanes
        for id, lanes in active.items()
        if lanes + inactive[id] >= sum(link.count for link in _bonds(builder, id))
    }


def _bonds(builder: GraphBuilder, device: str) -> list[Link]:
    """A device's bonds whose numbers nobody measured: measured ones are better than states."""
    return [
        link
        for link in builder.links
        if device in link.ends
        and link.kind in DEVICE_LINKS
        and not link.forward_bytes_per_s.source.is_of_this_machine
    ]


def _set_rate(builder: GraphBuilder, link: Link, rate: Quantity) -> None:
    _put(builder, replace(link, forward_bytes_per_s=rate, backward_bytes_per_s=rate))


def _put(builder: GraphBuilder, link: Link) -> None:
    place = next(i for i, each in enumerate(builder.links) if each.id == link.id)
    builder.links[place] = link


def _lower_bonds(builder: GraphBuilder, origin: str, active: Mapping[str, int]) -> None:
    """Take lanes from bonds while some device has only one bond in which they can be missing."""
    lowered = True
    while lowered:
        lowered = False
        for device, lanes in active.items():
            surplus = sum(link.count for link in _bonds(builder, device)) - lanes
            where = [link for link in _bonds(builder, device) if _may_lack(builder, link, active)]
            if surplus <= 0 or len(where) != 1:
                continue
            (bond,) = where
            taken = min(surplus, bond.count - 1, *_surpluses(builder, bond, active))
            if taken > 0:
                _lower(builder, origin, bond, bond.count - taken)
                lowered = True


def _may_lack(builder: GraphBuilder, bond: Link, active: Mapping[str, int]) -> bool:
    """Whether every device at its ends is known to have too many lanes drawn."""
    devices = {device.id for device in builder.devices}.intersection(bond.ends)
    surpluses = _surpluses(builder, bond, active)
    return bond.count > 1 and len(surpluses) == len(devices) and all(s > 0 for s in surpluses)


def _surpluses(builder: GraphBuilder, bond: Link, active: Mapping[str, int]) -> list[int]:
    return [
        sum(link.count for link in _bonds(builder, end)) - active[end]
        for end in bond.ends
        if end in active
    ]


def _lower(builder: GraphBuilder, origin: str, bond: Link, count: int) -> None:
    share = count / bond.count
    flow = bond.flow_bytes_per_s
    _put(
        builder,
        replace(
            bond,
            count=count,
            forward_bytes_per_s=nominal(bond.forward_bytes_per_s.value * share),
            backward_bytes_per_s=nominal(bond.backward_bytes_per_s.value * share),
            flow_bytes_per_s=None if flow is None else nominal(flow.value * share),
        ),
    )
    builder.report.append(
        f"{origin}: {' - '.join(bond.ends)} has {count} active lanes, not {bond.count}: drawn so"
    )
