"""Max-min fair flow time once more, slowly and exactly.

Shares nothing with the core. Rates are found level by level from the textbook statement ("raise all
rates together; whoever meets a full constraint or its cap stops"), in `fractions.Fraction`, so that
nothing rounds and ties are ties.
"""

from dataclasses import dataclass
from fractions import Fraction

Constraint = tuple[str, str]  # link id, "forward" | "backward" | "combined"; or pair, "pair"


@dataclass(frozen=True)
class ReferenceFlow:
    bytes: Fraction
    start: Fraction
    cap: Fraction | None
    uses: tuple[Constraint, ...]


def reference_finish(topology, flows, device_of_rank):
    """Finish of each (source rank, target rank, bytes, messages)."""
    capacity = _capacities(topology)
    todo = dict(enumerate(_flows(topology, flows, device_of_rank, capacity)))
    left = {number: flow.bytes for number, flow in todo.items()}
    finish = {number: flow.start for number, flow in todo.items() if flow.bytes == 0}
    now = Fraction(0)
    while len(finish) < len(todo):
        running = {n: f for n, f in todo.items() if n not in finish and f.start <= now}
        coming = [f.start for n, f in todo.items() if n not in finish and f.start > now]
        rate = _rates(running, capacity)
        moments = [now + left[n] / rate[n] for n in running] + coming
        then = min(moments)
        for n in running:
            left[n] -= rate[n] * (then - now)
            if left[n] == 0:
                finish[n] = then
        now = then
    return [finish[n] for n in sorted(finish)]


def reference_schedule(topology, phases, device_of_rank):
    """Finish of the last flow if a rank enters a phase when its own flows of the last are done."""
    capacity = _capacities(topology)
    ends = [(k, a, b) for k, phase in enumerate(phases) for a, b, _, _ in phase]
    flows = [f for phase in phases for f in _flows(topology, phase, device_of_rank, capacity)]
    issued = {}
    left = {n: flow.bytes for n, flow in enumerate(flows)}
    finish = {}
    now = Fraction(0)
    while True:
        for n, (phase, *pair) in enumerate(ends):
            earlier = [m for m, (k, *other) in enumerate(ends) if k < phase and {*other} & {*pair}]
            if n not in issued and all(m in finish for m in earlier):
                issued[n] = now
        starts = {n: at + flows[n].start for n, at in issued.items() if n not in finish}
        empty = [n for n, at in starts.items() if at <= now and not flows[n].bytes]
        for n in empty:
            finish[n] = now
        if empty:
            continue
        if len(finish) == len(flows):
            return now
        running = {n: flows[n] for n, at in starts.items() if at <= now}
        rate = _rates(running, capacity)
        then = min(
            [now + left[n] / rate[n] for n in running] + [at for at in starts.values() if at > now]
        )
        for n in running:
            left[n] -= rate[n] * (then - now)
            if left[n] == 0:
                finish[n] = then
        now = then


def _flows(topology, flows, device_of_rank, capacity):
    ids = [topology.devices[device].id for device in device_of_rank]
    return [
        _flow(topology, (ids[a], ids[b]), size, messages, capacity)
        for a, b, size, messages in flows
    ]


def _capacities(topology):
    result = {}
    for link in topology.links:
        result[link.id, "forward"] = Fraction(link.forward_bytes_per_s.value)
        result[link.id, "backward"] = Fraction(link.backward_bytes_per_s.value)
        if link.combined_bytes_per_s is not None:
            result[link.id, "combined"] = Fraction(link.combined_bytes_per_s.value)
    for route in topology.routes:
        if route.combined_bytes_per_s is not None:
            limit = Fraction(route.combined_bytes_per_s.value)
            result[_pair(route)] = min(limit, result.get(_pair(route), limit))
    return result


def _pair(route):
    return ("-".join(sorted((route.source, route.target))), "pair")


def _flow(topology, pair, size, messages, capacity):
    route = topology.route_of_pair[pair]
    uses = []
    latency = Fraction(0)
    here = route.source
    for name in route.links:
        (link,) = [each for each in topology.links if each.id == name]
        forward = link.ends[0] == here
        here = link.ends[1] if forward else link.ends[0]
        latency += Fraction(link.latency_s.value)
        uses.append((name, "forward" if forward else "backward"))
        if link.combined_bytes_per_s is not None:
            uses.append((name, "combined"))
    if _pair(route) in capacity:
        uses.append(_pair(route))
    caps = [] if route.cap_bytes_per_s is None else [Fraction(route.cap_bytes_per_s.value)]
    if route.latency_s is not None:
        latency = Fraction(route.latency_s.value)
    if route.curve is not None:
        wait, rate = route.curve.at(size / messages)
        latency = Fraction(wait)
        caps.append(Fraction(rate))
    cap = min(caps, default=None)
    return ReferenceFlow(Fraction(size), messages * latency, cap, tuple(uses))


def _rates(flows, capacity):
    fixed = {}
    while len(fixed) < len(flows):
        free = [n for n in flows if n not in fixed]
        level_of = {}
        for constraint, size in capacity.items():
            users = sum(flows[n].uses.count(constraint) for n in free)
            if users:
                taken = sum(flows[n].uses.count(constraint) * x for n, x in fixed.items())
                level_of[constraint] = (size - taken) / users
        caps = [cap for n in free if (cap := flows[n].cap) is not None]
        level = min([*level_of.values(), *caps])
        full = {constraint for constraint, reached in level_of.items() if reached == level}
        for n in free:
            if flows[n].cap == level or full.intersection(flows[n].uses):
                fixed[n] = level
    return fixed
