"""A stand-in GPU node: a Topology as emulated devices whose copies take the time its links need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.emulation.machine_file import machine_text
    from toposeat.emulation.node import VARIABLES, EmulatedNode, emulated_machine, emulated_node
    from toposeat.emulation.scaled import scaled_topology
else:
    __getattr__ = door(__name__, __file__)
