"""toposeat seats ranks on GPUs: profile, learn the machine, place, launch, prove.

What is imported from here is the public interface, described in docs/reference/python.md; each name
is imported at its first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from toposeat.door import door
from toposeat.installed import VERSION
from toposeat.model.noun import Noun

if TYPE_CHECKING:
    from toposeat.errors import ToposeatError, UsageError
    from toposeat.library.calls import (
        draw,
        evaluate,
        group_rate,
        load_placement,
        machine_names,
        map_traffic,
        placement_of,
        read_topology,
        read_traffic,
        save_placement,
        save_topology,
    )
    from toposeat.model.evaluation import Certificate, Evaluation, MappingResult
    from toposeat.model.group_rate import GroupRate
    from toposeat.model.map_options import Constraints, MapOptions
    from toposeat.model.placement import Placement, Seat
    from toposeat.model.topology import Topology
    from toposeat.model.traffic import Traffic
else:
    __getattr__ = door(__name__, __file__)

__version__ = VERSION

__all__ = [
    "Certificate",
    "Constraints",
    "Evaluation",
    "GroupRate",
    "MapOptions",
    "MappingResult",
    "Placement",
    "Seat",
    "Topology",
    "ToposeatError",
    "Traffic",
    "UsageError",
    "draw",
    "evaluate",
    "group_rate",
    "load_placement",
    "machine_names",
    "map_traffic",
    "placement_of",
    "read_topology",
    "read_traffic",
    "save_placement",
    "save_topology",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _above(name: str) -> Callable[..., object]:
    from toposeat.library import calls  # noqa: PLC0415 - most commands need none of it

    function: Callable[..., object] = getattr(calls, name)
    return function


Noun.above = _above
