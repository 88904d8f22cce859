"""What a machine is: devices, NICs, what lies between them, links with capacities, and routes.

A `Topology` is a multigraph of *vertices* (devices, NICs, components) joined by *links*, and a
list of directed *routes* over those links. Shared capacity lives on links, the limit of a single
flow on routes: both are needed, because a pair matrix alone cannot predict time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import cached_property

from msgspec import field

from toposeat.errors import PartError
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.few import first_few
from toposeat.model.noun import Noun, short_name
from toposeat.model.pair import (
    Bond,
    HostNumbers,
    LaneState,
    LinkKind,
    Pair,
    PairNumbers,
    Values,
)
from toposeat.model.quantity import (
    MAX_INDEX,
    MAX_MEMORY_BYTES,
    Premise,
    Quantity,
    check_bandwidth,
    check_latency,
    check_number,
    quantity_fields,
)
from toposeat.model.record import Record
from toposeat.model.route import (
    CopyProtocol,
    CurvePoint,
    PathClass,
    Route,
    RouteCurve,
    first_fault,
)

__all__ = [
    "ANY_HOST",
    "Bond",
    "MEASURED_PORTS",
    "MAX_PCIE_NUMBER",
    "Component",
    "ComponentKind",
    "HostNumbers",
    "CopyProtocol",
    "CurvePoint",
    "Device",
    "FactKind",
    "LaneState",
    "Link",
    "LinkKind",
    "LinkLayer",
    "Nic",
    "Pair",
    "PairNumbers",
    "PathClass",
    "PcieState",
    "Route",
    "RouteCurve",
    "Topology",
    "Vendor",
    "canonical_pci",
    "with_named_premises",
]

MEASURED_PORTS = "measured-ports"  # the crossbar that stands for links that no source lists
ANY_HOST = "*"  # the one host of a topology that describes a kind of machine, not a named one

MAX_PCIE_NUMBER = 64  # of generations and lanes

_PCI = re.compile(
    r"^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$", re.IGNORECASE | re.ASCII
)


class Vendor(StrEnum):
    """Who made a device; decides which visibility variables apply."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"
    UNKNOWN = "unknown"


class LinkLayer(StrEnum):
    """What the ports of an RDMA adapter speak, in Linux' words."""

    INFINIBAND = "InfiniBand"
    ETHERNET = "Ethernet"


class FactKind(StrEnum):
    """What a source may list completely; then a missing fact is absent, otherwise untold."""

    DEVICE_LINKS = "device links"  # which pairs have NVLink, xGMI or Xe Link
    PCIE_PATHS = "PCIe paths"
    PEER_ACCESS = "peer access"
    AFFINITY = "affinity"  # near CPUs or NUMA node of every device
    NICS = "NICs"


class ComponentKind(StrEnum):
    """What a vertex that is neither device nor NIC stands for (hwloc's terms)."""

    SWITCH = "switch"  # PCIe switch, or the switch on a multi-GPU board
    NVSWITCH = "nvswitch"  # crossbar of device links (NVSwitch; also the AMD/Intel equivalents)
    HOST_BRIDGE = "host_bridge"
    NUMA = "numa"
    PACKAGE = "package"  # socket
    NETWORK = "network"  # a switch or router outside the node


def canonical_pci(text: str) -> str:
    """The one spelling of a PCI bus id used everywhere: `dddd:bb:dd.f`, lower case.

    Accepts a missing domain and the 8-digit domain of NVML.

    Raises:
        ValueError: if `text` is not a PCI bus id.
    """
    match = _PCI.match(text.strip())
    if match is None:
        raise ValueError(f"not a PCI bus id: {text!r}")
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}".lower()


class PcieState(Record, frozen=True, kw_only=True):
    """How the own PCIe link of a device or NIC runs now, and how it could; None is "not known".

    Idle GPUs lower the generation (signalling rate) of their link, never its width.
    """

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None

    def __post_init__(self) -> None:
        for what in ("generation", "width", "max_generation", "max_width"):
            value = getattr(self, what)
            if value is not None and not 1 <= value <= MAX_PCIE_NUMBER:
                raise ValueError(f"a PCIe {what} must be 1 to {MAX_PCIE_NUMBER}, not {value}")


