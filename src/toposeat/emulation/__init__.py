"""A stand-in GPU node: a Topology as emulated devices whose copies take the time its links need."""

from __future__ import annotations

from toposeat.emulation.machine_file import machine_text
from toposeat.emulation.node import EmulatedNode, emulated_machine, emulated_node
from toposeat.emulation.scaled import scaled_topology

__all__ = ["EmulatedNode", "emulated_machine", "emulated_node", "machine_text", "scaled_topology"]
