"""Workers that answer from a model instead of copying: max-min fair shares, times with noise."""

import random

from toposeat.topology.measure import PROTOCOLS, try_sets

_LATENCY_S = 30e-6


def fair_rates(topology, flows):
    """Bytes/s of each flow by progressive filling: all grow together until a link is full."""
    left = {}
    users = {}
    for flow in flows:
        source, target = (topology.devices[i].id for i in flow)
        route = topology.route_of_pair[source, target]
        here = source
        for name in route.links:
            link = topology.link_of_id[name]
            forward = here == link.ends[0]
            here = link.ends[1] if forward else link.ends[0]
            rate = link.forward_bytes_per_s if forward else link.backward_bytes_per_s
            users.setdefault((name, "forward" if forward else "backward"), set()).add(flow)
            left[name, "forward" if forward else "backward"] = rate.value
            if link.combined_bytes_per_s is not None:
                users.setdefault((name, "both"), set()).add(flow)
                left[name, "both"] = link.combined_bytes_per_s.value
        if route.cap_bytes_per_s is not None:
            left[f"{source} {target}", "cap"] = route.cap_bytes_per_s.value
            users[f"{source} {target}", "cap"] = {flow}
    rates = dict.fromkeys(flows, 0.0)
    growing = set(flows)
    while growing:
        step = min(left[key] / len(users[key] & growing) for key in users if users[key] & growing)
        full = set()
        for key, its in users.items():
            active = its & growing
            left[key] -= step * len(active)
            if active and left[key] <= 1e-9 * step:
                full |= active
        for flow in growing:
            rates[flow] += step
        growing -= full
    return rates


class FakeWorkers:
    """Stands for `Workers`: obeys send, receive, host and size.

    Args:
        topology: whose links limit the flows.
        noise: each time is up to this share longer than the model says, never shorter.
        denied: pairs that are staged whatever is asked.
    """

    def __init__(self, topology, noise=0.0, denied=frozenset()):
        self.topology = topology
        self.count = len(topology.devices)
        self.pci = [d.pci_bus_id or "" for d in topology.devices]
        self.asked = 0
        self._noise = noise
        self._denied = denied
        self._random = random.Random(1)
        self._linked = set()

    def link(self, a, b):
        """Remember that the two may talk."""
        self._linked.add(frozenset((a, b)))

    def ask(self, lines):
        """Answer as the processes would."""
        self.asked += 1
        words = {rank: line.split() for rank, line in lines.items()}
        flows = [(int(w[1]), rank) for rank, w in words.items() if w[0] == "receive"]
        for source, target in flows:
            assert frozenset((source, target)) in self._linked
            assert words[source][:2] == ["send", str(target)]
        rates = fair_rates(self.topology, flows)
        answers = {rank: [] for rank in lines}
        for flow in flows:
            number, size, repeats = (int(x) for x in words[flow[1]][2:5])
            name = "staged" if flow in self._denied else PROTOCOLS[number - 1]
            answers[flow[1]] = [name, *self._times(size / rates[flow], repeats)]
        for rank, w in words.items():
            if w[0] == "exchange":
                there, back = (int(w[1]), rank), (rank, int(w[1]))
                rate = fair_rates(self.topology, [there, back])[there]
                number, size, repeats = (int(x) for x in w[3:6])
                name = "staged" if there in self._denied else PROTOCOLS[number - 1]
                answers[rank] = [name, *self._times(size / rate, repeats)]
            if w[0] == "host":
                answers[rank] = self._times(int(w[2]) / 10e9, int(w[3]))
        return answers

    def _times(self, seconds, repeats):
        return [
            f"{(_LATENCY_S + seconds) * (1 + self._noise * self._random.random()):.9f}"
            for _ in range(repeats)
        ]


def shared_links(workers, bandwidth):
    """The sets whose transfers to the outside hinder each other, as the command takes them."""
    return [x for x in try_sets(workers, bandwidth, "get", lambda *_: None) if x.limits]