class Device(Record, frozen=True, kw_only=True):
    """One schedulable GPU or partition of one (MIG slice, GCD, tile); None is untold.

    `index` is the number nvidia-smi and friends show: for display, never for identity; every device
    of a whole machine has one.
    `numa_node` is the operating system's number; `cpus` are the near CPUs, a Linux list ("0-15").
    `forwards` says that the hardware relays traffic of others through this device (MI250X GCDs).
    `copy_bytes_per_s` and `copy_latency_s` are those of a copy within the device, which ranks that
    share it use; None is "not known" and counts as free. `pcie` is the state of its own PCIe link,
    `inactive_lanes` how many of its device links (NVLink, xGMI, Xe Link) are there but down.
    `parent` names the GPU, board or package that this device is a part of; parts of one whole have
    the same, and "" stands for a device that is told to be whole. `told_by` names the source of
    each member, where several were merged.
    """

    id: str
    index: int | None = None
    host: str = ANY_HOST
    vendor: Vendor = Vendor.UNKNOWN
    name: str = ""
    pci_bus_id: str | None = None
    uuid: str | None = None
    numa_node: int | None = None
    cpus: str | None = None
    memory_bytes: int | None = None
    forwards: bool | None = None
    copy_bytes_per_s: Quantity | None = None
    copy_latency_s: Quantity | None = None
    pcie: PcieState | None = None
    inactive_lanes: int | None = None
    parent: str | None = None
    told_by: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        check_number("index", self.index, MAX_INDEX)
        check_number("numa_node", self.numa_node, MAX_INDEX)
        check_number("memory_bytes", self.memory_bytes, MAX_MEMORY_BYTES)
        check_number("inactive_lanes", self.inactive_lanes, MAX_INDEX)
        _check_pci(self.pci_bus_id)
        _check_cpus(self.cpus)
        check_bandwidth(self.copy_bytes_per_s)
        check_latency(self.copy_latency_s)

    def __hash__(self) -> int:
        return hash((self.host, self.id))

    @property
    def number(self) -> int:
        """The index of a device of a whole machine."""
        assert self.index is not None, f"{self.id} is of a partial topology"
        return self.index


class Nic(Record, frozen=True, kw_only=True):
    """One network adapter of a host; `name` is what UCX or libfabric call it (`mlx5_0`, `cxi0`).

    `pcie` is the state of its PCIe link, `bytes_per_s` the rate of its active ports per direction;
    `active` says whether any port is, `link_layer` what they speak. `index` and `told_by` are as
    those of a `Device`.
    """

    id: str
    index: int | None = None
    host: str = ANY_HOST
    name: str = ""
    pci_bus_id: str | None = None
    numa_node: int | None = None
    pcie: PcieState | None = None
    bytes_per_s: Quantity | None = None
    active: bool | None = None
    link_layer: LinkLayer | None = None
    told_by: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        check_number("index", self.index, MAX_INDEX)
        check_number("numa_node", self.numa_node, MAX_INDEX)
        _check_pci(self.pci_bus_id)
        check_bandwidth(self.bytes_per_s)

    def __hash__(self) -> int:
        return hash((self.host, self.id))

    @property
    def number(self) -> int:
        """The index of an adapter of a whole machine."""
        assert self.index is not None, f"{self.id} is of a partial topology"
        return self.index


class Component(Record, frozen=True, kw_only=True):
    """A vertex that only passes traffic on, or holds CPUs.

    `cores` are the CPU lists of its cores, `0,32` of one with two hardware threads; `caches` are
    those of its last-level caches where it has several.
    """

    id: str
    kind: ComponentKind
    host: str = ANY_HOST
    name: str = ""
    pci_bus_id: str | None = None
    numa_node: int | None = None
    cpus: str | None = None
    cores: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_number("numa_node", self.numa_node, MAX_INDEX)
        _check_pci(self.pci_bus_id)
        for cpus in (self.cpus, *self.cores, *self.caches):
            _check_cpus(cpus)


