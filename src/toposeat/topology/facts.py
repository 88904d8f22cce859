"""What a table-like source knows of one machine; a graph-like source gives a `Topology` instead.

A reader of `nvidia-smi nvlink -s` or of a measured matrix knows a few true things and no graph.
It states exactly those: None, NaN and missing pairs mean "not known" and stay so. Only `merge`
puts facts onto a graph, or makes one of them where they suffice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.number_checks import check_pair_number
from toposeat.model.quantity import Source
from toposeat.model.topology import LinkKind, Vendor, canonical_pci
from toposeat.topology.graph.relation import RelationMatrix

BANDWIDTH = "bandwidth"  # bytes/s
LATENCY = "latency"  # seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFact:
    """One GPU, GCD, tile or MIG slice as a source names it.

    Args:
        label: what the source calls it, unique in it: `GPU0`, `GPU 0/1`, `card2`.
        index: the number of the vendor's own tools (nvidia-smi, rocm-smi); None if not stated.
        vendor: who made it.
        name: of the product.
        pci_bus_id: canonical (`canonical_pci`); None for partitions that share one.
        uuid: as the driver prints it.
        numa_node: the operating system's number of the near memory node.
        cpus: the near CPUs, a Linux list.
        memory_bytes: of the device.
        pcie_generation: of its PCIe link now; idle devices slow their links down.
        pcie_width: lanes of its PCIe link now.
        pcie_max_generation: what device and slot can do.
        pcie_max_width: likewise.
        parent: label of the physical package or board that GCDs, tiles and slices share.
        forwards: whether it relays traffic between others; None if not stated.
    """

    label: str
    index: int | None = None
    vendor: Vendor = Vendor.UNKNOWN
    name: str = ""
    pci_bus_id: str | None = None
    uuid: str | None = None
    numa_node: int | None = None
    cpus: str | None = None
    memory_bytes: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    parent: str | None = None
    forwards: bool | None = None

    def __post_init__(self) -> None:
        if self.pci_bus_id is not None and canonical_pci(self.pci_bus_id) != self.pci_bus_id:
            raise ValueError(
                f"write PCI bus id {self.pci_bus_id!r} as {canonical_pci(self.pci_bus_id)!r}"
            )
        if self.cpus is not None:
            parse_cpu_list(self.cpus)
        _check_least("index", self.index, 0)
        _check_least("NUMA node", self.numa_node, 0)
        _check_least("memory", self.memory_bytes, 0)
        for generation in (self.pcie_generation, self.pcie_max_generation):
            _check_least("PCIe generation", generation, 1)
        for width in (self.pcie_width, self.pcie_max_width):
            _check_least("PCIe width", width, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class NicFact:
    """One network adapter. `name` is what UCX or libfabric call it ("" if not known)."""

    label: str
    name: str = ""
    pci_bus_id: str | None = None
    numa_node: int | None = None

    def __post_init__(self) -> None:
        if self.pci_bus_id is not None and canonical_pci(self.pci_bus_id) != self.pci_bus_id:
            raise ValueError(
                f"write PCI bus id {self.pci_bus_id!r} as {canonical_pci(self.pci_bus_id)!r}"
            )
        _check_least("NUMA node", self.numa_node, 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class PairNumbers:
    """One number for each ordered pair of devices.

    Args:
        what: `BANDWIDTH` (bytes/s) or `LATENCY` (seconds).
        values: shape (n, n) for the n devices of the facts, float64. `values[i, j]` is of data
            that moves from device i to device j, whoever drives the copy. NaN is not known; 0 is a
            pair for which the source printed zero; others are within `PAIR_RANGES`. The diagonal is
            a copy within the device, counting each copied byte once (the p2pBandwidthLatencyTest
            sample counts it twice: halve). Made read-only.
        peer: whether peer access was on; None if not known.
        both_ways: both directions at once, and the number is the sum of the two.
        engine: "ce" (copy engine, DMA), "sm" (kernel), "" not stated.
        operation: who drove it: "read" (the target pulls), "write" (the source pushes), "".
        source: normally `MEASURED`; `NOMINAL` for numbers that a tool derives from link speeds.
    """

    what: str
    values: NDArray[np.float64]
    peer: bool | None = None
    both_ways: bool = False
    engine: str = ""
    operation: str = ""
    source: Source = Source.MEASURED

    def __post_init__(self) -> None:
        _check_what(self.what)
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 2 or values.shape[0] != values.shape[1]:
            raise ValueError(f"pair numbers of shape {values.shape}: not one row a column")
        with np.errstate(invalid="ignore"):
            if (values < 0).any() or np.isinf(values).any():
                raise ValueError(f"a {self.what} is negative or infinite")
        if (known := values[values > 0]).size:
            check_pair_number(self.what, float(known.min()))
            check_pair_number(self.what, float(known.max()))
        values.setflags(write=False)
        object.__setattr__(self, "values", values)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostNumbers:
    """Copies between host memory and one device; bytes/s or seconds, None where not known.

    `device` is a position in `MachineFacts.devices`; `numa_node` is the operating system's number
    of the node that holds the host memory, None if the source does not say.
    """

    what: str
    device: int
    numa_node: int | None = None
    to_device: float | None = None
    from_device: float | None = None
    source: Source = Source.MEASURED

    def __post_init__(self) -> None:
        _check_what(self.what)
        for value in (self.to_device, self.from_device):
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"a host {self.what} of {value}")
            check_pair_number(self.what, value)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaneState:
    """One NVLink, xGMI or Xe Link lane of a device, as its driver reports it.

    `bytes_per_s` is per direction, None for an inactive lane. `remote_kind` is what lies at its
    other end: "device", "switch", "host" or "" (not stated), `remote_pci` the bus id of that.
    """

    device: int
    lane: int
    bytes_per_s: float | None
    remote_pci: str | None = None
    remote_kind: str = ""

    def __post_init__(self) -> None:
        if self.bytes_per_s is not None and not 0 < self.bytes_per_s < float("inf"):
            raise ValueError(f"lane {self.lane} runs at {self.bytes_per_s} bytes/s")
        check_pair_number(BANDWIDTH, self.bytes_per_s)
        if self.remote_kind not in ("", "device", "switch", "host"):
            raise ValueError(f"a lane ends at a {self.remote_kind!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkFact:
    """One bond between two devices that a driver states at link level (KFD, NVML).

    `i` and `j` are positions in `MachineFacts.devices`; capacities are those of the whole bond in
    bytes/s, None where the driver does not say. State a bond once, with i < j. A driver's table
    of reachable peers is no bond: list direct links only. `name` is for display.
    """

    kind: LinkKind
    i: int
    j: int
    count: int = 1
    forward_bytes_per_s: float | None = None
    backward_bytes_per_s: float | None = None
    source: Source = Source.NOMINAL
    name: str = ""

    def __post_init__(self) -> None:
        if self.i == self.j or self.count < 1:
            raise ValueError(f"{self.count} links between device {self.i} and device {self.j}")
        for value in (self.forward_bytes_per_s, self.backward_bytes_per_s):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"a link of {value} bytes/s")
            check_pair_number(BANDWIDTH, value)


@dataclass(frozen=True, kw_only=True, eq=False)
class MachineFacts:
    """All that one source of tables states of one machine.

    Args:
        origin: what was read, for people: "nvidia-smi topo -p2p text".
        devices: in the order of the source; every index below is a position in this tuple.
        nics: likewise.
        relations: best link of each pair (`topo -m`). Its GPUs are `devices`, in order; its NICs
            are `nics`, in order.
        pcie_relations: PCIe path of each pair, NVLink left out (`topo -mp`), of the same endpoints.
        peer_access: by (source, target) position; a pair that is missing is not known.
        pairs: measured or stated numbers of pairs.
        host: numbers between host memory and devices.
        lanes: states of single lanes.
        links: bonds at link level.
        report: what the reader doubted, one sentence each.

    Raises:
        ValueError: a position without device, a label, index, PCI bus id or UUID given twice,
            matrices of another size.
    """

    origin: str
    devices: tuple[DeviceFact, ...]
    nics: tuple[NicFact, ...] = ()
    relations: RelationMatrix | None = None
    pcie_relations: RelationMatrix | None = None
    peer_access: Mapping[tuple[int, int], bool] = field(default_factory=dict)
    pairs: tuple[PairNumbers, ...] = ()
    host: tuple[HostNumbers, ...] = ()
    lanes: tuple[LaneState, ...] = ()
    links: tuple[LinkFact, ...] = ()
    report: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.devices:
            raise ValueError("facts without any device")
        _check_unique("device", (d.label for d in self.devices))
        _check_unique("index", (d.index for d in self.devices))
        _check_unique("PCI bus id", (d.pci_bus_id for d in self.devices))
        _check_unique("UUID", (d.uuid for d in self.devices))
        count = len(self.devices)
        positions = [
            *(i for pair in self.peer_access for i in pair),
            *(h.device for h in self.host),
            *(lane.device for lane in self.lanes),
            *(i for link in self.links for i in (link.i, link.j)),
        ]
        if any(not 0 <= i < count for i in positions):
            raise ValueError(f"a number of a device beyond the {count} there are")
        for numbers in self.pairs:
            if len(numbers.values) != count:
                raise ValueError(f"{len(numbers.values)} rows of {numbers.what}, {count} devices")
        for matrix in (self.relations, self.pcie_relations):
            if matrix is not None and len(matrix.gpus) != count:
                raise ValueError(f"relations of {len(matrix.gpus)} GPUs, {count} devices")
            if matrix is not None and len(matrix.nics) != len(self.nics):
                raise ValueError(f"relations of {len(matrix.nics)} NICs, {len(self.nics)} listed")


def facts_of_relations(
    matrix: RelationMatrix, *, origin: str, vendor: Vendor, numbers: Iterable[int] | None = None
) -> MachineFacts:
    """The facts that a matrix of best links states.

    Args:
        matrix: what the source states.
        origin: what was read.
        vendor: of all GPUs in it.
        numbers: the vendor's index of each GPU; by default the digits of its label.
    """
    indices = list(numbers) if numbers is not None else [int(gpu[3:]) for gpu in matrix.gpus]
    return MachineFacts(
        origin=origin,
        devices=tuple(
            DeviceFact(
                label=label,
                index=indices[i],
                vendor=vendor,
                name=matrix.gpu_names[i],
                pci_bus_id=matrix.gpu_pci[i],
                uuid=matrix.gpu_uuids[i],
                numa_node=matrix.numa_affinity[i],
                cpus=matrix.cpu_affinity[i],
            )
            for i, label in enumerate(matrix.gpus)
        ),
        nics=tuple(
            NicFact(label=label, name=matrix.nic_names[i], pci_bus_id=matrix.nic_pci[i])
            for i, label in enumerate(matrix.nics)
        ),
        relations=matrix,
        report=matrix.report,
    )


def _check_what(what: str) -> None:
    if what not in (BANDWIDTH, LATENCY):
        raise ValueError(f"numbers are bandwidth or latency, not {what!r}")


def _check_least(what: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise ValueError(f"{what} must be {least} or more, not {value}")


def _check_unique(what: str, values: Iterable[object]) -> None:
    seen = set()
    for value in values:
        if value is not None and value in seen:
            raise ValueError(f"{what} {value!r} appears twice")
        seen.add(value)
