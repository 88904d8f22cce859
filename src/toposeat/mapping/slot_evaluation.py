"""Predict the loads of links for placements of a large job: thin over `_core.large_loads`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from toposeat import _core
from toposeat.errors import InputError
from toposeat.evaluation import compile_traffic
from toposeat.mapping.link_levels import LinkLevels
from toposeat.mapping.shapes import Shape
from toposeat.mapping.slot_groups import SlotGroups, slots_table
from toposeat.model.evaluation import (
    Candidate,
    Evaluation,
    HostGroup,
    LevelLoad,
    LinkLoad,
    PhaseTime,
)
from toposeat.model.latency import Latency
from toposeat.model.traffic import Traffic

BUSIEST_LINKS = 20


class SlotEvaluator:
    """One large machine and one traffic, compiled once for any number of placements.

    Attributes:
        flows: the traffic as messages between pairs of ranks, which is what the search takes.
        cost_flows: those that are charged the distance of their slots; of a group that its library
            orders itself, all pairs on a node evenly.
    """

    def __init__(self, shape: Shape, traffic: Traffic) -> None:
        if traffic.ranks > shape.slots:
            raise InputError(
                f"{traffic.ranks} ranks do not fit on the {shape.slots} slots of {shape.text!r}",
                hint="name more hosts, or give the traffic of fewer ranks",
            )
        self._shape = shape
        self._traffic = traffic
        self._ranks = traffic.ranks
        self.flows = compile_traffic(traffic, slots_table(shape, traffic))
        self.cost_flows = self.flows
        self._groups = SlotGroups(shape, traffic) if traffic.groups else None
        if traffic.groups:
            self.cost_flows = compile_traffic(traffic, slots_table(shape, traffic, even=True))
        self._host_groups = shape.host_groups()
        self._in_turn_s: dict[tuple[int, ...], float] = {}
        self._links: tuple[LinkLevels, NDArray[np.float64]] | None = None

    @property
    def has_groups(self) -> bool:
        """Whether the traffic has groups, which the search takes for messages between pairs."""
        return self._groups is not None

    @property
    def default(self) -> range:
        """Rank i on slot i: hosts in order, devices in order."""
        return range(self._ranks)

    def evaluate(self, slots: Sequence[int] | NDArray[np.uint32]) -> Evaluation:
        """Predict what a placement costs; time and memory grow with communicating pairs and links.

        Args:
            slots: for each rank a slot of the shape; ranks that share one use no links together.

        Returns:
            Levels in the machine's order of links; `links` are the busiest `BUSIEST_LINKS`.
        """
        placed = np.asarray(slots, np.uint32)
        figures, nbytes = _core.large_loads(self._shape.machine, self.flows, placed)
        assert figures.predicted, "every shape has a model of its links"
        cost, predicted_s = figures.cost, figures.predicted_s
        most_s, mean_s = figures.busiest_s, figures.mean_s
        share = figures.latency_s / predicted_s if predicted_s else 0.0
        links, capacities = self._known_links()
        phases: tuple[PhaseTime, ...] = ()
        if self._groups is not None:
            phases, nbytes = self._groups.evaluate(placed)
            cost = _core.large_cost(self._shape.machine, self.cost_flows, placed)
            predicted_s = sum(phase.seconds for phase in phases)
        seconds = nbytes / capacities
        if phases:
            most_s, mean_s = float(seconds.max()), float(seconds.mean())
        hosts_s, stages_s = self._host_groups.busiest(seconds)
        is_hop = np.array([level.is_hop for level in links.levels])
        return Evaluation(
            device_of_rank=tuple(placed.tolist()),
            max_congestion_s=most_s,
            mean_congestion_s=mean_s,
            cost=cost,
            hop_bytes=float(nbytes[is_hop[links.level_of_link]].sum()),
            predicted_s=predicted_s,
            links=self._busiest(links, nbytes, seconds),
            phases=phases,
            levels=_levels(links, nbytes, seconds),
            hosts_s=hosts_s,
            stages_s=stages_s,
            latency=None if phases else Latency(share=share),
        )

    def in_turn_s(self, slots: Sequence[int]) -> float:
        """The link time where a rank sends to one partner after the other."""
        row = tuple(slots)
        if row not in self._in_turn_s:
            placed = np.array(row, np.uint32)
            found = _core.large_prediction(self._shape.machine, self._in_turn, placed)
            self._in_turn_s[row] = found.predicted_s
        return self._in_turn_s[row]

    @cached_property
    def _in_turn(self) -> _core.RankTraffic:
        table = slots_table(self._shape, self._traffic)
        return compile_traffic(self._traffic, table, in_turn=True)

    @property
    def stages(self) -> tuple[tuple[HostGroup, ...], ...]:
        """Groups of near hosts, which the loads of an evaluation follow."""
        return self._host_groups.nouns(self._shape.machine.capacities)

    def sum_range(self, slots: NDArray[np.uint32]) -> tuple[float, float]:
        """Seconds of all phases where domains use the NICs of all their hosts, and of one each."""
        both = (SlotGroups(self._shape, self._traffic, few_nics=few) for few in (False, True))
        low, high = (sum(each.seconds for each in model.evaluate(slots)[0]) for model in both)
        return low, high

    def with_other_ways(self, found: Evaluation) -> Evaluation:
        """With what all-reduces between nodes take by the other of rings and trees."""
        if self._groups is None:
            return found
        slots = np.array(found.device_of_rank, np.uint32)
        return replace(found, phases=self._groups.with_other_ways(found.phases, slots))

    def seconds_by(self, way: str, slots: Sequence[int]) -> tuple[float, ...]:
        """Seconds of each phase where all-reduces between nodes go by TREES or by RINGS."""
        return tuple(each.by(way) for each in self.with_other_ways(self.evaluate(slots)).phases)

    def with_levels(self, found: Evaluation) -> Evaluation:
        """An evaluation of listed devices, with what levels and hosts carry, and trees take."""
        loads = self.with_other_ways(self.evaluate(found.device_of_rank))
        other = {each.label: (each.trees_s, each.rings_s) for each in loads.phases}
        return replace(
            found,
            phases=tuple(
                structs.replace(each, trees_s=trees_s, rings_s=rings_s)
                for each in found.phases
                for trees_s, rings_s in [other.get(each.label, (None, None))]
            ),
            levels=loads.levels,
            hosts_s=loads.hosts_s,
            stages_s=loads.stages_s,
        )

    def _known_links(self) -> tuple[LinkLevels, NDArray[np.float64]]:
        if self._links is None:
            self._links = self._shape.link_levels(), self._shape.machine.capacities
        return self._links

    def _busiest(
        self, links: LinkLevels, nbytes: NDArray[np.float64], seconds: NDArray[np.float64]
    ) -> tuple[LinkLoad, ...]:
        """The busiest links, by seconds, then by number; idle ones are left out."""
        most = min(BUSIEST_LINKS, len(seconds))
        least = np.partition(seconds, -most)[-most]
        found = np.flatnonzero((seconds >= least) & (seconds > 0))
        found = found[np.argsort(-seconds[found], kind="stable")][:most]
        return tuple(
            LinkLoad(
                link=self._shape.machine.link_name(int(link)),
                level=links.levels[links.level_of_link[link]].name,
                kind=links.levels[links.level_of_link[link]].kind,
                bytes=float(nbytes[link]),
                congestion_s=float(seconds[link]),
            )
            for link in found
        )


def candidate_of(found: _core.LargeCandidate) -> Candidate:
    """The core's figures for a placement that was tried."""
    return Candidate(
        name=found.name,
        cost=found.cost,
        max_congestion_s=found.busiest_s if found.predicted else None,
        predicted_s=found.predicted_s if found.predicted else None,
        cpu_s=found.cpu_s,
        also=tuple(found.also),
    )


def _levels(
    links: LinkLevels, nbytes: NDArray[np.float64], seconds: NDArray[np.float64]
) -> tuple[LevelLoad, ...]:
    """Sums over the links of each name; a combined capacity counts for congestion only."""
    names = links.names
    name_of_level = np.array([names.index(level.name) for level in links.levels])
    name_of_link = name_of_level[links.level_of_link]
    is_hop = np.array([level.is_hop for level in links.levels])[links.level_of_link]
    loads = []
    for at, name in enumerate(names):
        here = name_of_link == at
        within = seconds[here]
        loads.append(
            LevelLoad(
                level=name,
                links=int(within.size),
                bytes=float(nbytes[here & is_hop].sum()),
                max_congestion_s=float(within.max(initial=0.0)),
                mean_congestion_s=float(within.mean()) if within.size else 0.0,
            )
        )
    return tuple(loads)
