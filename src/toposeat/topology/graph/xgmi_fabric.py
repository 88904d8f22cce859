"""xGMI between AMD's GPUs from the driver's links: direct bonds, packages with partitions.

A whole GPU has a bond with every direct peer. Partitions are ports of the fabric in their package;
two packages are joined by the one bond that all their partitions share. The driver's weights tell:
15 a hop, 13 the way through a package with partitions; 41 = 13 + 15 + 13 is between packages.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from toposeat.model.topology import ComponentKind, LinkKind
from toposeat.topology import constants as k
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.kfd_node import KfdNode

_HOP_WEIGHT, _PACKAGE_WEIGHT = 15, 13
_MOST_LANES = 16
_MB = 1e6


@dataclass(slots=True)
class XgmiGpu:
    """One GPU or partition, and what KFD tells of it.

    `links` are the driver's xGMI links by their far node, `numa` is the memory node. `vertex` is
    where its links end, set by `add_xgmi`: itself, or the fabric of its package.
    """

    id: str
    node: KfdNode
    part: bool
    links: Mapping[int, Mapping[str, int]] = field(init=False)
    vertex: str = ""
    numa: int | None = None

    def __post_init__(self) -> None:
        self.links = self.node.xgmi


def add_xgmi(builder: GraphBuilder, gpus: Sequence[XgmiGpu]) -> None:
    """Add the fabrics of packages and the bonds between them, and report what is not stated."""
    _Fabric(builder, gpus).write()


def add_package(builder: GraphBuilder, board: str, ports: Mapping[str, float]) -> str:
    """The fabric inside a package, with what the port of each of its parts carries, bytes/s."""
    fabric = builder.component(ComponentKind.NVSWITCH, f"package-{board}", name=f"package {board}")
    for part, bytes_per_s in ports.items():
        builder.link(
            LinkKind.XGMI,
            part,
            fabric,
            bytes_per_s=bytes_per_s,
            latency_s=k.LATENCY_NVSWITCH_PORT,
            name="in the package",
        )
    return fabric


class _Fabric:
    def __init__(self, builder: GraphBuilder, gpus: Sequence[XgmiGpu]) -> None:
        self.builder = builder
        self.gpus = gpus
        self.of_node = {gpu.node.number: gpu for gpu in gpus}
        self.unstated: Counter[str] = Counter()

    def write(self) -> None:
        packages: dict[str, list[XgmiGpu]] = defaultdict(list)
        for gpu in self.gpus:
            gpu.vertex = gpu.id
            if gpu.part:
                packages[gpu.node.board].append(gpu)
        for board, members in packages.items():
            self._package(board, members)
        self._join()
        for what, count in self.unstated.items():
            self.builder.report.append(f"KFD does not state the bandwidth of {count} {what}")

    def _package(self, board: str, members: Sequence[XgmiGpu]) -> None:
        ports: dict[str, float] = {}
        for gpu in members:
            inside = [
                link.get("max_bandwidth", 0)
                for node, link in gpu.links.items()
                if node in self.of_node and self.of_node[node].node.board == board
            ]
            ports[gpu.id] = max(inside, default=0) * _MB or k.XGMI_IN_PACKAGE
            if not max(inside, default=0):
                self.unstated[f"ports in packages: {_gb(k.XGMI_IN_PACKAGE)} assumed"] += 1
        fabric = add_package(self.builder, board, ports)
        for gpu in members:
            gpu.vertex = fabric

    def _join(self) -> None:
        """One bond for each pair of vertices that a direct link joins."""
        joined: set[frozenset[str]] = set()
        far = 0
        for gpu in self.gpus:
            for number, link in sorted(gpu.links.items()):
                peer = self.of_node.get(number)
                if peer is None:
                    continue
                ends = frozenset((gpu.vertex, peer.vertex))
                if len(ends) < 2 or ends in joined:
                    continue
                if _own_weight(link, gpu, peer) > _HOP_WEIGHT:
                    far += gpu.node.number < number
                    continue
                joined.add(ends)
                self._bond(gpu, peer, link, peer.links.get(gpu.node.number, link))
        if far:
            self.builder.report.append(
                f"KFD names {far} more xGMI pairs without a link of their own: they are routed over"
                " what lies between"
            )

    def _bond(
        self, gpu: XgmiGpu, peer: XgmiGpu, link: Mapping[str, int], back: Mapping[str, int]
    ) -> None:
        forward = link.get("max_bandwidth", 0) * _MB
        backward = back.get("max_bandwidth", 0) * _MB
        least = link.get("min_bandwidth", 0) * _MB
        lane = gpu.node.lane
        unit = least if 0 < least < forward else lane.data_sheet
        if lane is k.XGMI_UNKNOWN and forward:  # what is stated is all that is known
            unit = least if 0 < least < forward else forward
            lane = replace(lane, achievable=lane.achievable / lane.data_sheet * unit)
        count = max(1, min(_MOST_LANES, round((forward or unit) / unit)))
        if not forward:
            self.unstated[f"xGMI links: {_gb(lane.data_sheet)} assumed ({lane.name})"] += 1
        self.builder.link(
            LinkKind.XGMI,
            gpu.vertex,
            peer.vertex,
            bytes_per_s=forward or lane.data_sheet,
            backward_bytes_per_s=backward or forward or lane.data_sheet,
            flow_bytes_per_s=min(forward or lane.data_sheet, lane.achievable * count),
            latency_s=k.LATENCY_XGMI,
            count=count,
            name=lane.name,
        )


def _own_weight(link: Mapping[str, int], gpu: XgmiGpu, peer: XgmiGpu) -> int:
    """The weight of the way between two packages, without the ways through them."""
    return link.get("weight", 0) - (gpu.part + peer.part) * _PACKAGE_WEIGHT


def _gb(bytes_per_s: float) -> str:
    return f"{bytes_per_s / k.GB_PER_S:g} GB/s"
