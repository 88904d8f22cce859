"""What a placement is predicted to cost, and what is proved about better ones."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from toposeat.model.explanation import Explanation
from toposeat.model.premise import Premises
from toposeat.model.shown import Shown
from toposeat.model.topology import LinkKind


class LinkLoad(Struct, frozen=True, kw_only=True):
    """Predicted use of one link: bytes in both directions together, and seconds of congestion.

    `congestion_s` is the largest of bytes / capacity over the forward direction, the backward
    direction and, where the link has one, the combined capacity.
    """

    link: str
    kind: LinkKind
    bytes: float
    congestion_s: float


class PhaseTime(Struct, frozen=True, kw_only=True):
    """Link time of what runs together, alone.

    `trees_s`: what the links between nodes take where the collectives of its groups are all-reduces
    and the library takes two binary trees for them; None where no group has three nodes.
    """

    label: str
    seconds: float
    trees_s: float | None = None


class GroupUse(Struct, frozen=True, kw_only=True):
    """The rate that a collective group has on its devices; None for one device."""

    name: str
    phase: str
    bytes_per_s: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation(Shown):
    """Predictions for one placement. Seconds are link time, not application time.

    `mean_congestion_s` is over all links that some device-to-device route uses, idle ones included,
    so that two placements on one machine share a denominator. `links` is busiest first.
    """

    device_of_rank: tuple[int, ...]
    max_congestion_s: float
    mean_congestion_s: float
    # Sum of bytes x relative cost of the pair (1 = nearest pair of the machine); with the hybrid
    # metric seconds: sum of messages x latency + bytes / bandwidth.
    cost: float
    hop_bytes: float
    predicted_s: float
    links: tuple[LinkLoad, ...]
    # With groups that a library orders itself: `predicted_s` is the sum of the phases.
    phases: tuple[PhaseTime, ...] = ()
    groups: tuple[GroupUse, ...] = ()

    @property
    def low_s(self) -> float:
        """The least that it can take: the slowest phase, if all others hide behind it."""
        return max((phase.seconds for phase in self.phases), default=self.predicted_s)

    def value(self, objective: str) -> float:
        """The value that an objective, one of `map_options.OBJECTIVES`, minimises."""
        return {
            "cost": self.cost,
            "congestion": self.max_congestion_s,
            "time": self.predicted_s,
        }[objective]


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificate:
    """What was proved about the placement for one objective, on the nominal machine.

    `gap` is value / lower_bound - 1 (0 when proved, None when no bound is known). `everywhere` says
    whether it is proved at every corner of what is assumed as well.
    """

    objective: str
    proved: bool
    value: float
    lower_bound: float | None
    gap: float | None
    reason: str = ""
    everywhere: bool = True

    @property
    def word(self) -> str:
        """`proved` (at every corner), `bounded` (on the nominal machine), `gap` or `heuristic`."""
        if self.proved:
            return "proved" if self.everywhere else "bounded"
        return "heuristic" if self.gap is None else "gap"


@dataclass(frozen=True, kw_only=True, slots=True)
class MappingResult(Shown):
    """A mapper's answer beside the default.

    `device_of_rank` holds positions in `Topology.devices`.
    """

    device_of_rank: tuple[int, ...]
    default: Evaluation
    placed: Evaluation
    certificate: Certificate
    objective: str
    metric: str
    solver: str
    solve_seconds: float  # wall time spent searching
    seed: int
    notes: tuple[str, ...] = ()  # e.g. why the default was kept
    uniform: bool = False  # every placement is as good, whatever the traffic
    premises: Premises | None = None  # of the gain over the default
    explanation: Explanation | None = None  # if asked for
