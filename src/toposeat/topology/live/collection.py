"""What live discovery collects before links are written: devices and where each one sits."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from toposeat.model.topology import Device, PcieState
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.pci_graph import Endpoint, Machine, PciDevice


@dataclass
class Collection:
    """The builder, the machine that sysfs shows, and the endpoints of the PCI tree so far."""

    builder: GraphBuilder
    machine: Machine
    endpoints: list[Endpoint] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)  # PCI bus ids of GPUs that cannot be used
    unseen: list[str] = field(default_factory=list)  # devices that sysfs does not show

    @property
    def next_index(self) -> int:
        """The display number after the highest so far."""
        return max((d.number + 1 for d in self.builder.devices), default=0)

    def add_gpu(
        self,
        device: Device,
        *,
        vendor: int,
        generation: int | None = None,
        function: PciDevice | None = None,
    ) -> None:
        """Add a device at a PCI function, with its place; without one that is not known.

        What the device states of its link counts before sysfs. `generation` is that of the link,
        where sysfs does not tell; `function` is needed where it is not that of the device's bus id.
        """
        bus = device.pci_bus_id or device.parent or ""
        function = function or self.machine.pci.get(bus)
        if function is None:
            self.unseen.append(f"{device.id} ({bus})")
            function = unplaced(bus, vendor)
        told, other = device.pcie or PcieState(), pcie_state(function) or PcieState()
        state = PcieState(
            generation=told.generation or other.generation,
            width=told.width or other.width,
            max_generation=told.max_generation or other.max_generation,
            max_width=told.max_width or other.max_width,
        )
        self.builder.devices.append(
            replace(
                device,
                host=self.builder.host,
                numa_node=function.numa_node,
                cpus=function.cpus or device.cpus,
                pcie=None if state == PcieState() else state,
            )
        )
        default = generation or products.pcie_generation_named(device.name)
        self.endpoints.append(Endpoint(device.id, function, default or k.DEFAULT_PCIE_GENERATION))

    def hide(self, functions: list[str], present: int, maker: str) -> None:
        """Note GPUs that exist and cannot be used; they do not become devices."""
        if functions:
            self.hidden += functions
            self.builder.report.append(
                f"{len(functions)} of {present} {maker} GPUs are hidden from this process"
                f" (cgroup, container, or driver): {', '.join(functions)}"
            )


def pcie_state(function: PciDevice | None) -> PcieState | None:
    """The state of a function's own link, as sysfs tells it; None if it tells nothing."""
    if function is None or not (function.generation or function.width or function.max_width):
        return None
    return PcieState(
        generation=function.current_generation,
        width=function.width,
        max_generation=function.generation,
        max_width=function.max_width,
    )


def can_render(dev: Path | None, node: str) -> bool:
    """Whether a process may open a GPU by its render node; without `dev` nothing is hidden."""
    if dev is None or not node or not (dev / "dri").is_dir():
        return True
    return os.access(dev / "dri" / node, os.R_OK | os.W_OK)


def unplaced(pci_bus_id: str, vendor: int) -> PciDevice:
    """The PCI function of a GPU that sysfs does not show."""
    return PciDevice(
        pci_bus_id=pci_bus_id,
        root="",
        bridges=(),
        vendor=vendor,
        device=0,
        class_code=0x030200,
        numa_node=None,
        cpus=None,
        generation=None,
        width=None,
        max_width=None,
    )
