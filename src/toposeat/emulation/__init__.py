"""A stand-in GPU node: a Topology as emulated devices whose copies take the time its links need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.emulation.machine_file import machine_text, scaled_topology
    from toposeat.emulation.node import (
        VARIABLES,
        EmulatedNode,
        emulated_machine,
        emulated_node,
        emulated_processor,
    )
else:
    __getattr__ = door(__name__, __file__)
