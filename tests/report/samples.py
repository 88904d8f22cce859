"""Nouns made by hand for the report tests: a tree, a mesh, a switch box, a cluster, and traffic.

Structures follow published machines (K80 node: two packages, boards of two GPUs; DGX-1V: hybrid
cube mesh; DGX-2: 16 GPUs on two baseboards of switches); the numbers are round ones. Loads are
counted here link by link, so that tests do not depend on the compiled core.
"""

from collections import deque

import numpy as np

from toposeat.model.evaluation import Certificate, Evaluation, LinkLoad, MappingResult
from toposeat.model.quantity import Quantity, Source, nominal
from toposeat.model.runs import RealisedSeat, RunRecord, SeatVerdict
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    Link,
    LinkKind,
    Nic,
    PathClass,
    Route,
    Topology,
    Vendor,
)
from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    MemorySpace,
    PairTable,
    RankInfo,
    Traffic,
    TrafficKind,
)

DEVICE_P2P = (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE)
HOST_P2P = (TrafficKind.POINT_TO_POINT, MemorySpace.HOST)


def link(kind, a, b, gb_per_s, *, combined=False, count=1):
    rate = nominal(gb_per_s * 1e9)
    return Link(
        id=f"{a}--{b}",
        kind=kind,
        ends=(a, b),
        forward_bytes_per_s=rate,
        backward_bytes_per_s=rate,
        combined_bytes_per_s=rate if combined else None,
        latency_s=nominal(1e-6),
        count=count,
    )


def device(index, *, name="Tesla K80", numa=0, host="*"):
    return Device(
        id=f"gpu{index}",
        index=index,
        host=host,
        vendor=Vendor.NVIDIA,
        name=name,
        pci_bus_id=f"0000:{index + 4:02x}:00.0",
        uuid=f"GPU-{index:08d}",
        numa_node=numa,
        cpus=f"{8 * (numa or 0)}-{8 * (numa or 0) + 7}",
        memory_bytes=12 * 2**30,
    )


def shortest_routes(devices, links, targets=()):
    """Breadth-first routes from every device to every device and `targets`."""
    near = {}
    for each in links:
        near.setdefault(each.ends[0], []).append((each.ends[1], each))
        near.setdefault(each.ends[1], []).append((each.ends[0], each))
    ends = {d.id for d in devices}
    routes = []
    for source in (d.id for d in devices):
        came = {source: []}
        queue = deque([source])
        while queue:
            here = queue.popleft()
            for there, by in near.get(here, []):
                if there not in came:
                    came[there] = [*came[here], by]
                    if there not in ends or by.kind is LinkKind.XGMI:
                        queue.append(there)
        for target in (*ends, *targets):
            if target != source and target in came:
                routes.append(_route(source, target, came[target]))
    return tuple(sorted(routes, key=lambda r: (r.source, r.target)))


def _route(source, target, links):
    kinds = {each.kind for each in links}
    if kinds <= {LinkKind.NVLINK, LinkKind.XGMI}:
        path_class = PathClass.NVL
    elif LinkKind.NETWORK in kinds:
        path_class = PathClass.NET
    elif LinkKind.SMP in kinds:
        path_class = PathClass.SYS
    else:
        path_class = PathClass.PIX if len(links) <= 2 else PathClass.PHB
    return Route(
        source=source, target=target, links=tuple(e.id for e in links), path_class=path_class
    )


