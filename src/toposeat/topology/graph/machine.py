"""PCI functions, the bridges above them, NUMA nodes, sockets and NICs, from any source."""

from __future__ import annotations

from dataclasses import dataclass

from toposeat.model.topology import LinkLayer

VENDOR_NVIDIA = 0x10DE
VENDOR_AMD = 0x1002
VENDOR_INTEL = 0x8086

_MANAGEMENT = {(VENDOR_AMD, 0x515E), (VENDOR_AMD, 0x5969)}  # ES1000: on server boards

# Least GT/s per lane of a generation.
_GENERATION = ((60.0, 6), (30.0, 5), (15.0, 4), (7.0, 3), (4.0, 2), (2.0, 1))


def pcie_generation(gigatransfers_per_s: float | None) -> int | None:
    """The PCIe generation that signals this fast per lane; None if that is not known."""
    speed = gigatransfers_per_s
    return next((g for least, g in _GENERATION if speed and speed >= least), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class PciDevice:
    """One PCI function. `bridges` are those above it, from the host bridge's root port down."""

    pci_bus_id: str
    root: str  # the host bridge's bus, "pci0000:16"; "" if the tree does not show it
    bridges: tuple[str, ...]
    vendor: int
    device: int
    class_code: int  # 24 bits
    numa_node: int | None
    cpus: str | None
    generation: int | None  # the fastest its link can be; idle devices slow their links down
    width: int | None
    max_width: int | None
    current_generation: int | None = None

    @property
    def is_management(self) -> bool:
        """Whether it is a server board's management controller that calls itself a GPU."""
        return (self.vendor, self.device) in _MANAGEMENT

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU: a display or processing accelerator of a GPU maker.

        Management controllers do not count, nor do Intel's graphics without a bridge above them,
        which are part of the CPU.
        """
        if self.is_management:
            return False
        graphics = self.class_code >> 16 == 0x03 or self.class_code >> 8 == 0x1200
        if self.vendor == VENDOR_INTEL:
            return graphics and bool(self.bridges)
        return graphics and self.vendor in (VENDOR_NVIDIA, VENDOR_AMD)


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkAdapter:
    """One adapter as UCX and libfabric name it.

    `bytes_per_s` is what its active ports carry per direction; `active` says whether one is,
    `link_layer` what they speak. A bond is one adapter, at its first interface's function.
    """

    name: str
    pci_bus_id: str
    bytes_per_s: float | None = None
    active: bool | None = None
    link_layer: LinkLayer | None = None


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine as sysfs or a file shows it. Keys of `pci` are canonical bus ids.

    `functions_per_link` says what the chains of bridges hold: sysfs lists the port above and the
    function below of every link (2), NCCL's files one element a link (1).
    """

    pci: dict[str, PciDevice]
    cpus_of_node: dict[int, str]
    package_of_node: dict[int, int]
    adapters: tuple[NetworkAdapter, ...] = ()
    report: tuple[str, ...] = ()
    functions_per_link: int = 2

    def gpus(self, vendor: int) -> list[PciDevice]:
        """The GPUs of one vendor in PCI bus order."""
        return [d for _, d in sorted(self.pci.items()) if d.is_gpu and d.vendor == vendor]
