"""Checks of devices against their host: hidden GPUs, affinity, NUMA nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.health import Finding, Severity
from toposeat.model.topology import Device, PathClass, Topology
from toposeat.topology.health.pairs import Pairs, few

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