def small_tree():
    """Two packages, each with a host bridge and a switch with two devices; one NIC."""
    components, links = [], []
    for p in range(2):
        components += [
            Component(id=f"package{p}", kind=ComponentKind.PACKAGE, name=f"package {p}"),
            Component(id=f"bridge{p}", kind=ComponentKind.HOST_BRIDGE, name=f"host bridge {p}"),
            Component(id=f"switch{p}", kind=ComponentKind.SWITCH, name=f"switch {p}"),
        ]
        links += [
            link(LinkKind.PCIE, f"bridge{p}", f"package{p}", 12),
            link(LinkKind.PCIE, f"switch{p}", f"bridge{p}", 12),
        ]
        links += [link(LinkKind.PCIE, f"gpu{2 * p + i}", f"switch{p}", 12) for i in range(2)]
    links.append(link(LinkKind.SMP, "package0", "package1", 10, combined=True))
    links.append(link(LinkKind.PCIE, "nic0", "bridge0", 12))
    devices = tuple(device(i, numa=i // 2) for i in range(4))
    return Topology(
        name="small-tree",
        origin="written by hand",
        description="four devices below two packages",
        devices=devices,
        nics=(Nic(id="nic0", index=0, name="mlx5_0", numa_node=0),),
        components=tuple(components),
        links=tuple(links),
        routes=shortest_routes(devices, links, ("nic0",)),
        report=("the link widths were not read",),
    )


def k80_16():
    """The seed's 16-GPU node: package, host bridge, PCIe switch, board switch, device."""
    components, links = [], []
    for p in range(2):
        components += [
            Component(id=f"package{p}", kind=ComponentKind.PACKAGE, name=f"package {p}"),
            Component(id=f"bridge{p}", kind=ComponentKind.HOST_BRIDGE, name=f"host bridge {p}"),
        ]
        links.append(link(LinkKind.PCIE, f"bridge{p}", f"package{p}", 24))
    for s in range(4):
        components.append(Component(id=f"switch{s}", kind=ComponentKind.SWITCH, name=f"switch {s}"))
        links.append(link(LinkKind.PCIE, f"switch{s}", f"bridge{s // 2}", 10.5, combined=True))
    for b in range(8):
        components.append(Component(id=f"board{b}", kind=ComponentKind.SWITCH, name=f"board {b}"))
        links.append(link(LinkKind.PCIE, f"board{b}", f"switch{b // 2}", 18, combined=True))
    devices = tuple(device(i, numa=i // 8) for i in range(16))
    links += [
        link(LinkKind.PCIE, f"gpu{i}", f"board{i // 2}", 44, combined=True) for i in range(16)
    ]
    links.append(link(LinkKind.SMP, "package0", "package1", 10, combined=True))
    return Topology(
        name="k80-16",
        origin="written by hand",
        devices=devices,
        components=tuple(components),
        links=tuple(links),
        routes=shortest_routes(devices, links),
    )


def mesh_8():
    """A hybrid cube mesh over a PCIe tree: two packages, four switches, four NICs."""
    one = ((0, 1), (0, 2), (1, 3), (4, 5), (4, 6), (5, 7), (0, 4), (3, 7))
    two = ((0, 3), (1, 2), (2, 3), (0, 6), (4, 7), (5, 6), (6, 7), (1, 5), (2, 6))
    two = tuple(pair for pair in two if pair != (0, 6))
    components, links, nics = [], [], []
    for p in range(2):
        components.append(
            Component(id=f"package{p}", kind=ComponentKind.PACKAGE, name=f"package {p}")
        )
    for s in range(4):
        components += [
            Component(id=f"bridge{s}", kind=ComponentKind.HOST_BRIDGE, name=f"host bridge {s}"),
            Component(id=f"switch{s}", kind=ComponentKind.SWITCH, name=f"switch {s}"),
        ]
        links += [
            link(LinkKind.PCIE, f"bridge{s}", f"package{s // 2}", 12),
            link(LinkKind.PCIE, f"switch{s}", f"bridge{s}", 12),
            link(LinkKind.PCIE, f"nic{s}", f"switch{s}", 12),
        ]
        nics.append(Nic(id=f"nic{s}", index=s, name=f"mlx5_{s}", numa_node=s // 2))
    devices = tuple(device(i, name="V100-SXM2", numa=i // 4) for i in range(8))
    links += [link(LinkKind.PCIE, f"gpu{i}", f"switch{i // 2}", 12) for i in range(8)]
    links += [link(LinkKind.NVLINK, f"gpu{a}", f"gpu{b}", 22) for a, b in one]
    links += [link(LinkKind.NVLINK, f"gpu{a}", f"gpu{b}", 44, count=2) for a, b in two]
    links.append(link(LinkKind.SMP, "package0", "package1", 19, combined=True))
    return Topology(
        name="mesh-8",
        origin="written by hand",
        devices=devices,
        nics=tuple(nics),
        components=tuple(components),
        links=tuple(links),
        routes=shortest_routes(devices, links),
    )


def switch_box(devices_count=16):
    """All devices on two crossbars with a trunk between them, as on two baseboards."""
    devices = tuple(
        device(i, name="V100-SXM3", numa=i * 2 // devices_count) for i in range(devices_count)
    )
    half = devices_count // 2
    components = [
        Component(id=f"nvswitch{b}", kind=ComponentKind.NVSWITCH, name=f"NVSwitch board {b}")
        for b in range(2)
    ]
    links = [
        link(LinkKind.NVLINK, f"gpu{i}", f"nvswitch{i // half}", 132, count=6)
        for i in range(devices_count)
    ]
    links.append(link(LinkKind.NVLINK, "nvswitch0", "nvswitch1", 1056, count=48))
    return Topology(
        name="switch-box",
        origin="written by hand",
        devices=devices,
        components=tuple(components),
        links=tuple(links),
        routes=shortest_routes(devices, links),
    )


def one_device():
    return Topology(name="one", origin="written by hand", devices=(device(0),))


def cluster(hosts=8, per_host=8):
    """Hosts with one package, one switch per two devices, a NIC per switch and one network."""
    devices, nics, components, links = [], [], [], []
    components.append(Component(id="fabric", kind=ComponentKind.NETWORK, name="fabric", host=""))
    for h in range(hosts):
        host = f"node{h:02d}"
        components.append(
            Component(
                id=f"{host}/package0", kind=ComponentKind.PACKAGE, name="package 0", host=host
            )
        )
        for s in range(per_host // 2):
            switch, nic = f"{host}/switch{s}", f"{host}/nic{s}"
            components.append(
                Component(id=switch, kind=ComponentKind.SWITCH, name=f"switch {s}", host=host)
            )
            nics.append(Nic(id=nic, index=s, host=host, name=f"mlx5_{s}"))
            links += [
                link(LinkKind.PCIE, switch, f"{host}/package0", 24),
                link(LinkKind.PCIE, nic, switch, 24),
                link(LinkKind.NETWORK, nic, "fabric", 12),
            ]
            for i in (2 * s, 2 * s + 1):
                name = f"{host}/gpu{i}"
                devices.append(
                    Device(id=name, index=i, host=host, name="A100", vendor=Vendor.NVIDIA)
                )
                links.append(link(LinkKind.PCIE, name, switch, 24))
    return Topology(
        name="cluster",
        origin="written by hand",
        devices=tuple(devices),
        nics=tuple(nics),
        components=tuple(components),
        links=tuple(links),
        routes=shortest_routes(devices, links),
    )


def stencil(shape, *, weight=1, size=2**20):
    """Neighbour exchange on a row-major grid; messages along the first dimension are heavier."""
    ranks = int(np.prod(shape))
    matrix = np.zeros((ranks, ranks), dtype=np.int64)
    grid = np.arange(ranks).reshape(shape)
    for axis in range(len(shape)):
        a = np.take(grid, range(shape[axis] - 1), axis=axis).ravel()
        b = np.take(grid, range(1, shape[axis]), axis=axis).ravel()
        matrix[a, b] = matrix[b, a] = size * (weight if axis == 0 else 1)
    histogram = np.zeros(HISTOGRAM_BUCKETS, dtype=np.int64)
    histogram[(size * weight).bit_length()] = int((matrix == size * weight).sum())
    histogram[size.bit_length()] += int((matrix == size).sum()) if weight > 1 else 0
    name = "x".join(str(n) for n in shape)
    return Traffic(
        ranks=ranks,
        origin=f"stencil{len(shape)}d:{name},weight={weight}",
        tables={DEVICE_P2P: PairTable.from_dense(matrix, (matrix > 0) * 10)},
        histograms={DEVICE_P2P: histogram * 10},
    )


def timed(traffic, *, wall_s=10.0, mpi_s=2.2):
    """`traffic` with a little host traffic and measured times on every rank."""
    tables = dict(traffic.tables)
    tables[HOST_P2P] = PairTable.from_pairs([0], [traffic.ranks - 1], [4096], [2])
    info = tuple(
        RankInfo(
            rank=r, host="node07", pid=100 + r, wall_s=wall_s, mpi_s=mpi_s * (1 + 0.1 * (r % 3))
        )
        for r in range(traffic.ranks)
    )
    return Traffic(
        ranks=traffic.ranks,
        origin=traffic.origin,
        tables=tables,
        histograms=traffic.histograms,
        rank_info=info,
    )


def evaluate_by_hand(topology, traffic, device_of_rank):
    """Congestion per link counted over the routes; link time is taken as the worst congestion."""
    table = traffic.mapped_table()
    carried = {each.id: [0, 0] for each in topology.links}
    hop_bytes = 0
    for a, b, size in zip(table.source, table.target, table.bytes, strict=True):
        ends = tuple(topology.devices[device_of_rank[int(r)]].id for r in (a, b))
        route = topology.route_of_pair[ends[0], ends[1]]
        here = route.source
        hop_bytes += int(size) * len(route.links)
        for name in route.links:
            first, second = topology.link_of_id[name].ends
            carried[name][here != first] += int(size)
            here = second if here == first else first
    used = {name for route in topology.routes for name in route.links}
    loads = []
    for each in topology.links:
        forward, backward = carried[each.id]
        seconds = max(
            forward / each.forward_bytes_per_s.value, backward / each.backward_bytes_per_s.value
        )
        if each.combined_bytes_per_s is not None:
            seconds = max(seconds, (forward + backward) / each.combined_bytes_per_s.value)
        if each.id in used:
            loads.append(
                LinkLoad(
                    link=each.id, kind=each.kind, bytes=forward + backward, congestion_s=seconds
                )
            )
    loads.sort(key=lambda load: -load.congestion_s)
    worst = loads[0].congestion_s if loads else 0.0
    return Evaluation(
        device_of_rank=tuple(device_of_rank),
        max_congestion_s=worst,
        mean_congestion_s=sum(load.congestion_s for load in loads) / max(1, len(loads)),
        cost=float(hop_bytes),
        hop_bytes=float(hop_bytes),
        predicted_s=worst,
        links=tuple(loads),
    )


def mapping(topology, traffic, device_of_rank, *, objective="congestion", proved=True):
    """A mapping result whose numbers are counted by `evaluate_by_hand`."""
    placed = evaluate_by_hand(topology, traffic, device_of_rank)
    value = {
        "congestion": placed.max_congestion_s,
        "time": placed.predicted_s,
        "cost": placed.cost,
    }[objective]
    return MappingResult(
        device_of_rank=tuple(device_of_rank),
        default=evaluate_by_hand(topology, traffic, range(traffic.ranks)),
        placed=placed,
        certificate=Certificate(
            objective=objective,
            proved=proved,
            value=value,
            lower_bound=value if proved else value / 1.25,
            gap=0.0 if proved else 0.25,
            reason="exact tree search" if proved else "",
        ),
        objective=objective,
        metric="bandwidth",
        solver="exact" if proved else "search",
        solve_seconds=0.0123,
        seed=1,
        topology=topology.name,
        hosts=topology.hosts,
    )


# Pairs along the weighted first dimension of 2x2x4 become neighbours on one board.
K80_PLACED = (0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)


def measured(value):
    return Quantity(value, Source.MEASURED)


def run_record():
    """Three ranks: one as placed, one not, one that nobody could check."""
    return RunRecord(
        command=("mpirun", "-n", "3", "./my app"),
        launched=("mpirun", "-n", "3", "toposeat-exec", "-m", "app.place", "./my app"),
        placement="app.place",
        visibility="permute",
        host="node07",
        started_at="2026-11-20T22:00:00Z",
        wall_s=61.3,
        exit_code=0,
        verdict=SeatVerdict.MISMATCH,
        seats=(
            RealisedSeat(
                rank=0,
                host="node07",
                pci_bus_id="0000:04:00.0",
                cpus="0-3",
                verdict=SeatVerdict.AS_PLACED,
            ),
            RealisedSeat(
                rank=1,
                host="node07",
                pci_bus_id="0000:05:00.0",
                verdict=SeatVerdict.MISMATCH,
                differences=("device 0000:05:00.0 instead of 0000:06:00.0",),
            ),
            RealisedSeat(rank=2, host="node07"),
        ),
    )
