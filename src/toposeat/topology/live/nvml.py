"""What NVIDIA's management library knows: devices, NVLinks, distances, peer access.

`read_nvml` takes the library as an object with the functions of nvidia-ml-py's `pynvml`; tests
give their own. Calls that a driver does not support leave their fields empty and one line in the
report.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from toposeat.model.cpu_list import cpu_list_of_mask
from toposeat.model.topology import (
    MAX_PCIE_NUMBER,
    Device,
    PathClass,
    PcieState,
    Vendor,
    canonical_pci,
)

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
_REMOTE_GPU, _REMOTE_CPU, _REMOTE_SWITCH = 0, 1, 2
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
    """One active NVLink of a device."""

    number: int
    version: int | None
    remote_pci: str | None
    to_switch: bool
    to_cpu: bool
    to_gpu: bool = False  # none of the three: NVML does not tell what is at the other end


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

    Args:
        library: `pynvml`, or an object with the same functions and `NVMLError`.

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
    mig = asker.ask("nvmlDeviceGetMigMode", handle)
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
    return NvmlGpu(device=device, mig=cut, slices=slices, links=links)


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
                number=number,
                version=versions.get(number)
                or asker.ask("nvmlDeviceGetNvLinkVersion", handle, number),
                remote_pci=None if hidden else _pci(pci),
                to_switch=kind == _REMOTE_SWITCH
                or (hidden and kind not in (_REMOTE_GPU, _REMOTE_CPU)),
                to_cpu=kind == _REMOTE_CPU,
                to_gpu=kind == _REMOTE_GPU,
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
