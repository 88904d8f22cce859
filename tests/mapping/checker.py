"""What a placement costs, from the topology's own words, slowly: nothing of the core is used.

Costs, congestion and flow time are computed as the documentation defines them, in plain Python;
optima by looking at every placement that the constraints permit.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.evaluate.max_min_reference import reference_finish
from toposeat.mapping import Constraints
from toposeat.model.topology import Link, Route, Topology
from toposeat.model.traffic import Traffic

Flow = tuple[int, int, int, int]  # source, target, bytes, messages


def flows_of(traffic: Traffic) -> list[Flow]:
    table = traffic.mapped_table()
    return list(
        zip(
            table.source.tolist(),
            table.target.tolist(),
            table.bytes.tolist(),
            table.messages.tolist(),
            strict=True,
        )
    )


class Checker:
    """One machine and one traffic."""

    def __init__(self, topology: Topology, traffic: Traffic) -> None:
        self.topology = topology
        self.ranks = traffic.ranks
        self.flows = flows_of(traffic)
        self._ids = [device.id for device in topology.devices]
        self._link = {link.id: link for link in topology.links}
        self._route = {(route.source, route.target): route for route in topology.routes}
        self._steps = {
            (a, b): list(self._walk(self._route[self._ids[a], self._ids[b]]))
            for a, b in itertools.permutations(range(len(self._ids)), 2)
        }
        self._rate = {pair: self._lone_rate(pair) for pair in self._steps}
        self._latency = {
            pair: sum(link.latency_s.value for link, _ in steps)
            for pair, steps in self._steps.items()
        }
        classes = {self._route[self._ids[a], self._ids[b]].path_class for a, b in self._steps}
        nearest_first = [each for each in type(next(iter(classes))) if each in classes]
        self._level = {each: len(classes) - at for at, each in enumerate(nearest_first)}

    def _walk(self, route: Route) -> Iterator[tuple[Link, bool]]:
        here = route.source
        for name in route.links:
            link = self._link[name]
            yield link, here == link.ends[1]
            here = link.ends[0] if here == link.ends[1] else link.ends[1]

    def _lone_rate(self, pair: tuple[int, int]) -> float:
        cap = self._route[self._ids[pair[0]], self._ids[pair[1]]].cap_bytes_per_s
        rates = [] if cap is None else [cap.value]
        for link, back in self._steps[pair]:
            rates.append((link.backward_bytes_per_s if back else link.forward_bytes_per_s).value)
            if link.combined_bytes_per_s is not None:
                rates.append(link.combined_bytes_per_s.value)
        return min(rates)

    def value(self, placement: Sequence[int], objective: str, metric: str) -> float:
        """Of the objective; ranks on one device pay nothing."""
        if objective == "time":
            return self.time(placement)
        if objective == "congestion":
            return self.congestion(placement)
        return self.cost(placement, metric)

    def cost(self, placement: Sequence[int], metric: str) -> float:
        total = 0.0
        for source, target, nbytes, messages in self.flows:
            pair = placement[source], placement[target]
            if pair[0] != pair[1]:
                total += self._pair_cost(pair, nbytes, messages, metric)
        return total

    def _pair_cost(self, pair: tuple[int, int], nbytes: int, messages: int, metric: str) -> float:
        if metric == "hybrid":
            return messages * self._latency[pair] + nbytes / self._rate[pair]
        if metric == "bandwidth":
            return nbytes * max(self._rate.values()) / self._rate[pair]
        if metric == "latency":
            return nbytes * self._latency[pair] / min(self._latency.values())
        path_class = self._route[self._ids[pair[0]], self._ids[pair[1]]].path_class
        return nbytes * max(self._level.values()) / self._level[path_class]

    def congestion(self, placement: Sequence[int]) -> float:
        load: Counter[tuple[str, bool]] = Counter()
        for source, target, nbytes, _ in self.flows:
            pair = placement[source], placement[target]
            if pair[0] != pair[1]:
                for link, back in self._steps[pair]:
                    load[link.id, back] += nbytes
        worst = 0.0
        for link in self.topology.links:
            ahead, back = load[link.id, False], load[link.id, True]
            if ahead:
                worst = max(worst, ahead / link.forward_bytes_per_s.value)
            if back:
                worst = max(worst, back / link.backward_bytes_per_s.value)
            if link.combined_bytes_per_s is not None and ahead + back:
                worst = max(worst, (ahead + back) / link.combined_bytes_per_s.value)
        return worst

    def time(self, placement: Sequence[int]) -> float:
        flows = [flow for flow in self.flows if placement[flow[0]] != placement[flow[1]]]
        return float(max(reference_finish(self.topology, flows, placement), default=0))

    def placements(self, constraints: Constraints) -> Iterator[tuple[int, ...]]:
        """Every placement that the constraints permit."""
        count = len(self._ids)
        usable = range(count) if constraints.devices is None else constraints.devices
        usable = [device for device in usable if device not in set(constraints.exclude)]
        slots = constraints.slots
        if slots is None:
            slots = 1
        room = dict.fromkeys(usable, slots) if isinstance(slots, int) else dict(slots)
        choices = [
            [constraints.pins[rank]]
            if rank in constraints.pins
            else [d for d in usable if d in constraints.allowed.get(rank, usable)]
            for rank in range(self.ranks)
        ]
        for placement in itertools.product(*choices):
            used = Counter(placement)
            if all(used[device] <= room.get(device, 1) for device in used):
                yield placement
