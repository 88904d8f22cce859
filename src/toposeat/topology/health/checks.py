"""What looks wrong with a machine: its devices, host, NICs, pairs, and what no source tells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from math import inf

from toposeat.model.cpu_list import cpus_of
from toposeat.model.few import listed
from toposeat.model.health import Finding, Severity
from toposeat.model.nics import LeftOut, NicChoice, NicFault, choose_nics
from toposeat.model.topology import (
    Device,
    FactKind,
    Nic,
    PathClass,
    PcieState,
    Topology,
    Vendor,
)
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.health.findings import finding
from toposeat.topology.health.wiring import NEARNESS, Pairs, rate_of, says_nothing
from toposeat.topology.health.yardstick import directions, slow_copies
from toposeat.topology.products import products_named
from toposeat.topology.told import CUT_LISTS
from toposeat.topology.untold import untold_affinities, untold_pairs


def link_width(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Fewer PCIe lanes than device and slot have; a virtual machine may make numbers up."""
    virtual = topology.metadata.get("virtual")
    for name, state in _pcie_states(pairs):
        if state.width is None or state.max_width is None or state.width >= state.max_width:
            continue
        row = "pcie-width virtual" if virtual else "pcie-width"
        yield finding(row, name, width=state.width, most=state.max_width)


def link_generation(_: Topology, pairs: Pairs) -> Iterator[Finding]:
    """A slower PCIe generation than possible: idle devices do that, so it proves nothing."""
    slow: dict[tuple[int, int], list[str]] = defaultdict(list)
    total = 0
    for name, state in _pcie_states(pairs):
        if state.generation is None or state.max_generation is None:
            continue
        total += 1
        if state.generation < state.max_generation:
            slow[state.generation, state.max_generation].append(name)
    for (now, most), names in sorted(slow.items()):
        everyone = ", as all are" if len(names) == total > 1 else ""
        yield finding("pcie-generation", listed(names), now=now, most=most, everyone=everyone)


# What a maker's tool shows of device links, of their errors, and of peer access, and what lists all
# device links of a node and its affinities.
_TOOLS = {
    Vendor.NVIDIA: {
        "links": "nvidia-smi nvlink -s",
        "errors": "nvidia-smi nvlink -e",
        "access": "nvidia-smi topo -p2p r",
        "listing": "nvidia-smi topo -m",
    },
    Vendor.AMD: {
        "links": "amd-smi xgmi",
        "errors": "amd-smi metric",
        "access": "amd-smi topology",
        "listing": "rocm-smi --showtopo",
    },
    Vendor.INTEL: dict.fromkeys(("links", "errors", "access", "listing"), "xpu-smi topology -m"),
}


def _tool_of(vendor: Vendor, what: str) -> str:
    return _TOOLS.get(vendor, _TOOLS[Vendor.NVIDIA])[what]


def _tool(topology: Topology, what: str) -> str:
    """The command of the maker of most devices."""
    ((vendor, _),) = Counter(device.vendor for device in topology.devices).most_common(1)
    return _tool_of(vendor, what)


