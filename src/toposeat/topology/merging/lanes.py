"""Applies the states of single lanes, as a driver reports them, to the bonds of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toposeat.model.quantity import nominal
from toposeat.model.topology import LaneState, Link
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.routes import DEVICE_LINKS


def apply_lane_states(builder: GraphBuilder, origin: str, lanes: Sequence[LaneState]) -> None:
    """Apply the rates and inactive lanes that a driver states to the bonds of the graph.

    A bond with more lanes than its ends have active ones loses lanes where that can only be this
    bond; else the report says that more are drawn than there are.
    """
    active: dict[str, int] = {}
    rates: dict[str, set[float]] = {}
    whole: dict[str, int] = {}  # those of which as many lanes are told as are drawn
    for place, device in enumerate(builder.devices):
        mine = [lane.bytes_per_s for lane in lanes if lane.device == device.id]
        if not mine:
            continue
        rates[device.id] = {rate for rate in mine if rate is not None}
        active[device.id] = sum(rate is not None for rate in mine)
        builder.devices[place] = replace(
            device,
            inactive_lanes=mine.count(None),
            told_by={**(device.told_by or {}), "inactive_lanes": origin},
        )
        if len(mine) >= _drawn(builder, device.id):
            whole[device.id] = active[device.id]
    while _lower_one(builder, origin, whole):
        pass
    for id, found in rates.items():
        drawn = _drawn(builder, id)
        if drawn and drawn != active[id]:
            builder.report.append(
                f"{origin}: {id} has {active[id]} active device links, but {drawn} are drawn"
            )
        if len(found) == 1:
            (rate,) = found
            for link in _bonds(builder, id):
                whole_rate = nominal(rate * link.count)
                _put(
                    builder,
                    replace(link, forward_bytes_per_s=whole_rate, backward_bytes_per_s=whole_rate),
                )


def _drawn(builder: GraphBuilder, device: str) -> int:
    return sum(link.count for link in _bonds(builder, device))


def _bonds(builder: GraphBuilder, device: str) -> list[Link]:
    """A device's bonds whose numbers nobody measured: measured ones are better than states."""
    return [
        link
        for link in builder.links
        if device in link.ends
        and link.kind in DEVICE_LINKS
        and not link.forward_bytes_per_s.source.is_of_this_machine
    ]


def _put(builder: GraphBuilder, link: Link) -> None:
    builder.links = [link if each.id == link.id else each for each in builder.links]


def _lower_one(builder: GraphBuilder, origin: str, active: Mapping[str, int]) -> bool:
    """Take lanes from a bond where some device has only this one in which they can be missing."""
    surplus = {id: _drawn(builder, id) - lanes for id, lanes in active.items()}
    devices = {device.id for device in builder.devices}
    for device, missing in surplus.items():
        where = [
            link
            for link in _bonds(builder, device)
            if link.count > 1
            and all(surplus.get(end, 0) > 0 for end in devices.intersection(link.ends))
        ]
        if missing > 0 and len(where) == 1:
            (bond,) = where
            ends = [surplus[end] for end in bond.ends if end in surplus]
            _lower(builder, origin, bond, bond.count - min(bond.count - 1, *ends))
            return True
    return False


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