class Link(Record, frozen=True, kw_only=True):
    """One physical channel between two vertices.

    `forward_bytes_per_s` is the capacity from `ends[0]` to `ends[1]`, `backward_bytes_per_s` the
    other way, `combined_bytes_per_s` the limit on both directions together where the hardware has
    one (cross-socket links; PCIe in part), `flow_bytes_per_s` what a single flow reaches where that
    is less than the capacity. Bonded lanes are one link with `count` > 1, whose capacities are
    those of the whole bond. `told_by` names the source that draws it, where several were merged.
    """

    id: str
    kind: LinkKind
    ends: tuple[str, str]
    forward_bytes_per_s: Quantity
    backward_bytes_per_s: Quantity
    combined_bytes_per_s: Quantity | None = None
    flow_bytes_per_s: Quantity | None = None
    latency_s: Quantity
    count: int = 1
    name: str = ""
    told_by: str | None = None

    def __post_init__(self) -> None:
        if self.ends[0] == self.ends[1]:
            raise ValueError(f"link {self.id!r} joins {self.ends[0]!r} to itself")
        if not 1 <= self.count <= MAX_INDEX:
            raise ValueError(f"a link has 1 lane or more, not {self.count}")
        for capacity in (self.forward_bytes_per_s, self.backward_bytes_per_s):
            check_bandwidth(capacity)
        check_bandwidth(self.combined_bytes_per_s)
        check_bandwidth(self.flow_bytes_per_s)
        check_latency(self.latency_s)


