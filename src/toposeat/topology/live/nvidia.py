"""NVIDIA's GPUs of the live machine: NVML's devices, MIG slices, and what only sysfs shows."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from ctypes import byref
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from toposeat.model.cpu_list import cpu_list_of_mask
from toposeat.model.graph import neighbours, shortest
from toposeat.model.topology import (
    MAX_PCIE_NUMBER,
    Device,
    LinkKind,
    PathClass,
    PcieState,
    Topology,
    Vendor,
    canonical_pci,
)
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.fabric_domain import domain_named
from toposeat.topology.graph.device_bonds import CountedLanes
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.pci_graph import VENDOR_NVIDIA
from toposeat.topology.graph.relation_graph import INFORMATION_FREE, draw_tree, pcie_levels
from toposeat.topology.live.collection import Collection
from toposeat.topology.relation import Relations
from toposeat.topology.told import told_pairs

DeviceIds = dict[int, list[str]]  # ids of the devices by position in the snapshot


def ask_nvml(nvml: Any) -> tuple[NvmlSnapshot | None, str]:
    """What NVML tells, None without NVML, and the reason to give if no GPU is found."""
    try:
        snapshot = read_nvml(load_pynvml() if nvml is None else nvml)
    except NvmlMissingError as error:
        return None, str(error)
    return snapshot, "NVML lists none"


def add_nvml_devices(found: Collection, snapshot: NvmlSnapshot) -> DeviceIds:
    """Add every GPU, or its MIG slices where it is in MIG mode.

    Whole GPUs keep NVML's number, slices are numbered after them: a number is for display, a slice
    is known by its UUID.
    """
    found.builder.report.extend(snapshot.report)
    whole = [gpu.device.number for gpu in snapshot.gpus if not gpu.mig]
    next_slice = max((gpu.device.number for gpu in snapshot.gpus), default=0) + 1 if whole else 0
    ids: DeviceIds = {}
    for position, gpu in enumerate(snapshot.gpus):
        if gpu.mig:
            _report_slices(found, gpu, next_slice)
            devices = [
                replace(each, id=f"gpu{number}", index=number)
                for number, each in enumerate(gpu.slices, next_slice)
            ]
            next_slice += len(devices)
        else:
            devices = [gpu.device]
            inactive = gpu.device.inactive_lanes
            if inactive and gpu.links:
                found.builder.report.append(
                    f"{gpu.device.id} has {inactive} inactive NVLinks beside {len(gpu.links)}"
                    " active ones"
                )
        for device in devices:
            generation = device.pcie.max_generation if device.pcie else None
            found.add_gpu(device, vendor=VENDOR_NVIDIA, generation=generation)
        ids[position] = [device.id for device in devices]
    return ids


def _report_slices(found: Collection, gpu: NvmlGpu, first: int) -> None:
    what = f"NVML's GPU {gpu.device.index} ({gpu.bus}) is in MIG mode"
    found.builder.report.append(
        f"{what}: its {len(gpu.slices)} slices, devices from {first} on, are known by UUID and have"
        " no peer access"
        if gpu.slices
        else f"{what} without slices: nothing can run on it, so it is left out"
    )


def add_unseen_nvidia(found: Collection, snapshot: NvmlSnapshot | None, reason: str) -> str:
    """Note GPUs that NVML does not list: a cgroup hides them, or there is no driver.

    GPUs that a cgroup hides do not become devices, because no rank can use them.

    Returns:
        The reason to give if no GPU is found.
    """
    present = found.machine.gpus(VENDOR_NVIDIA)
    if snapshot is not None:
        seen = {gpu.bus for gpu in snapshot.gpus}
        hidden = [f.pci_bus_id for f in present if f.pci_bus_id not in seen]
        found.hide(hidden, len(present), "NVIDIA")
        return "; ".join([reason, *snapshot.report[:1], *found.builder.report[-1:]])
    if present:
        found.builder.report.append(f"{reason}: UUIDs and NVLinks are not known")
    for index, function in enumerate(present):
        device = Device(
            id=f"gpu{index}",
            index=index,
            vendor=Vendor.NVIDIA,
            name=products.name_of_pci(VENDOR_NVIDIA, function.device),
            pci_bus_id=function.pci_bus_id,
        )
        found.add_gpu(device, vendor=VENDOR_NVIDIA)
    return reason


def stated_classes(
    builder: GraphBuilder, snapshot: NvmlSnapshot, ids: DeviceIds
) -> dict[tuple[str, str], PathClass]:
    """NVML's PCIe distances, for pairs that no NVLink joins; none where they say nothing."""
    if INFORMATION_FREE.items() <= builder.metadata.items():
        return {}
    joined = _nvlinked(builder, [id for each in ids.values() for id in each])
    return {
        pair: found
        for (i, j), found in snapshot.distances.items()
        for pair in _pairs(ids, i, j)
        if pair not in joined
    }


