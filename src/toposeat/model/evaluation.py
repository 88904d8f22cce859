"""What a placement is predicted to cost, and what is proved about better ones."""

from __future__ import annotations

from msgspec import Struct

from toposeat.model.explanation import Explanation
from toposeat.model.latency import Latency
from toposeat.model.noun import Noun, short_name
from toposeat.model.quantity import Premises
from toposeat.model.record import Record
from toposeat.model.topology import LinkKind
from toposeat.model.transport import Transport


class LinkLoad(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Predicted use of one link: bytes in both directions together, and seconds of congestion.

    `congestion_s` is the largest of bytes / capacity over the forward direction, the backward
    direction and, where the link has one, the combined capacity. On a large machine each direction
    is a link, `link` is its name, and `level` says where it is.
    """

    link: str
    kind: LinkKind
    bytes: float
    congestion_s: float
    level: str = ""


class LevelLoad(Struct, frozen=True, kw_only=True):
    """Predicted use of the links at one level: each direction of a cable counts as a link.

    So does a combined capacity, which carries no `bytes` of its own.
    """

    level: str
    links: int
    bytes: float
    max_congestion_s: float
    mean_congestion_s: float  # over all of them, idle ones included


class HostGroup(Struct, frozen=True, kw_only=True):
    """Hosts on one leaf switch, or in one pod, plane or group: positions in `MappingResult.hosts`.

    Per direction: what all of their NICs carry, and what leads out of the group.
    """

    name: str
    hosts: tuple[int, ...]
    hosts_bytes_per_s: float
    out_bytes_per_s: float


TREES, RINGS = "trees", "rings"  # of all-reduces between nodes; "": as is usual


class PhaseTime(Struct, frozen=True, kw_only=True):
    """Link time of what runs together, alone.

    Of all-reduces between nodes it is that of two binary trees on exactly two nodes, of rings on
    more. `trees_s`, `rings_s`: the seconds where the library takes the other; None where no
    all-reduce has three nodes, or two.
    """

    label: str
    seconds: float
    trees_s: float | None = None
    rings_s: float | None = None

    def other(self, way: str) -> float | None:
        """Seconds by TREES or by RINGS, where that is the other way."""
        return {TREES: self.trees_s, RINGS: self.rings_s}[way]

    def by(self, way: str) -> float:
        """Seconds where all all-reduces between nodes go by TREES, or by RINGS."""
        other = self.other(way)
        return self.seconds if other is None else other


class GroupUse(Struct, frozen=True, kw_only=True):
    """The rate that a collective group has on its devices; None for one device."""

    name: str
    phase: str
    bytes_per_s: float | None


class Evaluation(Noun, Record, frozen=True, kw_only=True):
    """Predictions for one placement. Seconds are link time, not application time.

    `mean_congestion_s` is over all links that some device-to-device route uses, idle ones included,
    so that two placements on one machine share a denominator. `links` is busiest first, on a large
    machine the busiest few. With groups that a library orders itself, `phases` is what runs
    together, each alone, and `predicted_s` is their sum.

    On machines of many hosts `levels` are loads level by level, `hosts_s` the congestion of the
    busiest NIC of each host, and `stages_s` that of the busiest link between each group of
    `MappingResult.stages` and the rest; the last two are empty where there are too many to draw.
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
    phases: tuple[PhaseTime, ...] = ()
    groups: tuple[GroupUse, ...] = ()
    levels: tuple[LevelLoad, ...] = ()
    hosts_s: tuple[float, ...] = ()
    stages_s: tuple[tuple[float, ...], ...] = ()
    latency: Latency | None = None  # None: of groups, of which the model knows none

    def __repr__(self) -> str:
        ranks = len(self.device_of_rank)
        busiest = f", at most {self.max_congestion_s:.3g} s on one link"
        return f"<Evaluation of {ranks} ranks: {self.predicted_s:.3g} s predicted{busiest}>"

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


class Candidate(Struct, frozen=True, kw_only=True):
    """A placement that was tried on a large machine; `also` names others that are the same.

    Seconds are None where they were not needed.
    """

    name: str
    cost: float
    max_congestion_s: float | None = None
    predicted_s: float | None = None
    cpu_s: float = 0.0
    also: tuple[str, ...] = ()

    def value(self, objective: str) -> float:
        """The value that an objective minimises; the cost where it is not known."""
        known = {"congestion": self.max_congestion_s, "time": self.predicted_s}.get(objective)
        return self.cost if known is None else known


class Certificate(Noun, Record, frozen=True, kw_only=True):
    """What was proved about the placement for one objective, on the nominal machine.

    `gap` is value / lower_bound - 1 (0 when proved, None when no bound is known). `everywhere` says
    whether it is proved in every scenario as well. `orders_tried` counts orders of
    nodes that were looked at, where they were searched for by the time of phases.
    """

    objective: str
    proved: bool
    value: float
    lower_bound: float | None
    gap: float | None
    reason: str = ""
    everywhere: bool = True
    orders_tried: int | None = None

    @property
    def word(self) -> str:
        """`proved` (in every scenario), `bounded` (nominally), `gap` or `heuristic`."""
        if self.proved:
            return "proved" if self.everywhere else "bounded"
        return "heuristic" if self.gap is None else "gap"


# How notes of a result begin: why a placement was not taken, and what is of the search alone.
KEPT = "kept the default"
OF_SEARCH = "the traffic is that of"


class MappingResult(Noun, Record, frozen=True, kw_only=True):
    """A mapper's answer beside the default.

    `device_of_rank` holds positions in `Topology.devices`. Where hosts are alike, device d is
    device d % `slots_per_host` of host d // `slots_per_host` in `hosts`; `slots_per_host` is 0
    where they are not. `stages` are groups of near hosts, the smallest first.
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
    min_gain: float = 0.01  # share of a time that is worth moving ranks for
    notes: tuple[str, ...] = ()  # e.g. why the default was kept
    uniform: bool = False  # every placement is as good, whatever the traffic
    premises: Premises | None = None  # of the gain over the default
    explanation: Explanation | None = None  # if asked for
    transport: Transport | None = None  # of a group of all ranks' devices
    topology: str = ""  # name of the machine
    hosts: tuple[str, ...] = ()
    slots_per_host: int = 0
    candidates: tuple[Candidate, ...] = ()
    peak_memory_bytes: int | None = None  # of this process until now
    cpu_ranks: tuple[int, ...] = ()  # that need no device, and stand where the first one is
    stages: tuple[tuple[HostGroup, ...], ...] = ()

    def __repr__(self) -> str:
        default, placed = self.default.predicted_s, self.placed.predicted_s
        change = "the default kept" if self.kept_default else f"default {default:.3g} s"
        on = f" on {short_name(self.topology)}" if self.topology else ""
        said = f"{placed:.3g} s predicted, {change}, {self.certificate.word}"
        return f"<MappingResult of {self.ranks} ranks{on}: {said}>"

    @property
    def is_listed(self) -> bool:
        """Whether links are those of a topology; else each is named with its level."""
        links = self.placed.links  # a topology's are there though they are idle
        return not self.placed.levels or (bool(links) and not any(load.level for load in links))

    @property
    def ranks(self) -> int:
        """How many ranks are placed."""
        return len(self.device_of_rank)

    @property
    def moved_ranks(self) -> list[int]:
        """Ranks that do not sit where the default puts them."""
        pairs = zip(self.device_of_rank, self.default.device_of_rank, strict=True)
        return [rank for rank, (placed, default) in enumerate(pairs) if placed != default]

    @property
    def kept_default(self) -> bool:
        """Whether the answer is the default placement."""
        return self.device_of_rank == self.default.device_of_rank

    @property
    def slots(self) -> int:
        """How many devices the machine has, where hosts are alike."""
        return self.slots_per_host * len(self.hosts)

    @property
    def host_numbers(self) -> list[int]:
        """Of each rank its host, where hosts are alike."""
        return [device // self.slots_per_host for device in self.device_of_rank]

    @property
    def hosts_by_first_rank(self) -> tuple[str, ...]:
        """The order of nodes: names of the hosts that have ranks; () where hosts are not alike."""
        if not self.slots_per_host:
            return ()
        return tuple(self.hosts[number] for number in dict.fromkeys(self.host_numbers))
