"""toposeat seats ranks on GPUs: profile, learn the machine, place, launch, prove.

What is imported from here is the public interface, described in docs/reference/python.md; each name
is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door
from toposeat.installed import VERSION
from toposeat.model.shown import Shown

if TYPE_CHECKING:
    from toposeat.errors import ToposeatError
    from toposeat.evaluation.evaluation import evaluate
    from toposeat.evaluation.group_rate import group_rate
    from toposeat.model.evaluation import Evaluation, MappingResult
    from toposeat.model.map_options import Constraints, MapOptions
    from toposeat.model.placement import Placement
    from toposeat.model.placement_file import load_placement, save_placement
    from toposeat.model.topology import Topology
    from toposeat.model.traffic import Traffic
    from toposeat.pipeline.placing import map_traffic, placement_of
    from toposeat.profile.sources import read_traffic
    from toposeat.topology.sources import read_topology
    from toposeat.topology.topology_file import save_topology
else:
    __getattr__ = door(__name__, __file__)

__version__ = VERSION

__all__ = [
    "Constraints",
    "Evaluation",
    "MapOptions",
    "MappingResult",
    "Placement",
    "Topology",
    "ToposeatError",
    "Traffic",
    "evaluate",
    "group_rate",
    "load_placement",
    "map_traffic",
    "placement_of",
    "read_topology",
    "read_traffic",
    "save_placement",
    "save_topology",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _html_of(noun: object) -> str:
    from toposeat.report import notebook_html  # noqa: PLC0415

    return notebook_html(noun)


Shown.render = _html_of