class Topology(Noun, Record, frozen=True, kw_only=True, dict=True):
    """One machine: a node, or several nodes joined by a network; or what one source tells of it.

    A *partial* topology is what a source tells: perhaps no links, no indices, numbers of pairs that
    are not on routes yet. Merging folds partial topologies into one and derives the rest. `tells`
    are the kinds of fact that the source lists completely: of those, what is missing is absent; of
    all others it is untold.

    `origin` says what was read ("nvidia-smi topo -m text", "catalogue"); `report` lists what the
    reader doubted, one sentence each; `sources` names published facts for catalogue entries.
    `hidden` are the PCI bus ids of GPUs that the machine has and the reading process could not use
    (cgroup, container): they are no devices. `others` are devices that a list of the job
    (CUDA_VISIBLE_DEVICES) leaves out: nothing is placed on them, and numbers in such lists count
    them. `pairs` is what is told of pairs of vertices;
    `flows_fill_links` says that a single flow is told to reach the capacity of its links, else the
    processor decides. `routes` follow from links and pairs
    (`topology.graph.routes.with_routes`). `premises` are what its assumed numbers depend on.
    The order of `devices` is the default order: rank i of the default placement gets `devices[i]`.
    Only `check` checks the members; the derivation of routes and the loading of files call it.
    """

    name: str = ""
    origin: str
    devices: tuple[Device, ...]
    nics: tuple[Nic, ...] = ()
    components: tuple[Component, ...] = ()
    links: tuple[Link, ...] = ()
    pairs: tuple[Pair, ...] = ()
    flows_fill_links: bool = True
    routes: tuple[Route, ...] = ()
    report: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    others: tuple[Device, ...] = ()
    tells: tuple[FactKind, ...] = ()
    numbers: tuple[PairNumbers, ...] = ()
    host_copies: tuple[HostNumbers, ...] = ()
    lanes: tuple[LaneState, ...] = ()
    premises: tuple[Premise, ...] = ()

    def __repr__(self) -> str:
        names = Counter(device.name or device.vendor.value for device in self.devices)
        each = (f"{count} x {short_name(name)}" for name, count in names.most_common())
        kinds = first_few(each, 2)
        hosts = f" on {len(self.hosts)} hosts" if len(self.hosts) > 1 else ""
        what = f"{kinds or 'no devices'}{hosts}, {len(self.links)} links"
        return f"<Topology {short_name(self.name)}: {what}>"

    def rates(self) -> Values:
        """What one copy from one device to another reaches alone, in bytes per second.

        It is the one rate of a pair that predictions, `choose` and the matrix of `discover` use.

        Returns:
            Shape (n, n), float64: row = source, column = target, in the order of `devices`. The
            diagonal is a copy within the device, infinite where that is not known.

        Raises:
            InputError: two devices without a route.
        """
        matrix: Values = Noun.above("rates_of")(self)
        return matrix

    def check(self) -> None:
        """Refuse members that contradict each other.

        Raises:
            PartError: an id, index or bus id that appears twice, a link, pair or route of unknown
                vertices, a route that is no walk over the links.
            ValueError: text that is no PCI bus id.
        """
        for bus in self.hidden:
            _check_pci(bus)
        _check_unique("device", "devices", (d.id for d in self.devices))
        _check_unique(
            "device index",
            "devices",
            (None if d.index is None else f"{d.host}:{d.index}" for d in self.devices),
        )
        _check_unique(
            "PCI bus id",
            "devices",
            (_on_host(d, d.pci_bus_id) for d in self.devices),
        )
        _check_unique("link", "links", (link.id for link in self.links))
        _check_unique("premise", "premises", (premise.what for premise in self.premises))
        known: set[str] = set()
        for member, vertices in (
            ("devices", self.devices),
            ("nics", self.nics),
            ("components", self.components),
        ):
            _check_unique("vertex", member, (v.id for v in vertices), known)
        for number, link in enumerate(self.links):
            for end in link.ends:
                if end not in known:
                    raise PartError(
                        f"link {link.id!r} ends at unknown vertex {end!r}", "links", number
                    )
        _check_unique("pair", "pairs", (f"{p.source} -> {p.target}" for p in self.pairs))
        for number, pair in enumerate(self.pairs):
            if not known >= {pair.source, pair.target}:
                raise PartError(
                    f"pair {pair.source} -> {pair.target} has an unknown end", "pairs", number
                )
        self._check_routes(known)

    def _check_routes(self, known: set[str]) -> None:
        _check_unique("route", "routes", (f"{r.source} -> {r.target}" for r in self.routes))
        fault = first_fault(self.routes, {link.id: link.ends for link in self.links}, known)
        if fault:
            number, what = fault
            route = self.routes[number]
            raise PartError(f"route {route.source} -> {route.target} {what}", "routes", number)

    @cached_property
    def route_of_pair(self) -> Mapping[tuple[str, str], Route]:
        """Routes by (source id, target id)."""
        return {(r.source, r.target): r for r in self.routes}

    @cached_property
    def pair_of_ends(self) -> Mapping[tuple[str, str], Pair]:
        """What is told of pairs by (source id, target id)."""
        return {(p.source, p.target): p for p in self.pairs}

    @cached_property
    def link_of_id(self) -> Mapping[str, Link]:
        """Links by id."""
        return {link.id: link for link in self.links}

    @cached_property
    def between_sockets(self) -> frozenset[str]:
        """Ids of the links that lead from one socket to another: not those within a package."""
        packages = {c.id for c in self.components if c.kind is ComponentKind.PACKAGE}
        return frozenset(
            link.id
            for link in self.links
            if link.kind is LinkKind.SMP and len(packages.intersection(link.ends)) != 1
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names in the order in which devices name them."""
        return tuple(dict.fromkeys(d.host for d in self.devices))


def with_named_premises(topology: Topology) -> Topology:
    """The topology without the premises that none of its numbers names."""
    if not topology.premises:
        return topology
    named = {what for each in _numbers(topology) for what in each.premises}
    kept = tuple(premise for premise in topology.premises if premise.what in named)
    return topology if len(kept) == len(topology.premises) else replace(topology, premises=kept)


def _numbers(topology: Topology) -> Iterator[Quantity]:
    for record in (*topology.links, *topology.routes):
        for name in quantity_fields(type(record)):
            quantity = getattr(record, name)
            if quantity is not None:
                yield quantity


def _check_pci(text: str | None) -> None:
    if text is not None and canonical_pci(text) != text:
        raise ValueError(f"write PCI bus id {text!r} as {canonical_pci(text)!r}")


def _check_cpus(text: str | None) -> None:
    if text is not None:
        parse_cpu_list(text)


def _on_host(device: Device, value: object) -> str | None:
    return None if value is None else f"{device.host}:{value}"


def _check_unique(
    what: str, member: str, ids: Iterable[str | None], seen: set[str] | None = None
) -> None:
    """Refuse an id of the list `member` that was there before; None stands for no id."""
    seen = set() if seen is None else seen
    for number, each in enumerate(ids):
        if each is None:
            continue
        if each in seen:
            raise PartError(f"{what} {each!r} appears twice", member, number)
        seen.add(each)
