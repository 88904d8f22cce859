"""What looks wrong with a machine: its devices, host, NICs, pairs, and what no source tells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf

from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.few import listed
from toposeat.model.health import Finding, Severity
from toposeat.model.nics import LeftOut, NicChoice, NicFault, choose_nics
from toposeat.model.topology import Device, Nic, PathClass, PcieState, Route, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.health.wiring import NEARNESS, Pairs, rate_of, says_nothing
from toposeat.topology.health.yardstick import directions, slow_copies
from toposeat.topology.products import products_named
from toposeat.topology.untold import is_denied, untold_affinities, untold_pairs

_RESEAT = "check slot, riser and bifurcation, reseat the board; a width does not change with load"


def link_width(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Fewer PCIe lanes than device and slot have; a virtual machine may make numbers up."""
    virtual = topology.metadata.get("virtual")
    for name, state in _pcie_states(pairs):
        if state.width is None or state.max_width is None or state.width >= state.max_width:
            continue
        yield Finding(
            severity=Severity.DOUBT if virtual else Severity.FAULT,
            code="pcie-width",
            subject=name,
            detail=f"PCIe link runs with {state.width} of {state.max_width} lanes",
            hint="a virtual machine may show other widths than the host" if virtual else _RESEAT,
        )


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
        everyone = len(names) == total and total > 1
        yield Finding(
            severity=Severity.INFO,
            code="pcie-generation",
            subject=listed(names),
            detail=f"PCIe link at generation {now} of {most}: may be idle"
            + (", as all are" if everyone else ""),
            hint="look again while something runs on it",
        )


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
            odd = count > usual
            total = max(count, min(most, count + pairs.lanes[id]))
            some = pairs.lanes[id] > 0
            yield Finding(
                severity=(
                    Severity.FAULT if odd and some else Severity.DOUBT if some else Severity.INFO
                ),
                code="lanes-inactive",
                subject=pairs.name[id],
                detail=f"{count} of {total} device-link lanes are inactive"
                + (f" (others of its kind: {usual})" if odd else ""),
                hint=(
                    f"check bridges and baseboard; {_tool(topology, 'errors')} shows errors"
                    if some
                    else "no bridge is fitted, or its links are switched off"
                ),
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
        yield Finding(
            severity=Severity.FAULT if switched else Severity.DOUBT,
            code="lanes-unequal",
            subject=listed(pairs.name[id] for id in fewer),
            detail=f"{' or '.join(map(str, counts))} device-link lanes, others of its kind {most}",
            hint=f"a switch joins its siblings to all others: {_tool(topology, 'links')},"
            " fabric manager"
            if switched
            else f"a failed lane, a missing bridge, or a mesh built so: {_tool(topology, 'links')}",
        )


def partitions(topology: Topology, _: Pairs) -> Iterator[Finding]:
    """Devices that are parts of one: they share its PCIe link, MIG slices have no peer access."""
    parts = Counter(d.parent for d in topology.devices if d.parent)
    if not parts:
        return
    mig = any((d.uuid or "").upper().startswith("MIG-") for d in topology.devices)
    yield Finding(
        severity=Severity.INFO,
        code="partitions",
        subject=listed(parts),
        detail=f"{sum(parts.values())} devices are parts of {len(parts)} GPUs, whose PCIe links"
        " they share" + ("; a process sees one MIG slice only, without peer access" if mig else ""),
        hint="run with --visibility mask" if mig else "",
    )


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


UNHIDE = (
    "ask the job for all GPUs of the node (Slurm: --gpus-per-node=N --gpu-bind=none); containers:"
    " --gpus all, or --device /dev/kfd --device /dev/dri"
)
_BELOW_BRIDGE = frozenset({PathClass.PIX, PathClass.PXB})


def hidden_devices(topology: Topology, _: Pairs) -> Iterator[Finding]:
    """GPUs of the machine that the process which read it could not use."""
    if topology.hidden:
        total = len(topology.hidden) + len({d.parent or d.id for d in topology.devices})
        yield Finding(
            severity=Severity.FAULT,
            code="gpu-hidden",
            subject=listed(topology.hidden),
            detail=f"{len(topology.hidden)} of {total} GPUs are hidden by the job's cgroup or the"
            " container: peers cannot reach them",
            hint=UNHIDE,
        )


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
    for names, what in (
        (torn, "the same near CPUs, but are on different sockets (SYS)"),
        (joined, "one PCIe switch, but different near CPUs or memory nodes"),
        (
            across,
            "one memory node by their class (NODE), but different ones by number or near CPUs",
        ),
    ):
        if names:
            yield Finding(
                severity=Severity.DOUBT,
                code="affinity-contradiction",
                subject=listed(names),
                detail=f"{len(names)} pairs have {what}",
                hint="the job's CPU set may mask the affinity: read the machine from an allocation"
                " of the whole node" + ("; relations are trusted" if told else ""),
            )


def near_cpus(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Memory nodes that claim the same CPUs, and devices near which the job has none."""
    nodes: dict[tuple[str, str], dict[int, list[str]]] = {}
    for device in topology.devices:
        if device.cpus is not None and device.numa_node is not None:
            of_cpus = nodes.setdefault((device.host, device.cpus), {})
            of_cpus.setdefault(device.numa_node, []).append(pairs.name[device.id])
    for (_, cpus), members in nodes.items():
        if len(members) > 1:
            yield Finding(
                severity=Severity.DOUBT,
                code="numa-same-cpus",
                subject=listed(name for names in members.values() for name in names),
                detail=f"memory nodes {' and '.join(map(str, sorted(members)))} have the same CPUs"
                f" ({cpus}): ranks of {len(members)} nodes would be bound to those of one",
                hint="the source may be wrong (a cloud's file for NCCL was): compare lscpu on it",
            )
    hosts = {device.host for device in topology.devices if device.cpus is not None}
    without = {
        device: device.numa_node
        for device in topology.devices
        if device.host in hosts and device.cpus is None and device.numa_node is not None
    }
    if without:
        numbers = ", ".join(map(str, sorted(set(without.values()))))
        yield Finding(
            severity=Severity.DOUBT,
            code="cpus-masked",
            subject=listed(pairs.name[device.id] for device in without),
            detail=f"no CPU near {len(without)} of {len(topology.devices)} devices may be used"
            f" (memory node {numbers}): the CPU set of the job hides them",
            hint="ask the job for CPUs of all sockets (Slurm: --exclusive, or --cpus-per-gpu=N with"
            " --gpu-bind=closest)",
        )


def _same_cpus(a: Device, b: Device) -> bool:
    if a.numa_node is not None and b.numa_node is not None and a.numa_node != b.numa_node:
        return False
    return a.cpus is not None and a.cpus == b.cpus


def _apart(a: Device, b: Device) -> bool:
    if a.numa_node is not None and b.numa_node is not None:
        return a.numa_node != b.numa_node
    if a.cpus is None or b.cpus is None:
        return False
    return not set(parse_cpu_list(a.cpus)) & set(parse_cpu_list(b.cpus))


def uneven_nodes(topology: Topology, _: Pairs) -> Iterator[Finding]:
    """Memory nodes of one host with different numbers of devices."""
    by_host: dict[str, Counter[int]] = defaultdict(Counter)
    for device in topology.devices:
        if device.numa_node is not None:
            by_host[device.host][device.numa_node] += 1
    for host, nodes in by_host.items():
        if len(set(nodes.values())) > 1:
            counts = ", ".join(f"{n} on node {node}" for node, n in sorted(nodes.items()))
            yield Finding(
                severity=Severity.INFO,
                code="numa-uneven",
                subject=host if len(by_host) > 1 else "",
                detail=f"devices are spread unevenly over memory nodes: {counts}",
            )


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
            subject=listed(down),
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
                detail=f"taken to be for another purpose ({left.why}): no rank uses it",
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
            subject=listed(pairs.name[id] for id in sharing.values()),
            detail=f"{len(sharing)} GPUs share {names[busiest.id]}{share}; nearest to none:"
            f" {listed(idle)}",
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
        subject=listed(pairs.name[d.id] for d in far),
        detail=f"the nearest NIC of {len(far)} of {len(topology.devices)} devices is on another"
        f" socket: {listed(ways)}",
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
        off[route.path_class is PathClass.NVL].append(_pair_name(pairs, route))
    for linked, names in off.items():
        yield Finding(
            severity=Severity.FAULT if linked else Severity.DOUBT,
            code="peer-access-off",
            subject=listed(names),
            detail=f"no peer access for {len(names)} pairs"
            + (" that device links join" if linked else ": their copies go through host memory"),
            hint=(
                f"restart the fabric manager; {_tool(topology, 'access')} tells the state"
                if linked
                else "PCIe access control (ACS), IOMMU, or a product whose driver has none;"
                f" {_tool(topology, 'access')} tells which"
            ),
        )


def missing_routes(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Pairs that nothing known joins."""
    missing = [(i, j) for i, j in pairs.all if pairs.route(i, j) is None]
    if missing:
        i, j = missing[0]
        names = [pairs.name[topology.devices[k].id] for k in (i, j)]
        yield Finding(
            severity=Severity.DOUBT,
            code="route-missing",
            subject="-".join(names),
            detail=f"no route known between {len(missing)} pairs of devices",
            hint="read the machine from another source as well: discover -t A -t B",
        )


def information(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """A source that does not tell pairs apart."""
    if len(topology.devices) > 1 and says_nothing(topology, pairs):
        yield Finding(
            severity=Severity.DOUBT,
            code="information-free",
            subject="",
            detail="every pair is called alike (SYS) or unknown: the real wiring is hidden",
            hint="measure it (toposeat measure), or read the provider's NCCL topology file as well",
        )


def _pair_name(pairs: Pairs, route: Route) -> str:
    return f"{pairs.name[route.source]}-{pairs.name[route.target]}"


_MOST_PRODUCTS = 4


def untold_links(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Pairs that may have NVLink, xGMI or Xe Link, one finding for each kind of device."""
    device_of = {device.id: device for device in topology.devices}
    kinds: dict[tuple[Vendor, str, bool], list[str]] = defaultdict(list)
    for a, b in untold_pairs(topology):
        first, second = device_of[a], device_of[b]
        denied = is_denied(topology, first)
        key = (first.vendor, _which(first if first.name else second), denied)
        kinds[key].append(f"{pairs.name[a]}-{pairs.name[b]}")
    for (vendor, which, denied), names in kinds.items():
        every = len(names) == len(pairs.all)
        count = f"all {len(names)} pairs" if every else f"{len(names)} of {len(pairs.all)} pairs"
        untold = Finding(
            severity=Severity.UNTOLD,
            code="links-untold",
            subject="" if every else listed(names),
            detail=f"no source states whether device links join {count}: {which}",
            hint=f"on that node: {_tool_of(vendor, 'listing')} > links.txt, and give it as well:"
            " -t links.txt",
        )
        yield (
            untold
            if not denied
            else replace(
                untold,
                code="links-denied",
                detail=f"the source lists no device links of {count}, but {which}",
                hint=f"see why they are off ({_tool(topology, 'links')}),"
                " or measure: toposeat measure",
            )
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
        yield Finding(
            severity=Severity.UNTOLD,
            code="affinity-untold",
            subject=listed(names),
            detail=f"neither near CPUs nor memory node of {len(names)} devices is known, and there"
            " are several memory nodes: their ranks are bound to none",
            hint="on that node, in an allocation of all its CPUs: toposeat discover -o node.json",
        )


_CHECKS = (
    hidden_devices,
    untold_links,
    untold_affinity,
    link_width,
    inactive_lanes,
    unequal_lanes,
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
            yield Finding(
                severity=Severity.DOUBT,
                code="vendor-unknown",
                subject="",
                detail=f"{sentence}: they are taken for {topology.devices[0].vendor.value}'s",
                hint="numbers of their links and variables that order them may be wrong: measure",
            )
            continue
        yield Finding(severity=Severity.INFO, code="reader", subject="", detail=sentence)
