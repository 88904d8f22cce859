"""The placement of a large job on a machine that is described by its shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toposeat.model.evaluation import PhaseTime
from toposeat.model.explanation import PairLoad
from toposeat.model.topology import LinkKind


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelLoad:
    """Predicted use of the links at one level: each direction of a cable counts as a link.

    So does a combined capacity, which carries no `bytes` of its own.
    """

    level: str
    links: int
    bytes: float
    max_congestion_s: float
    mean_congestion_s: float  # over all of them, idle ones included


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedLinkLoad:
    """Predicted use of one link of a large machine; the name says which hosts or switches."""

    link: str
    level: str
    kind: LinkKind
    bytes: float
    congestion_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class HostGroup:
    """Hosts on one leaf switch, or in one pod, plane or group: positions in `ScaleResult.hosts`.

    Per direction: what all of their NICs carry, and what leads out of the group.
    """

    name: str
    hosts: tuple[int, ...]
    hosts_bytes_per_s: float
    out_bytes_per_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleEvaluation:
    """Predictions for one placement. Seconds are link time, not application time.

    `cost` is the sum of bytes x distance. The link figures are None where they were not needed, or
    where the machine has no link model. `predicted_s` is the busiest link's seconds plus the
    largest messages x latency of a pair. `also` names the other methods that found this placement;
    `cpu_s` is the CPU time of the first one.
    """

    name: str
    cost: float
    max_congestion_s: float | None = None
    mean_congestion_s: float | None = None
    latency_s: float | None = None
    predicted_s: float | None = None
    busiest_link: str | None = None
    cpu_s: float = 0.0
    also: tuple[str, ...] = ()
    hop_bytes: float | None = None
    levels: tuple[LevelLoad, ...] = ()
    links: tuple[NamedLinkLoad, ...] = ()
    # With groups that a library orders itself: what runs together, each alone. All of it at once
    # takes `predicted_s`, one after the other the sum.
    phases: tuple[PhaseTime, ...] = ()
    # Congestion of the busiest NIC of each host, and of the busiest link between each group of
    # `ScaleResult.stages` and the rest; none where a machine has too many hosts to draw.
    hosts_s: tuple[float, ...] = ()
    stages_s: tuple[tuple[float, ...], ...] = ()

    @property
    def sum_s(self) -> float:
        """Seconds of all phases one after the other."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def low_s(self) -> float:
        """Seconds of the slowest phase alone."""
        return max((phase.seconds for phase in self.phases), default=0.0)

    def value(self, objective: str) -> float | None:
        """The value that an objective, one of `map_options.OBJECTIVES`, minimises."""
        return {
            "cost": self.cost,
            "congestion": self.max_congestion_s,
            "time": self.predicted_s,
        }[objective]


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelMove:
    """Directed pairs of ranks whose routes use links of other levels than in the default.

    No level: both ranks are on one slot.
    """

    levels_before: tuple[str, ...]
    levels_after: tuple[str, ...]
    pairs: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleBottleneck:
    """The most congested link of a placement (None: no link carries anything), and who loads it.

    `pairs` counts the pairs that load it, `loads` lists the heaviest.
    """

    link: str | None
    level: str | None
    congestion_s: float
    bytes: float
    pairs: int
    loads: tuple[PairLoad, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleExplanation:
    """Explains a placement of a large job: of `kinds_of_moves`, `moves` lists the heaviest.

    A pair of ranks counts as moved if its route uses other levels than before.
    """

    moves: tuple[LevelMove, ...]
    kinds_of_moves: int
    moved_pairs: int
    moved_bytes: int
    before: ScaleBottleneck
    after: ScaleBottleneck


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaleResult:
    """A mapper's answer for a large job beside the default, which is rank i on slot i.

    Slots are numbered host by host: slot s is device `s % slots_per_host` of host
    `s // slots_per_host`; `hosts` has their names.
    """

    shape: str
    slots: int
    slots_per_host: int
    hosts: tuple[str, ...]
    slot_of_rank: NDArray[np.uint32]
    default: ScaleEvaluation
    placed: ScaleEvaluation
    candidates: tuple[ScaleEvaluation, ...]
    kept_default: bool
    objective: str
    solver: str
    solve_seconds: float  # wall time
    peak_memory_bytes: int  # of this process until now
    seed: int
    notes: tuple[str, ...] = ()
    explanation: ScaleExplanation | None = None  # if asked for
    stages: tuple[tuple[HostGroup, ...], ...] = ()  # groups of near hosts, the smallest first

    @property
    def ranks(self) -> int:
        """How many ranks are placed."""
        return int(self.slot_of_rank.size)

    @property
    def hosts_by_first_rank(self) -> tuple[str, ...]:
        """The order of nodes: names of the hosts that have ranks; none where they have no names."""
        if not self.hosts:
            return ()
        used = dict.fromkeys((self.slot_of_rank // self.slots_per_host).tolist())
        return tuple(self.hosts[number] for number in used)

    @property
    def moved_ranks(self) -> int:
        """How many ranks are not where the default would have them."""
        return int((self.slot_of_rank != np.arange(self.slot_of_rank.size)).sum())
