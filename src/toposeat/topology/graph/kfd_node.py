"""One node of AMD's kernel driver as plain numbers, and what they tell of a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

from toposeat.model.topology import canonical_pci
from toposeat.topology import constants as k
from toposeat.topology import products

PCIE, XGMI = 2, 11  # types of links

# gfx_target_version: major, then two digits each of minor and stepping.
_FORWARDING_GFX = 90010  # MI200: its dies relay traffic of others
_PARTITIONED_GFX = frozenset({90400, 90401, 90402, 90500})  # MI300 and MI350


@dataclass(slots=True)
class KfdNode:
    """One node: CPUs of a memory node, or a GPU or partition.

    `links` are its io_links (xGMI and PCIe to neighbours), each a mapping of the kernel's numbers;
    `memory` likewise its memory banks.
    """

    number: int
    name: str = ""
    properties: dict[str, int] = field(default_factory=dict)
    links: list[dict[str, int]] = field(default_factory=list)
    memory: list[dict[str, int]] = field(default_factory=list)

    def told(self, name: str) -> int:
        """A property; 0 where it is not told."""
        return self.properties.get(name, 0)

    @property
    def is_gpu(self) -> bool:
        """Whether it has vector units."""
        return self.told("simd_count") > 0

    @property
    def is_shown(self) -> bool:
        """Whether the kernel showed its properties: it hides GPUs of other cgroups."""
        return bool(self.properties)

    @property
    def gfx(self) -> int:
        """Its instruction set, as a number."""
        return self.told("gfx_target_version")

    @property
    def bus(self) -> str:
        """The PCI bus id of a GPU.

        Partitions have the number of their part in the function digit (Linux 6.6), or in the upper
        half of the location (before).

        Raises:
            ValueError: the PCI domain is impossible.
        """
        return canonical_pci(f"{self._slot}.{self.told('location_id') & 7}")

    @property
    def board(self) -> str:
        """The PCI bus id of the GPU that the node is, or is a partition of."""
        return canonical_pci(f"{self._slot}.0") if self.gfx in _PARTITIONED_GFX else self.bus

    @property
    def _slot(self) -> str:
        location, domain = self.told("location_id") & 0xFFFF, self.told("domain")
        if domain > 0xFFFFFFFF:
            raise ValueError(f"node {self.number} is in PCI domain {domain}")
        return f"{domain:04x}:{location >> 8:02x}:{location >> 3 & 31:02x}"

    @property
    def uuid(self) -> str | None:
        """The UUID as ROCm writes it; partitions of one GPU share it."""
        unique = self.told("unique_id")
        return f"GPU-{unique:016x}" if unique else None

    @property
    def memory_bytes(self) -> int | None:
        """Bytes of the banks that are the device's own (heap types 1 and 2)."""
        own = sum(b.get("size_in_bytes", 0) for b in self.memory if b.get("heap_type") in (1, 2))
        return own or self.told("local_mem_size") or None

    @property
    def forwards(self) -> bool:
        """Whether it relays the traffic of others."""
        return self.gfx == _FORWARDING_GFX

    @property
    def lane(self) -> k.DeviceLink:
        """One of its xGMI links, by the data sheet of its product."""
        return products.lane_named(products.isa_of_gfx_version(self.gfx)) or k.XGMI_UNKNOWN

    @property
    def xgmi(self) -> dict[int, dict[str, int]]:
        """Its xGMI links as the driver states them, by the node at the other end."""
        return {
            link["node_to"]: link
            for link in self.links
            if link.get("type") == XGMI
            and "node_to" in link
            and link.get("node_from", self.number) == self.number
        }