def draw_by_distance(
    builder: GraphBuilder, snapshot: NvmlSnapshot, ids: DeviceIds
) -> dict[str, str]:
    """Draw the PCIe tree of GPUs that sysfs does not show, as near as NVML says they are.

    Returns the NUMA vertex of each, by id.
    """
    classes = {
        pair: found for (i, j), found in snapshot.distances.items() for pair in _pairs(ids, i, j)
    }
    pairs = told_pairs({"pcie_class": classes})
    machine = Topology(origin="NVML", devices=tuple(builder.devices), pairs=pairs)
    relations = Relations.of(machine)
    levels = pcie_levels(relations, builder.report)
    return draw_tree(builder, relations, levels, products.lane_of(machine.devices[0]))


def stated_peers(snapshot: NvmlSnapshot, ids: DeviceIds) -> dict[tuple[str, str], bool]:
    """Whether peer access is possible, as NVML states it; never between MIG slices."""
    sliced = {i for i, gpu in enumerate(snapshot.gpus) if gpu.mig}
    peers = {
        pair: ok and not sliced & {i, j}
        for (i, j), ok in snapshot.peer_access.items()
        for pair in _pairs(ids, i, j)
    }
    for position in sliced:
        peers.update({(a, b): False for a in ids[position] for b in ids[position] if a != b})
    return peers


def _pairs(ids: DeviceIds, i: int, j: int) -> list[tuple[str, str]]:
    return [(a, b) for a in ids.get(i, ()) for b in ids.get(j, ())]


def _nvlinked(builder: GraphBuilder, ids: list[str]) -> set[tuple[str, str]]:
    """Pairs that reach each other over NVLink without a relaying GPU."""
    gpus = set(ids)
    nvlinks = [
        link.ends
        for link in builder.links
        if link.kind is LinkKind.NVLINK and not any(end.startswith("numa") for end in link.ends)
    ]
    near = neighbours(nvlinks)
    joined: set[tuple[str, str]] = set()
    for gpu in ids:
        reached = shortest([gpu], near, passes=lambda at: at not in gpus).keys() & gpus
        joined.update((gpu, other) for other in reached - {gpu})
    return joined


