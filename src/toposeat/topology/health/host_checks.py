"""Checks of devices against their host: hidden GPUs, affinity, NUMA nodes, NICs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.health import Finding, Severity
from toposeat.model.topology import Device, Nic, PathClass, Topology
from toposeat.topology import constants as k
from toposeat.topology.health.pairs import NEARNESS, Pairs, few

UNHIDE = (
    "ask the job for all GPUs of the node (Slurm: --gpus-per-node=N --gpu-bind=none); containers:"
    " --gpus all, or --device /dev/kfd --device /dev/dri"
)
_NEAR = frozenset(NEARNESS[: NEARNESS.index(PathClass.NODE) + 1])
_BELOW_BRIDGE = frozenset({PathClass.PIX, PathClass.PXB})
_NIC_SHARE = 0.9  # of the ports' rate that PCIe must carry


def hidden_devices(topology: Topology, _: Pairs) -> Iterator[Finding]:
    """GPUs of the machine that the process which read it could not use."""
    if topology.hidden:
        total = len(topology.hidden) + len({d.parent or d.id for d in topology.devices})
        yield Finding(
            severity=Severity.FAULT,
            code="gpu-hidden",
            subject=few(topology.hidden),
            detail=f"{len(topology.hidden)} of {total} GPUs are hidden by the job's cgroup or the"
            " container: peers cannot reach them",
            hint=UNHIDE,
        )


def affinity(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Near CPUs or memory nodes that contradict how near the devices are."""
    torn, joined = [], []
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
    told = "affinity contradicts relations" in " ".join(topology.report)
    for names, what in (
        (torn, "the same near CPUs, but are on different sockets (SYS)"),
        (joined, "one PCIe switch, but different near CPUs or memory nodes"),
    ):
        if names:
            yield Finding(
                severity=Severity.DOUBT,
                code="affinity-contradiction",
                subject=few(names),
                detail=f"{len(names)} pairs have {what}",
                hint="the job's CPU set may mask the affinity: read the machine from an allocation"
                " of the whole node" + ("; relations are trusted" if told else ""),
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


def nics(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """NICs that are down, slower than their ports, or far from the devices they serve."""
    down = [nic.name or nic.id for nic in topology.nics if nic.active is False]
    if down:
        yield Finding(
            severity=Severity.DOUBT,
            code="nic-down",
            subject=few(down),
            detail="no port is active",
            hint="plug it in, or keep it out of UCX_NET_DEVICES and NCCL_IB_HCA",
        )
    for nic in topology.nics:
        yield from _throttled(nic)
    far = [pairs.name[d.id] for d in topology.devices if _nic_is_far(topology, d)]
    if far:
        yield Finding(
            severity=Severity.DOUBT,
            code="nic-far",
            subject=few(far),
            detail=f"the nearest NIC of {len(far)} of {len(topology.devices)} devices is on another"
            " socket",
            hint="ranks that talk most over the network belong on the devices near NICs",
        )


def _throttled(nic: Nic) -> Iterator[Finding]:
    state = nic.pcie
    if nic.bytes_per_s is None or state is None or state.generation is None or state.width is None:
        return
    carried = k.pcie_bytes_per_s(state.generation, state.width)
    if carried < _NIC_SHARE * nic.bytes_per_s.value:
        yield Finding(
            severity=Severity.DOUBT,
            code="nic-throttled",
            subject=nic.name or nic.id,
            detail=f"ports of {nic.bytes_per_s.value / 1e9:.3g} GB/s behind a PCIe link of about"
            f" {carried / 1e9:.3g} GB/s (generation {state.generation}, {state.width} lanes)",
            hint="put it into a wider or faster slot",
        )


def _nic_is_far(topology: Topology, device: Device) -> bool:
    """Whether every NIC whose route is known is beyond the socket's link, for this device only."""
    routes = [
        (nic, route)
        for nic in topology.nics
        if (route := topology.route_of_pair.get((device.id, nic.id))) is not None
    ]
    if not routes or any(route.path_class is PathClass.UNKNOWN for _, route in routes):
        return False
    return not any(
        route.path_class in _NEAR
        or (nic.numa_node is not None and nic.numa_node == device.numa_node)
        for nic, route in routes
    )
