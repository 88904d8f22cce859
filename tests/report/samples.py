"""Nouns made by hand for the report tests: a tree, a mesh, a switch box, a cluster, and traffic.

Structures follow published machines (K80 node: two packages, boards of two GPUs; DGX-1V: hybrid
cube mesh; DGX-2: 16 GPUs on two baseboards of switches); the numbers are round ones.
"""

from collections import deque
from pathlib import Path

import numpy as np
from msgspec import json

from toposeat import mapping as mapper
from toposeat import pipeline
from toposeat.evaluation import evaluate
from toposeat.model.evaluation import Certificate, MappingResult
from toposeat.model.quantity import Quantity, Source, nominal
from toposeat.model.result_file import parse_run
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
from toposeat.profile import read_traffic
from toposeat.topology import read_network, read_topology

HERE = Path(__file__).parent / "machines"
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


def recorded(name):
    """A machine of `machines/`."""
    return read_topology(HERE / f"{name}.json")


def noun(name, form):
    """Another noun of `machines/`."""
    return json.decode((HERE / f"{name}.json").read_text(), type=form)


def small_tree():
    """Two packages, each with a host bridge and a switch with two devices; one NIC."""
    return recorded("small-tree")


def k80_16():
    """The seed's 16-GPU node: package, host bridge, PCIe switch, board switch, device."""
    return recorded("k80-16")


def one_device():
    return recorded("one")


def switch_box(devices=16):
    """All devices on two crossbars with a trunk between them, as on two baseboards."""
    return recorded(f"switch-box-{devices}")


def mesh_8():
    """A hybrid cube mesh over a PCIe tree: two packages, four switches, four NICs."""
    return recorded("mesh-8")


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


_EVALUATED = {}  # with what it is of: dozens of views show the same few orders


def _evaluated(*of):
    key = (id(of[0]), id(of[1]), tuple(of[2]))
    if key not in _EVALUATED:
        _EVALUATED[key] = of, evaluate(*of)
    return _EVALUATED[key][1]


def mapping(topology, traffic, device_of_rank, *, objective="congestion", proved=True):
    """A mapping result with the numbers of this placement, as if a solver had found it."""
    placed = _evaluated(topology, traffic, device_of_rank)
    value = {
        "congestion": placed.max_congestion_s,
        "time": placed.predicted_s,
        "cost": placed.cost,
    }[objective]
    return MappingResult(
        device_of_rank=tuple(device_of_rank),
        default=_evaluated(topology, traffic, range(traffic.ranks)),
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


EVIL = "</title><script>alert(1)</script>\"'&"


def result_on(text, node="", seed=4):
    """Neighbours on a line on a network, in random order (or in the default one)."""
    shape = mapper.read_shape(text)
    if node:
        shape = mapper.shape_of_network(read_network(text), read_topology(node))
    traffic = read_traffic(f"ring:{shape.slots // 2}")
    slots = list(range(traffic.ranks))
    if seed is not None:
        found = np.random.default_rng(seed).permutation(shape.slots)[: traffic.ranks]
        slots = found.tolist()
    (result,) = pipeline.assess(mapper.Machine.of_shape(shape), traffic, [slots])
    return result


# Pairs along the weighted first dimension of 2x2x4 become neighbours on one board.
K80_PLACED = (0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)


def measured(value):
    return Quantity(value, Source.MEASURED)


def run_record():
    """Three ranks: one as placed, one not, one that nobody could check."""
    return parse_run((HERE / "run.json").read_text(), HERE / "run.json")