def inactive_lanes(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Device links that are down: a fault where devices of one kind differ in it."""
    by_kind: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for device in topology.devices:
        if device.inactive_lanes is not None:
            by_kind[device.name].append((device.id, device.inactive_lanes))
    for name, members in by_kind.items():
        lane = products.lane_named(name)
        most = inf if lane is None else lane.lanes_per_device  # a drawing may show more
        usual = min(count for _, count in members)
        for id, count in members:
            if not count:
                continue
            total = max(count, min(most, count + pairs.lanes[id]))
            others = f" (others of its kind: {usual})" if count > usual else ""
            row = " all" if not pairs.lanes[id] else " odd" if others else ""
            yield finding(
                f"lanes-inactive{row}",
                pairs.name[id],
                count=count,
                total=total,
                others=others,
                tool=_tool(topology, "errors"),
            )


def unequal_lanes(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Devices of one kind with different numbers of lanes: fewer than most is suspicious."""
    by_kind: dict[str, list[str]] = defaultdict(list)
    for device in topology.devices:
        by_kind[device.name].append(device.id)
    told = {d.id for d in topology.devices if d.inactive_lanes}
    for members in by_kind.values():
        most = max(pairs.lanes[id] for id in members)
        fewer = [id for id in members if pairs.lanes[id] < most and id not in told]
        if not fewer or 2 * len(fewer) >= len(members):
            continue  # as many have fewer as have more: that is how it was built
        counts = sorted({pairs.lanes[id] for id in fewer})
        switched = any(id in pairs.switched for id in members if pairs.lanes[id] == most)
        yield finding(
            "lanes-unequal switched" if switched else "lanes-unequal",
            listed(pairs.name[id] for id in fewer),
            counts=" or ".join(map(str, counts)),
            most=most,
            tool=_tool(topology, "links"),
        )


def short_bridges(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Pairs that fewer lanes join than one bridge of their product has."""
    told = {d.id for d in topology.devices if d.inactive_lanes}
    short: dict[tuple[int, int], list[str]] = defaultdict(list)
    for i, j in pairs.all:
        first, second = topology.devices[i], topology.devices[j]
        pair = topology.pair_of_ends.get((first.id, second.id))
        known = products_named(first.name)
        ways = {way for product in known for way in product.ways}
        if pair is None or not pair.lanes or first.id in told or second.id in told:
            continue
        if first.name == second.name and ways and all(way.startswith("bridge") for way in ways):
            most = min(product.lanes for product in known)
            if pair.lanes % min(_LANES_OF_BRIDGE, most):
                short[pair.lanes, most].append(f"{pairs.name[first.id]}-{pairs.name[second.id]}")
    for (count, most), names in short.items():
        yield finding("lanes-unequal bridge", listed(names), count=count, most=most)


def partitions(topology: Topology, _: Pairs) -> Iterator[Finding]:
    """Devices that are parts of one: they share its PCIe link, MIG slices have no peer access."""
    parts = Counter(d.parent for d in topology.devices if d.parent)
    if not parts:
        return
    mig = any((d.uuid or "").upper().startswith("MIG-") for d in topology.devices)
    row = "partitions mig" if mig else "partitions"
    yield finding(row, listed(parts), count=sum(parts.values()), whole=len(parts))


def _pcie_states(pairs: Pairs) -> Iterator[tuple[str, PcieState]]:
    """Each physical link once: parts of one GPU share it."""
    seen: set[str] = set()
    for device in pairs.devices:
        if device.pcie is None or (device.parent and device.parent in seen):
            continue
        seen.add(device.parent or "")
        yield pairs.name[device.id], device.pcie
    for nic in pairs.topology.nics:
        if nic.pcie is not None:
            yield nic.name or nic.id, nic.pcie


_BELOW_BRIDGE = frozenset({PathClass.PIX, PathClass.PXB})


def hidden_devices(topology: Topology, _: Pairs) -> Iterator[Finding]:
    """GPUs of the machine that the process which read it could not use."""
    if topology.hidden:
        total = len(topology.hidden) + len({d.parent or d.id for d in topology.devices})
        count = len(topology.hidden)
        yield finding("gpu-hidden", listed(topology.hidden), count=count, total=total)


def affinity(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Near CPUs or memory nodes that contradict how near the devices are."""
    torn, joined, across = [], [], []
    for i, j in pairs.all:
        a, b = topology.devices[i], topology.devices[j]
        found = pairs.pcie_classes.get((i, j)) or pairs.path_class(i, j)
        name = f"{pairs.name[a.id]}-{pairs.name[b.id]}"
        if a.host != b.host:
            continue
        if found is PathClass.SYS and _same_cpus(a, b):
            torn.append(name)
        elif found in _BELOW_BRIDGE and _apart(a, b):
            joined.append(name)
        elif pairs.path_class(i, j) is PathClass.NODE and _apart(a, b):
            across.append(name)
    told = "relations are trusted" in " ".join(topology.report)
    trusted = "; relations are trusted" if told else ""
    for names, what in (
        (torn, "the same near CPUs, but are on different sockets (SYS)"),
        (joined, "one PCIe switch, but different near CPUs or memory nodes"),
        (
            across,
            "one memory node by their class (NODE), but different ones by number or near CPUs",
        ),
    ):
        if names:
            row, subject = "affinity-contradiction", listed(names)
            yield finding(row, subject, count=len(names), what=what, trusted=trusted)


def near_cpus(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Memory nodes that claim the same CPUs, and devices near which the job has none."""
    nodes: dict[tuple[str, str], dict[int, list[str]]] = {}
    for device in topology.devices:
        if device.cpus is not None and device.numa_node is not None:
            of_cpus = nodes.setdefault((device.host, device.cpus), {})
            of_cpus.setdefault(device.numa_node, []).append(pairs.name[device.id])
    for (_, cpus), members in nodes.items():
        if len(members) > 1:
            yield finding(
                "numa-same-cpus",
                listed(name for names in members.values() for name in names),
                numbers=" and ".join(map(str, sorted(members))),
                cpus=cpus,
                count=len(members),
            )
    cut = topology.metadata.get(CUT_LISTS)
    hosts = {device.host for device in topology.devices if cut or device.cpus is not None}
    without = {
        device: device.numa_node
        for device in topology.devices
        if device.host in hosts and device.cpus is None and device.numa_node is not None
    }
    if cut and without:
        yield finding("cpus-cut", listed(pairs.name[device.id] for device in without), lists=cut)
    elif without:
        yield finding(
            "cpus-masked",
            listed(pairs.name[device.id] for device in without),
            count=len(without),
            total=len(topology.devices),
            numbers=", ".join(map(str, sorted(set(without.values())))),
        )


def _same_cpus(a: Device, b: Device) -> bool:
    """Whether near CPUs alone say that two devices are beside each other."""
    untold = a.numa_node is None or b.numa_node is None
    return untold and a.cpus is not None and a.cpus == b.cpus


def _apart(a: Device, b: Device) -> bool:
    if a.numa_node is not None and b.numa_node is not None:
        return a.numa_node != b.numa_node
    if a.cpus is None or b.cpus is None:
        return False
    return cpus_of(a.cpus).isdisjoint(cpus_of(b.cpus))


def uneven_nodes(topology: Topology, _: Pairs) -> Iterator[Finding]:
    """Memory nodes of one host with different numbers of devices."""
    by_host: dict[str, Counter[int]] = defaultdict(Counter)
    for device in topology.devices:
        if device.numa_node is not None:
            by_host[device.host][device.numa_node] += 1
    for host, nodes in by_host.items():
        if len(set(nodes.values())) > 1:
            counts = ", ".join(f"{n} on node {node}" for node, n in sorted(nodes.items()))
            yield finding("numa-uneven", host if len(by_host) > 1 else "", counts=counts)


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
        yield finding("nic-down", listed(down), count=len(down), total=len(names))
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for id, left in left_out.items():
        if left.fault is not NicFault.DOWN:
            row = "nic-slow" if left.fault is NicFault.SLOW else "nic-other-network"
            alike[row, left.why].append(names[id])
    for (row, why), members in alike.items():
        yield finding(row, listed(members), why=why)


def _throttled(nic: Nic, names: Mapping[str, str]) -> Iterator[Finding]:
    state = nic.pcie
    if nic.bytes_per_s is None or state is None or state.generation is None or state.width is None:
        return
    carried = k.pcie_bytes_per_s(state.generation, state.width)
    if carried < _NIC_SHARE * nic.bytes_per_s.value:
        yield finding(
            "nic-throttled",
            names[nic.id],
            ports=nic.bytes_per_s.value / 1e9,
            link=carried / 1e9,
            generation=state.generation,
            width=state.width,
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
        most = max((len(users.get(nic.id, {})) for nic in of_host), default=0)
        shared = [(nic, own) for nic in of_host if len(own := users.get(nic.id, {})) == most]
        if most < 2 or not idle:
            continue
        sharing = [pairs.name[id] for _, own in shared for id in own.values()]
        yield finding(
            "nic-shared",
            listed(sharing),
            count=len(sharing),
            nic=listed(names[nic.id] + _share(nic, own) for nic, own in shared),
            idle=listed(idle),
        )


def _share(nic: Nic, users: Mapping[str, str]) -> str:
    rate = nic.bytes_per_s
    return f" ({rate.value / len(users) / 1e9:.3g} GB/s each)" if rate is not None else ""


def _far(
    topology: Topology, pairs: Pairs, choice: NicChoice, names: Mapping[str, str]
) -> Iterator[Finding]:
    far = [d for d in topology.devices if _nic_is_far(topology, d, choice)]
    placed = any(nic.numa_node is not None for nic in topology.nics)
    if not far or (len(far) == len(topology.devices) and not placed):
        return  # where none is near, and no adapter has a node, nobody told that one is far
    ways: dict[str, None] = {}
    for device in far:
        nic = choice.nic_of_device[device.id]
        rate = rate_of(topology, topology.route_of_pair[device.id, nic.id])
        ways[f"{names[nic.id]} at about {rate / 1e9:.3g} GB/s"] = None
    yield finding(
        "nic-far",
        listed(pairs.name[d.id] for d in far),
        count=len(far),
        total=len(topology.devices),
        ways=listed(ways),
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


def peer_access(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Pairs that cannot reach each other's memory: copies go through the host."""
    off: dict[bool, list[str]] = defaultdict(list)
    part = {d.id: bool(d.parent) for d in topology.devices}
    for i, j in pairs.all:
        route = pairs.route(i, j)
        if route is None or route.peer_access is not False:
            continue
        if part[route.source] or part[route.target]:
            continue  # `partitions` says so
        off[route.path_class is PathClass.NVL].append(pairs.named(route))
    for linked, names in off.items():
        row = "peer-access-off linked" if linked else "peer-access-off"
        yield finding(row, listed(names), count=len(names), tool=_tool(topology, "access"))


def missing_routes(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Pairs that nothing known joins."""
    missing = [(i, j) for i, j in pairs.all if pairs.route(i, j) is None]
    if missing:
        i, j = missing[0]
        names = [pairs.name[topology.devices[k].id] for k in (i, j)]
        yield finding("route-missing", "-".join(names), count=len(missing))


def information(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """A source that does not tell pairs apart."""
    if len(topology.devices) > 1 and says_nothing(topology, pairs):
        yield finding("information-free")


_MOST_PRODUCTS = 4
_LANES_OF_BRIDGE = 4  # of one of the bridges that a pair of cards may have several of


def untold_links(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Pairs that may have NVLink, xGMI or Xe Link, one finding for each kind of device."""
    device_of = {device.id: device for device in topology.devices}
    denied = FactKind.DEVICE_LINKS in topology.tells
    kinds: dict[tuple[Vendor, str], list[str]] = defaultdict(list)
    for a, b in untold_pairs(topology):
        first, second = device_of[a], device_of[b]
        which = _which(first if first.name else second)
        kinds[first.vendor, which].append(f"{pairs.name[a]}-{pairs.name[b]}")
    for (vendor, which), names in kinds.items():
        every = len(names) == len(pairs.all)
        count = f"all {len(names)} pairs" if every else f"{len(names)} of {len(pairs.all)} pairs"
        yield finding(
            "links-denied" if denied else "links-untold",
            "" if every else listed(names),
            pairs=count,
            product=which,
            tool=_tool(topology, "links") if denied else _tool_of(vendor, "listing"),
        )


def _which(device: Device) -> str:
    """What is known of a device's product, as a clause."""
    known = products_named(device.name)
    if not device.name:
        return "their product is not known either"
    if not known:
        return f"{device.name} is not a product that toposeat knows"
    names = [each.name for each in known]
    if len(names) > 1:
        words = ", ".join(names[:_MOST_PRODUCTS]) + (" ..." if names[_MOST_PRODUCTS:] else "")
        return f"{device.name} may be {words}"
    if known[0].always:
        return f"{names[0]} always has some, and boards join it in several ways"
    return f"{names[0]} may have bridges"


def untold_affinity(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Devices whose near CPUs and memory node are not known, where that matters."""
    names = [pairs.name[id] for id in untold_affinities(topology)]
    if names:
        yield finding("affinity-untold", listed(names), count=len(names))


_CHECKS = (
    hidden_devices,
    untold_links,
    untold_affinity,
    link_width,
    inactive_lanes,
    unequal_lanes,
    short_bridges,
    peer_access,
    slow_copies,
    directions,
    missing_routes,
    information,
    affinity,
    near_cpus,
    nics,
    link_generation,
    uneven_nodes,
    partitions,
)


def findings_of(topology: Topology) -> tuple[Finding, ...]:
    """All findings on one machine, the worst first, then in the order of the checks."""
    pairs = Pairs(topology)
    found = [finding for check in _CHECKS for finding in check(topology, pairs)]
    found += _reader_doubts(topology)
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: -order.index(finding.severity)))


def _reader_doubts(topology: Topology) -> Iterator[Finding]:
    for sentence in topology.report:
        if topology.hidden and "are hidden from this process" in sentence:
            continue  # a finding of its own
        if sentence.startswith("GPUs of an unknown PCI vendor"):
            vendor = topology.devices[0].vendor.value
            yield finding("vendor-unknown", sentence=sentence, vendor=vendor)
            continue
        yield finding("reader", sentence=sentence)
