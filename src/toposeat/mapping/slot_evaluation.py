"""Predict the loads of links for placements of a large job: thin over `_core.large_loads`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.errors import InputError
from toposeat.evaluation import compile_traffic
from toposeat.mapping.link_levels import LinkLevels
from toposeat.mapping.shapes import Shape
from toposeat.mapping.slot_groups import SlotGroups, slots_table
from toposeat.model.evaluation import PhaseTime
from toposeat.model.scale_result import HostGroup, LevelLoad, NamedLinkLoad, ScaleEvaluation
from toposeat.model.traffic import Traffic

BUSIEST_LINKS = 20


class SlotEvaluator:
    """One large machine and one traffic, compiled once for any number of placements.

    Attributes:
        flows: the traffic as messages between pairs of ranks, which is what the search takes.
        cost_flows: those that are charged the distance of their slots; of a group that its library
            orders itself, all pairs on a node evenly.

    Raises:
        InputError: more ranks than slots.
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
        self._links: tuple[LinkLevels, NDArray[np.float64]] | None = None

    @property
    def default(self) -> NDArray[np.uint32]:
        """Rank i on slot i: hosts in order, devices in order."""
        return np.arange(self._ranks, dtype=np.uint32)

    def evaluate(
        self, slots: Sequence[int] | NDArray[np.uint32], name: str = "given"
    ) -> ScaleEvaluation:
        """Predict what a placement costs; time and memory grow with communicating pairs and links.

        Args:
            slots: for each rank a slot of the shape; ranks that share one use no links together.
            name: what the evaluation is called.

        Returns:
            Levels in the machine's order of links; `links` are the busiest `BUSIEST_LINKS`.
        """
        placed = np.asarray(slots, np.uint32)
        candidate, nbytes = _core.large_loads(self._shape.machine, self.flows, placed)
        figures = self.figures(candidate, name)
        if not candidate.predicted:  # pragma: no cover - every shape has a link model
            return figures
        links, capacities = self._known_links()
        if self._groups is not None:
            phases, nbytes = self._groups.evaluate(placed)
            figures = self._with_groups(figures, phases, nbytes / capacities)
            cost = _core.large_cost(self._shape.machine, self.cost_flows, placed)
            figures = replace(figures, cost=cost)
        seconds = nbytes / capacities
        hosts_s, stages_s = self._host_groups.busiest(seconds)
        is_hop = np.array([level.is_hop for level in links.levels])
        return replace(
            figures,
            hop_bytes=float(nbytes[is_hop[links.level_of_link]].sum()),
            levels=_levels(links, nbytes, seconds),
            links=self._busiest(links, nbytes, seconds),
            hosts_s=hosts_s,
            stages_s=stages_s,
        )

    @property
    def stages(self) -> tuple[tuple[HostGroup, ...], ...]:
        """Groups of near hosts, which the loads of an evaluation follow."""
        return self._host_groups.nouns(self._shape.machine.capacities)

    def sum_range(self, slots: NDArray[np.uint32]) -> tuple[float, float]:
        """Seconds of all phases where domains use the NICs of all their hosts, and of one each."""
        both = (SlotGroups(self._shape, self._traffic, few_nics=few) for few in (False, True))
        low, high = (sum(each.seconds for each in model.evaluate(slots)[0]) for model in both)
        return low, high

    def with_trees(self, found: ScaleEvaluation, slots: NDArray[np.uint32]) -> ScaleEvaluation:
        """With what all-reduces by trees take between the nodes of this placement."""
        if self._groups is None:
            return found
        return replace(found, phases=self._groups.with_trees(found.phases, slots))

    def _with_groups(
        self, figures: ScaleEvaluation, phases: tuple[PhaseTime, ...], seconds: NDArray[np.float64]
    ) -> ScaleEvaluation:
        """With the channels of this placement instead of those that the search takes.

        Latencies between pairs of ranks are nothing that a group has.
        """
        busiest = int(seconds.argmax())
        alone = max((phase.seconds for phase in phases), default=0.0)
        return replace(
            figures,
            phases=phases,
            max_congestion_s=float(seconds[busiest]),
            mean_congestion_s=float(seconds.mean()),
            latency_s=None,
            predicted_s=max(alone, float(seconds[busiest])),
            busiest_link=self._shape.machine.link_name(busiest),
        )

    def figures(self, candidate: _core.LargeCandidate, name: str = "") -> ScaleEvaluation:
        """The core's figures for a placement, without levels and links."""
        known = ScaleEvaluation(
            name=name or candidate.name,
            cost=candidate.cost,
            cpu_s=candidate.cpu_s,
            also=tuple(candidate.also),
        )
        if not candidate.predicted:
            return known
        return replace(
            known,
            max_congestion_s=candidate.busiest_s,
            mean_congestion_s=candidate.mean_s,
            latency_s=candidate.latency_s,
            predicted_s=candidate.predicted_s,
            busiest_link=self._shape.machine.link_name(candidate.busiest_link),
        )

    def _known_links(self) -> tuple[LinkLevels, NDArray[np.float64]]:
        if self._links is None:
            self._links = self._shape.link_levels(), self._shape.machine.capacities
        return self._links

    def _busiest(
        self, links: LinkLevels, nbytes: NDArray[np.float64], seconds: NDArray[np.float64]
    ) -> tuple[NamedLinkLoad, ...]:
        """The busiest links, by seconds, then by number; idle ones are left out."""
        most = min(BUSIEST_LINKS, len(seconds))
        least = np.partition(seconds, -most)[-most]
        found = np.flatnonzero((seconds >= least) & (seconds > 0))
        found = found[np.argsort(-seconds[found], kind="stable")][:most]
        return tuple(
            NamedLinkLoad(
                link=self._shape.machine.link_name(int(link)),
                level=links.levels[links.level_of_link[link]].name,
                kind=links.levels[links.level_of_link[link]].kind,
                bytes=float(nbytes[link]),
                congestion_s=float(seconds[link]),
            )
            for link in found
        )


def _levels(
    links: LinkLevels, nbytes: NDArray[np.float64], seconds: NDArray[np.float64]
) -> tuple[LevelLoad, ...]:
    """Sums over the links of each name; a combined capacity counts for congestion only."""
    names = links.names
    loads = []
    for name in names:
        here = [at for at, level in enumerate(links.levels) if level.name == name]
        hops = [at for at in here if links.levels[at].is_hop]
        within = seconds[np.isin(links.level_of_link, here)]
        loads.append(
            LevelLoad(
                level=name,
                links=int(within.size),
                bytes=float(nbytes[np.isin(links.level_of_link, hops)].sum()),
                max_congestion_s=float(within.max(initial=0.0)),
                mean_congestion_s=float(within.mean()) if within.size else 0.0,
            )
        )
    return tuple(loads)
