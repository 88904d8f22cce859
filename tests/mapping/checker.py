"""What a placement costs, from the topology's own words, slowly: nothing of the core is used.

Costs, congestion and flow time are computed as the documentation defines them, in plain Python;
optima by looking at every placement that the constraints permit.
"""

import itertools
from collections import Counter
from math import inf

from tests.evaluation.max_min_reference import reference_finish
from toposeat.model.topology import PathClass


def flows_of(traffic):
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

    def __init__(self, topology, traffic):
        self.topology = topology
        self.ranks = traffic.ranks
        self.flows = flows_of(traffic)
        self._ids = [device.id for device in topology.devices]
        self._link = {link.id: link for link in topology.links}
        self._route = {(route.source, route.target): route for route in topology.routes}
        everyone = range(len(self._ids))
        self.pairs = list(itertools.product(everyone, everyone))
        self._steps = {
            (a, b): [] if a == b else list(self._walk(self._route[self._ids[a], self._ids[b]]))
            for a, b in self.pairs
        }
        self.shared = self._capacities()
        self._uses = {pair: Counter(self._used_by(pair)) for pair in self.pairs}
        self._rate = {pair: self._lone_rate(pair) for pair in self.pairs}
        self._latency = {pair: self._least_latency(pair) for pair in self.pairs}
        apart = [pair for pair in self.pairs if pair[0] != pair[1]]
        self._most_rate = max((self._rate[pair] for pair in apart), default=1.0)
        self._least = min((self._latency[pair] for pair in apart), default=1.0)
        classes = {self._route_of(pair).path_class for pair in apart}
        nearest_first = [each for each in PathClass if each in classes]
        self._level = {each: len(classes) - at for at, each in enumerate(nearest_first)}

    def _route_of(self, pair):
        return self._route[self._ids[pair[0]], self._ids[pair[1]]]

    def _walk(self, route):
        here = route.source
        for name in route.links:
            link = self._link[name]
            yield link, here == link.ends[1]
            here = link.ends[0] if here == link.ends[1] else link.ends[1]

    def _capacities(self):
        """Bytes per second of what flows share: directions of links, links, pairs of devices."""
        shared = {}
        for link in self.topology.links:
            shared[link.id, "forward"] = link.forward_bytes_per_s.value
            shared[link.id, "backward"] = link.backward_bytes_per_s.value
            if link.combined_bytes_per_s is not None:
                shared[link.id, "combined"] = link.combined_bytes_per_s.value
        for pair in self.pairs:
            limit = None if pair[0] == pair[1] else self._route_of(pair).combined_bytes_per_s
            if limit is not None:
                name = f"{min(pair)}-{max(pair)}", "pair"
                shared[name] = min(limit.value, shared.get(name, limit.value))
        return shared

    def _used_by(self, pair):
        for link, back in self._steps[pair]:
            yield link.id, "backward" if back else "forward"
            if (link.id, "combined") in self.shared:
                yield link.id, "combined"
        if (both := (f"{min(pair)}-{max(pair)}", "pair")) in self.shared:
            yield both

    def uses(self, shared):
        """How often the route of each pair uses it, where it does."""
        return {pair: used[shared] for pair, used in self._uses.items() if used[shared]}

    def is_used(self, link):
        return any(
            used[link, way] for used in self._uses.values() for way in ("forward", "backward")
        )

    def _lone_rate(self, pair):
        """Of a flow alone; infinite within a device of which nothing is known."""
        if pair[0] == pair[1]:
            copy = self.topology.devices[pair[0]].copy_bytes_per_s
            return copy.value if copy is not None and copy.value else inf
        route = self._route_of(pair)
        rates = [self.shared[each] / times for each, times in self._uses[pair].items()]
        rates += [] if route.cap_bytes_per_s is None else [route.cap_bytes_per_s.value]
        rates += [] if route.curve is None else [max(p.bytes_per_s for p in route.curve.points)]
        return min(rates)

    def _least_latency(self, pair):
        if pair[0] == pair[1]:
            copy = self.topology.devices[pair[0]].copy_latency_s
            return 0.0 if copy is None else copy.value
        route = self._route_of(pair)
        if route.curve is not None:
            return min(point.latency_s for point in route.curve.points)
        if route.latency_s is not None:
            return route.latency_s.value
        return sum(link.latency_s.value for link, _ in self._steps[pair])

    def flow_numbers(self, pair, nbytes, messages):
        """When a flow starts, and the most bytes per second that it reaches alone."""
        wait, rate = self._latency[pair], self._rate[pair]
        if pair[0] != pair[1] and (curve := self._route_of(pair).curve) is not None:
            wait, most = curve.at(nbytes / messages)
            rate = min(rate, most)
        return messages * wait, rate

    def value(self, placement, objective, metric):
        """Of the objective; ranks on one device pay nothing."""
        if objective == "time":
            return self.time(placement)
        if objective == "congestion":
            return self.congestion(placement)
        return self.cost(placement, metric)

    def cost(self, placement, metric):
        return sum(
            self.pair_cost((placement[source], placement[target]), nbytes, messages, metric)
            for source, target, nbytes, messages in self.flows
        )

    def pair_cost(self, pair, nbytes, messages, metric):
        """Of what two ranks exchange; on one device that of a copy, free if nothing is known."""
        if metric == "hybrid":
            return messages * self._latency[pair] + nbytes / self._rate[pair]
        if metric == "bandwidth":
            return nbytes * self._most_rate / self._rate[pair]
        if metric == "latency":
            return nbytes * self._latency[pair] / self._least
        if pair[0] == pair[1]:
            return 0.0
        return nbytes * max(self._level.values()) / self._level[self._route_of(pair).path_class]

    def congestion(self, placement):
        load = Counter()
        for source, target, nbytes, _ in self.flows:
            for each, times in self._uses[placement[source], placement[target]].items():
                load[each] += nbytes * times
        return max(
            (bytes_ / self.shared[each] for each, bytes_ in load.items() if each[1] != "pair"),
            default=0.0,
        )

    def time(self, placement):
        last = 0.0
        flows = []
        for flow in self.flows:
            device = placement[flow[0]]
            if device != placement[flow[1]]:
                flows.append(flow)
            else:  # a copy that nothing else slows
                last = max(last, self.pair_cost((device, device), flow[2], flow[3], "hybrid"))
        return max([last, *map(float, reference_finish(self.topology, flows, placement))])

    def placements(self, constraints):
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