MAX_SLICES = 16  # 7 today
_ANY = frozenset(range(1000))  # errors that are not reported, whatever they are
MAX_LINKS = 36  # Blackwell has 18; the library answers "invalid argument" beyond what a device has
_NO_SUCH_LINK = frozenset({2, 3})  # invalid argument, not supported
_LINK_STATE, _LINK_VERSION = 165, 166  # fields of each NVLink
_FIELDS_SINCE = [9, 0]  # compute capability from which links are told by fields
_HIDDEN = re.compile(r"f{4,8}:f{2,4}:f{2}(\.\w)?", re.IGNORECASE)  # the other end, in a VM
_NO_SUCH_SLICE = frozenset({2, 3, 6})  # ... or not found: slices come and go, numbers stay
_PEER_OK, _PEER_UNKNOWN = 0, 6
_VIRTUAL = {1: "passthrough", 2: "vGPU"}  # virtualisation modes inside a virtual machine
_FABRIC_COMPLETED = 3  # state of the registration with the NVLink fabric
_ENDS = {0: "gpu", 1: "cpu", 2: "switch"}  # what NVML calls the other end of a link
_COMMON_ANCESTOR = {
    0: PathClass.PIX,  # two GPUs of one board
    10: PathClass.PIX,
    20: PathClass.PXB,
    30: PathClass.PHB,
    40: PathClass.NODE,
    50: PathClass.SYS,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class NvmlLink:
    """One active NVLink of a device; `end` is "gpu", "cpu", "switch", or "" where it is untold."""

    version: int | None
    remote_pci: str | None
    end: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NvmlGpu:
    """One GPU as a device, without its place in the machine.

    Its `pcie.max_generation` is what GPU and slot can do together. In MIG mode processes are given
    its `slices`, which have no index yet.
    """

    device: Device
    mig: bool
    slices: tuple[Device, ...]
    links: tuple[NvmlLink, ...]
    domain: str  # of NVLink over hosts; "" where it is in none

    @property
    def bus(self) -> str:
        """Its PCI bus id."""
        return self.device.pci_bus_id or ""


@dataclass(frozen=True, kw_only=True)
class NvmlSnapshot:
    """All GPUs, and what is known of ordered pairs of positions."""

    gpus: tuple[NvmlGpu, ...]
    driver: str | None
    virtual: str | None  # how a virtual machine gets its GPUs; None outside one
    distances: dict[tuple[int, int], PathClass]
    peer_access: dict[tuple[int, int], bool]
    report: tuple[str, ...]


NO_SNAPSHOT = NvmlSnapshot(
    gpus=(), driver=None, virtual=None, distances={}, peer_access={}, report=()
)


class NvmlMissingError(Exception):
    """The library or its driver is not there; the text says which."""


class _Asker:
    """Calls the library, and remembers what it would not answer."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.refused: dict[str, str] = {}

    def ask(self, function: str, *arguments: Any, harmless: frozenset[int] = frozenset()) -> Any:
        """The answer, or None. Error codes in `harmless` are answers too: nothing is there."""
        call: Callable[..., Any] | None = getattr(self.library, function, None)
        if call is None:
            self.refused.setdefault(function, "not in this version of the bindings")
            return None
        try:
            return call(*arguments)
        except self.library.NVMLError as error:
            if getattr(error, "value", None) not in harmless:
                self.refused.setdefault(function, str(error))
            return None

    def fields(self, handle: Any, field: int) -> dict[int, int]:
        """A field of each NVLink by link number; links without an answer are left out."""
        asked = [(field, number) for number in range(MAX_LINKS)]
        told = self.ask("nvmlDeviceGetFieldValues", handle, asked, harmless=_ANY) or ()
        return {n: each.value.uiVal for n, each in enumerate(told) if each.nvmlReturn == 0}

    def number(self, function: str, *arguments: Any) -> int | None:
        """A small number above 0; None where the library answers none (virtual GPUs answer 0)."""
        answer = self.ask(function, *arguments, harmless=_ANY)
        return answer if isinstance(answer, int) and 0 < answer <= MAX_PCIE_NUMBER else None


def load_pynvml() -> Any:
    """The bindings of nvidia-ml-py.

    Raises:
        NvmlMissingError: they are not installed.
    """
    try:
        import pynvml  # noqa: PLC0415 - needed on GPU nodes only
    except ImportError as error:
        raise NvmlMissingError("the Python package nvidia-ml-py is not installed") from error
    return pynvml


def read_nvml(library: Any) -> NvmlSnapshot:
    """Ask for everything once.

    Raises:
        NvmlMissingError: the driver or its library is not there.
    """
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise NvmlMissingError(f"NVML: {error}") from error
    try:
        return _read(_Asker(library))
    finally:
        with contextlib.suppress(library.NVMLError):
            library.nvmlShutdown()


def _read(asker: _Asker) -> NvmlSnapshot:
    report: list[str] = []
    handles: list[Any] = []
    gpus: list[NvmlGpu] = []
    seen: set[str] = set()
    for index in range(asker.ask("nvmlDeviceGetCount") or 0):
        handle = asker.ask("nvmlDeviceGetHandleByIndex", index)
        gpu = _gpu(asker, handle, index) if handle is not None else None
        if gpu is None or gpu.bus in seen:
            report.append(f"NVML cannot open GPU {index}: it is left out")
            continue
        seen.add(gpu.bus)
        handles.append(handle)
        gpus.append(gpu)
    distances: dict[tuple[int, int], PathClass] = {}
    peers: dict[tuple[int, int], bool] = {}
    for i, a in enumerate(handles):
        for j, b in enumerate(handles):
            if i == j:
                continue
            ancestor = asker.ask("nvmlDeviceGetTopologyCommonAncestor", a, b)
            if ancestor in _COMMON_ANCESTOR:
                distances[i, j] = _COMMON_ANCESTOR[ancestor]
            status = asker.ask("nvmlDeviceGetP2PStatus", a, b, 0)  # capability 0 is "read"
            if status not in (None, _PEER_UNKNOWN):
                peers[i, j] = status == _PEER_OK
    driver = asker.ask("nvmlSystemGetDriverVersion")
    modes = [asker.ask("nvmlDeviceGetVirtualizationMode", each, harmless=_ANY) for each in handles]
    report += [f"NVML did not answer {name}: {why}" for name, why in asker.refused.items()]
    return NvmlSnapshot(
        gpus=tuple(gpus),
        driver=_text(driver),
        virtual=next((_VIRTUAL[mode] for mode in modes if mode in _VIRTUAL), None),
        distances=distances,
        peer_access=peers,
        report=tuple(report),
    )


def _gpu(asker: _Asker, handle: Any, index: int) -> NvmlGpu | None:
    bus = _pci(asker.ask("nvmlDeviceGetPciInfo", handle))
    if bus is None:
        return None
    mig = asker.ask("nvmlDeviceGetMigMode", handle, harmless=_NO_SUCH_SLICE)
    cut = mig is not None and mig[0] == 1
    words = asker.ask("nvmlDeviceGetCpuAffinity", handle, 64)
    links, inactive = _links(asker, handle)
    device = replace(
        _named(asker, handle),
        id=f"gpu{index}",
        index=index,
        pci_bus_id=bus,
        cpus=cpu_list_of_mask([int(w) for w in words]) or None if words is not None else None,
        pcie=PcieState(
            generation=asker.number("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            width=asker.number("nvmlDeviceGetCurrPcieLinkWidth", handle),
            max_generation=asker.number("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            max_width=asker.number("nvmlDeviceGetMaxPcieLinkWidth", handle),
        ),
        inactive_lanes=inactive if links or inactive else None,
    )
    slices = tuple(_slices(asker, handle, device)) if cut else ()
    domain = _domain(asker, handle)
    return NvmlGpu(device=device, mig=cut, slices=slices, links=links, domain=domain)


def _domain(asker: _Asker, handle: Any) -> str:
    """The NVLink domain of a GPU that has joined one. Drivers before 550 know the older call."""
    for call, form in (
        ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t"),
        ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t"),
    ):
        make = getattr(asker.library, form, None)
        info = None if make is None else make()
        if info is None or asker.ask(call, handle, byref(info), harmless=_ANY) is None:
            continue
        if info.state != _FABRIC_COMPLETED or info.status != 0:
            return ""
        # Bytes by place: as a text of C they would end at the first zero.
        cluster = bytes(info)[type(info).clusterUuid.offset :][:16]
        return domain_named(str(UUID(bytes=cluster)), str(info.cliqueId))
    return ""


def _named(asker: _Asker, handle: Any) -> Device:
    """The fields that a GPU and a slice of one have in common."""
    memory = asker.ask("nvmlDeviceGetMemoryInfo", handle)
    return Device(
        id="",
        vendor=Vendor.NVIDIA,
        name=_text(asker.ask("nvmlDeviceGetName", handle)) or "",
        uuid=_text(asker.ask("nvmlDeviceGetUUID", handle)),
        memory_bytes=int(memory.total) if memory is not None else None,
    )


def _slices(asker: _Asker, handle: Any, gpu: Device) -> Iterator[Device]:
    seen: set[str | None] = {None}
    for number in range(
        min(asker.number("nvmlDeviceGetMaxMigDeviceCount", handle) or 0, MAX_SLICES)
    ):
        piece = asker.ask(
            "nvmlDeviceGetMigDeviceHandleByIndex", handle, number, harmless=_NO_SUCH_SLICE
        )
        if piece is None:
            continue
        told = _named(asker, piece)
        if told.uuid not in seen:
            seen.add(told.uuid)
            name = told.name or f"{gpu.name} MIG"
            yield replace(told, name=name, cpus=gpu.cpus, pcie=gpu.pcie, parent=gpu.pci_bus_id)


def _links(asker: _Asker, handle: Any) -> tuple[tuple[NvmlLink, ...], int]:
    """Active NVLinks, and how many more are there but down.

    "Invalid argument" and "not supported" say that there is no such link; other refusals are kept
    for the report. From Hopper on the state is a field; the older call need not tell it.
    """
    links: list[NvmlLink] = []
    inactive = 0
    capability = asker.ask("nvmlDeviceGetCudaComputeCapability", handle, harmless=_ANY)
    by_field = capability is not None and list(capability) >= _FIELDS_SINCE
    states = asker.fields(handle, _LINK_STATE) if by_field else {}
    versions = asker.fields(handle, _LINK_VERSION) if by_field else {}
    for number in range(MAX_LINKS):
        state = states.get(number)
        if state is None:
            state = asker.ask("nvmlDeviceGetNvLinkState", handle, number, harmless=_NO_SUCH_LINK)
        if state is None:
            continue
        if state != 1:
            inactive += 1
            continue
        pci = asker.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, number)
        kind = asker.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, number)
        hidden = pci is not None and _HIDDEN.fullmatch(_text(pci.busId) or "") is not None
        links.append(
            NvmlLink(
                version=versions.get(number)
                or asker.ask("nvmlDeviceGetNvLinkVersion", handle, number),
                remote_pci=None if hidden else _pci(pci),
                end=_ENDS.get(kind, "switch" if hidden else ""),
            )
        )
    return tuple(links), inactive


def _pci(info: Any) -> str | None:
    try:
        return canonical_pci(_text(info.busId) or "") if info is not None else None
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


_AMPERE = (k.NVLINK3, k.NVLINK3_BRIDGE)
_LANES_OF_VERSION = {  # NVML's numbers stand for 1.0, 2.0, 2.2, 3.0, 3.1, 4.0 and 5.0
    1: (k.NVLINK1,),
    2: (k.NVLINK2,),
    3: (k.NVLINK2,),
    4: _AMPERE,
    5: _AMPERE,
    6: (k.NVLINK4,),
    7: (k.NVLINK5,),
}
_SOMEWHERE = "?"  # a switch whose PCI bus id NVML does not tell


def add_live_nvlinks(
    builder: GraphBuilder,
    gpus: Sequence[NvmlGpu],
    numa_of: Mapping[str, str],
    present: Container[str],
) -> None:
    """Add direct bonds, NVSwitch fabrics, and links to CPUs (POWER9).

    `numa_of` has the NUMA vertex of each device, by id; `present` the PCI bus ids of all NVIDIA
    GPUs that the machine has, hidden ones too. GPUs in MIG mode use no NVLink.
    """
    ids = {gpu.bus: gpu.device.id for gpu in gpus}
    lanes = CountedLanes(builder, {gpu.device.id: _lane(gpu) for gpu in gpus})
    away: Counter[str] = Counter()
    for gpu in gpus:
        here = gpu.device.id
        for link in gpu.links:
            peer = ids.get(link.remote_pci or "")
            if peer is not None and link.end != "switch":
                lanes.to_device(here, peer)
            elif link.end == "switch":
                lanes.to_switch(here, link.remote_pci or _SOMEWHERE)
            elif link.end == "cpu":
                continue
            elif link.remote_pci is None:
                away["to where NVML does not tell"] += 1
            elif link.end == "gpu" or link.remote_pci in present:
                away["to GPUs that this process does not see"] += 1
            else:  # old drivers do not tell of what kind the other end is
                lanes.to_switch(here, link.remote_pci)
        to_cpu = sum(link.end == "cpu" for link in gpu.links)
        if to_cpu and here in numa_of:
            lanes.to_cpu(here, numa_of[here], to_cpu)
    builder.report.extend(f"{n} NVLinks lead {where}: left out" for where, n in away.items())
    lanes.draw()


def _lane(gpu: NvmlGpu) -> k.DeviceLink:
    """What a link is by NVML's own version; of those alike in it, the product's."""
    by_name = products.lane_named(gpu.device.name) or k.NVLINK_UNKNOWN
    told = _LANES_OF_VERSION.get(max((link.version or 0 for link in gpu.links), default=0))
    return by_name if told is None or by_name in told else told[0]
