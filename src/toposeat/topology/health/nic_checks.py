"""Checks of NICs: down, slow, of another network, shared while another idles, throttled, far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toposeat.model.health import Finding, Severity
from toposeat.model.nics import LeftOut, NicChoice, NicFault, choose_nics
from toposeat.model.topology import Device, Nic, PathClass, Topology
from toposeat.topology import constants as k
from toposeat.topology.health.pairs import NEARNESS, Pairs, few, rate_of

_NEAR = frozenset(NEARNESS[: NEARNESS.index(PathClass.NODE) + 1])
_NIC_SHARE = 0.9  # of the ports' rate that PCIe must carry


def nics(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """NICs that ranks do not use, that several GPUs share, that are throttled or far."""
    choice = choose_nics(topology)
    several = len(topology.hosts) > 1
    names = {n.id: f"{n.host}:" * several + (n.name or n.id) for n in topology.nics}
    yield from _left_out(choice.left_out, names)
    for nic in topology.nics:
        yield from _throttled(nic, names)
    yield from _shared(topology, pairs, choice, names)
    yield from _far(topology, pairs, choice, names)


def _left_out(left_out: Mapping[str, LeftOut], names: Mapping[str, str]) -> Iterator[Finding]:
    down = [names[id] for id, left in left_out.items() if left.fault is NicFault.DOWN]
    if down:
        yield Finding(
            severity=Severity.DOUBT,
            code="nic-down",
            subject=few(down),
            detail=f"{len(down)} of {len(names)} NICs have no active port: no rank uses them",
            hint="plug it in, or ask why the port is down: ibstat, ip link",
        )
    for id, left in left_out.items():
        if left.fault is NicFault.SLOW:
            yield Finding(
                severity=Severity.DOUBT,
                code="nic-slow",
                subject=names[id],
                detail=f"{left.why}: no rank uses it",
                hint="check cable, port and split of the switch, unless it is for another network",
            )
        elif left.fault is NicFault.OTHER_NETWORK:
            yield Finding(
                severity=Severity.INFO,
                code="nic-other-network",
                subject=names[id],
                detail=f"taken to be for storage or management ({left.why}): no rank uses it",
            )


def _throttled(nic: Nic, names: Mapping[str, str]) -> Iterator[Finding]:
    state = nic.pcie
    if nic.bytes_per_s is None or state is None or state.generation is None or state.width is None:
        return
    carried = k.pcie_bytes_per_s(state.generation, state.width)
    if carried < _NIC_SHARE * nic.bytes_per_s.value:
        yield Finding(
            severity=Severity.DOUBT,
            code="nic-throttled",
            subject=names[nic.id],
            detail=f"ports of {nic.bytes_per_s.value / 1e9:.3g} GB/s behind a PCIe link of about"
            f" {carried / 1e9:.3g} GB/s (generation {state.generation}, {state.width} lanes)",
            hint="put it into a wider or faster slot",
        )


def _shared(
    topology: Topology, pairs: Pairs, choice: NicChoice, names: Mapping[str, str]
) -> Iterator[Finding]:
    """GPUs that share a NIC while another of their host has none; parts of a GPU count once."""
    users: dict[str, dict[str, str]] = {}
    for device in topology.devices:
        nic = choice.nic_of_device.get(device.id)
        if nic is not None:
            users.setdefault(nic.id, {}).setdefault(device.parent or device.id, device.id)
    for host in topology.hosts:
        of_host = [n for n in topology.nics if n.host == host and n.id not in choice.left_out]
        idle = [names[nic.id] for nic in of_host if nic.id not in users]
        busiest = max(of_host, key=lambda nic: len(users.get(nic.id, ())), default=None)
        sharing = users.get(busiest.id, {}) if busiest is not None else {}
        if busiest is None or len(sharing) < 2 or not idle:
            continue
        rate = busiest.bytes_per_s
        share = f" ({rate.value / len(sharing) / 1e9:.3g} GB/s each)" if rate is not None else ""
        yield Finding(
            severity=Severity.DOUBT,
            code="nic-shared",
            subject=few(pairs.name[id] for id in sharing.values()),
            detail=f"{len(sharing)} GPUs share {names[busiest.id]}{share}; nearest to none:"
            f" {few(idle)}",
            hint="move a NIC to a slot near GPUs that share one",
        )


def _far(
    topology: Topology, pairs: Pairs, choice: NicChoice, names: Mapping[str, str]
) -> Iterator[Finding]:
    far = [d for d in topology.devices if _nic_is_far(topology, d, choice)]
    if not far:
        return
    ways: dict[str, None] = {}
    for device in far:
        nic = choice.nic_of_device[device.id]
        rate = rate_of(topology, topology.route_of_pair[device.id, nic.id])
        ways[f"{names[nic.id]} at about {rate / 1e9:.3g} GB/s"] = None
    yield Finding(
        severity=Severity.DOUBT,
        code="nic-far",
        subject=few(pairs.name[d.id] for d in far),
        detail=f"the nearest NIC of {len(far)} of {len(topology.devices)} devices is on another"
        f" socket: {few(ways)}",
        hint="ranks that talk most over the network belong on the devices near NICs",
    )


def _nic_is_far(topology: Topology, device: Device, choice: NicChoice) -> bool:
    """Whether every NIC that ranks use is beyond the socket's link, for this device only."""
    routes = [
        (nic, route)
        for nic in topology.nics
        if nic.id not in choice.left_out
        and (route := topology.route_of_pair.get((device.id, nic.id))) is not None
    ]
    if not routes or any(route.path_class is PathClass.UNKNOWN for _, route in routes):
        return False
    return not any(
        route.path_class in _NEAR
        or (nic.numa_node is not None and nic.numa_node == device.numa_node)
        for nic, route in routes
    )
