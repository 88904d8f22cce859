"""What one part of the page shows: a machine, and if known its traffic, mapping and run."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from toposeat.model.evaluation import MappingResult
from toposeat.model.placement import Placement
from toposeat.model.run_record import RunRecord
from toposeat.model.scale_result import ScaleResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic


@dataclass(frozen=True)
class Section:
    """One machine or job on the page. Everything is optional, but something must be there.

    Attributes:
        topology: the machine; needed for drawings and for `mapping`.
        traffic: who talks to whom; needed for `mapping`.
        mapping: predictions before and after.
        placement: seats with CPU sets, memory nodes and NICs.
        run: a run that was measured.
        scale: predictions before and after on a large machine, which has no drawing.
        title: heading; the topology's or traffic's name if empty.
        text: a sentence or two under the heading.
        commands: how to go on, one command each.
    """

    topology: Topology | None = None
    traffic: Traffic | None = None
    mapping: MappingResult | None = None
    _: KW_ONLY
    placement: Placement | None = None
    run: RunRecord | None = None
    scale: ScaleResult | None = None
    title: str = ""
    text: str = ""
    commands: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.mapping is not None and (self.topology is None or self.traffic is None):
            raise ValueError("a mapping is shown with its topology and its traffic")
        if self.scale is not None and self.traffic is None:
            raise ValueError("a placement on a large machine is shown with its traffic")

    @property
    def heading(self) -> str:
        """What the section is called."""
        if self.title:
            return self.title
        if self.topology is not None:
            return self.topology.name
        if self.scale is not None:
            return self.scale.shape
        if self.traffic is not None:
            return self.traffic.origin
        return "placement" if self.placement is not None else "run"
