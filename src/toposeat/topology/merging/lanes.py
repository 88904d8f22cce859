"""States of single lanes, as a driver reports them, onto the bonds that are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toposeat.model.quantity import Quantity, Source, nominal
from toposeat.model.topology import Link
from toposeat.topology.facts import LaneState
from toposeat.topology.graph.routes import DEVICE_LINKS
from toposeat.topology.merging.draft import Draft


def apply_lane_states(draft: Draft, origin: str, lanes: Sequence[LaneState]) -> None:
    """Rates and inactive lanes, as the driver states them, onto the bonds that are drawn.

    A bond with more lanes than its ends have active ones loses lanes where that can only be this
    bond; else the report says that more are drawn than there are.

    Args:
        draft: with its bonds.
        origin: of the states.
        lanes: by position of the draft's devices.
    """
    active: dict[str, int] = {}
    rates: dict[str, set[float]] = {}
    for place, device in enumerate(draft.devices):
        mine = [lane for lane in lanes if lane.device == place]
        if not mine:
            continue
        up = [lane.bytes_per_s for lane in mine if lane.bytes_per_s is not None]
        draft.devices[place] = replace(device, inactive_lanes=len(mine) - len(up))
        active[device.id] = len(up)
        rates[device.id] = set(up)
    before = {id: draft.links[id] for id in draft.links}
    _lower_bonds(draft, origin, _whole(draft, active))
    _keep_flow_fractions(draft, before)
    for id, found in rates.items():
        drawn = sum(link.count for link in _bonds(draft, id))
        if drawn and drawn != active[id]:
            draft.report.append(
                f"{origin}: {id} has {active[id]} active device links, but {drawn} are drawn"
            )
        if len(found) == 1:
            rate = next(iter(found))
            for link in _bonds(draft, id):
                _set_rate(draft, link, nominal(rate * link.count))


def _whole(draft: Draft, active: Mapping[str, int]) -> dict[str, int]:
    """Active lanes of the devices of which as many lanes are told as are drawn."""
    inactive = {device.id: device.inactive_lanes or 0 for device in draft.devices}
    return {
        id: lanes
        for id, lanes in active.items()
        if lanes + inactive[id] >= sum(link.count for link in _bonds(draft, id))
    }


def _bonds(draft: Draft, device: str) -> list[Link]:
    """A device's bonds whose numbers nobody measured: measured ones are better than states."""
    return [
        link
        for link in draft.links.values()
        if device in link.ends
        and link.kind in DEVICE_LINKS
        and link.forward_bytes_per_s.source is Source.NOMINAL
    ]


def _set_rate(draft: Draft, link: Link, rate: Quantity) -> None:
    draft.links[link.id] = replace(link, forward_bytes_per_s=rate, backward_bytes_per_s=rate)


def _lower_bonds(draft: Draft, origin: str, active: Mapping[str, int]) -> None:
    """Take lanes from bonds, as long as some device has only one that they can be missing in."""
    lowered = True
    while lowered:
        lowered = False
        for device, lanes in active.items():
            surplus = sum(link.count for link in _bonds(draft, device)) - lanes
            where = [link for link in _bonds(draft, device) if _may_lack(draft, link, active)]
            if surplus <= 0 or len(where) != 1:
                continue
            (bond,) = where
            taken = min(surplus, bond.count - 1, *_surpluses(draft, bond, active))
            if taken > 0:
                _lower(draft, origin, bond, bond.count - taken)
                lowered = True


def _may_lack(draft: Draft, bond: Link, active: Mapping[str, int]) -> bool:
    """Whether every device at its ends is known to have too many lanes drawn."""
    devices = {device.id for device in draft.devices}.intersection(bond.ends)
    surpluses = _surpluses(draft, bond, active)
    return bond.count > 1 and len(surpluses) == len(devices) and all(s > 0 for s in surpluses)


def _surpluses(draft: Draft, bond: Link, active: Mapping[str, int]) -> list[int]:
    return [
        sum(link.count for link in _bonds(draft, end)) - active[end]
        for end in bond.ends
        if end in active
    ]


def _lower(draft: Draft, origin: str, bond: Link, count: int) -> None:
    share = count / bond.count
    draft.links[bond.id] = replace(
        bond,
        count=count,
        forward_bytes_per_s=nominal(bond.forward_bytes_per_s.value * share),
        backward_bytes_per_s=nominal(bond.backward_bytes_per_s.value * share),
    )
    draft.report.append(
        f"{origin}: {' - '.join(bond.ends)} has {count} active lanes, not {bond.count}: drawn so"
    )


def _keep_flow_fractions(draft: Draft, before: Mapping[str, Link]) -> None:
    """Nominal caps of routes whose narrowest link changed, in proportion to it."""
    for pair, route in draft.routes.items():
        cap = route.cap_bytes_per_s
        if cap is None or cap.source is not Source.NOMINAL or not route.links:
            continue
        was = min(_least(before[id]) for id in route.links)
        now = min(_least(draft.links[id]) for id in route.links)
        if now < was:
            draft.routes[pair] = replace(route, cap_bytes_per_s=nominal(cap.value * now / was))


def _least(link: Link) -> float:
    return min(link.forward_bytes_per_s.value, link.backward_bytes_per_s.value)
