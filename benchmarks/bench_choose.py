"""Which of the free GPUs: `choose` against pair scores and the lowest numbers, all rates predicted.

First random sets of free GPUs on the machines of the catalogue (up to 8 GPUs): how often each rule
takes a set whose ring is slower than that of `choose`. Then a stream of jobs of 1, 2 and 4 GPUs
that come and go at random, on each machine: how many jobs of several GPUs got GPUs that direct
links join, by each rule. Pair scores are the rule of NVIDIA's device plugin for Kubernetes
(go-gpuallocator, policy best effort): a pair scores by its nearest connection and its NVLinks, a
set by the sum of its pairs, and the set is taken from the division of all free GPUs into sets of
that size whose scores have the largest sum.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from heapq import heappop, heappush
from itertools import combinations

from benchmarks.machine import describe, parser

from toposeat.mapping import choose_devices
from toposeat.mapping.left_whole import SetRates
from toposeat.model.route import PathClass
from toposeat.model.topology import LinkKind, Topology
from toposeat.topology import catalogue_names, read_topology

_MOST_DEVICES = 8
_SCORE = {  # of a pair without a direct link
    PathClass.SYS: 10,
    PathClass.NODE: 20,
    PathClass.PHB: 30,
    PathClass.PXB: 40,
    PathClass.PIX: 50,
}
_PER_LANE = 100
_SIZES = (1, 1, 2, 2, 4)  # of the jobs of a stream, each as likely as it is listed
_BUSY = 1.15  # GPUs that the jobs of a stream ask for at a time, per GPU

Devices = tuple[int, ...]
Rule = Callable[[int, Devices], Devices]


class PairScores:
    """The rule by pair scores on one machine."""

    def __init__(self, machine: Topology) -> None:
        """Scores of all pairs."""
        ids = [device.id for device in machine.devices]
        self._score = {
            (a, b): _score(machine, ids[a], ids[b]) for a, b in combinations(range(len(ids)), 2)
        }
        self._of = cache(self._division)

    def __call__(self, count: int, free: Devices) -> Devices:
        """The set to take."""
        return max(self._of(count, free)[1], key=self._sum)

    def _sum(self, devices: Devices) -> int:
        return sum(self._score[pair] for pair in combinations(devices, 2))

    def _division(self, count: int, free: Devices) -> tuple[int, tuple[Devices, ...]]:
        """Sum and sets of the best division; devices that fill no set are left over."""
        if len(free) < count:
            return 0, ()
        best: tuple[int, tuple[Devices, ...]] = (-1, ())
        spare = len(free) % count
        for others in combinations(free[1:], count - 1):
            taken = (free[0], *others)
            total, sets = self._of(count, tuple(d for d in free if d not in taken))
            if total + self._sum(taken) > best[0]:
                best = total + self._sum(taken), (taken, *sets)
        if spare:
            best = max(best, self._of(count, free[1:]), key=lambda found: found[0])
        return best


def _score(machine: Topology, a: str, b: str) -> int:
    route = machine.route_of_pair[a, b]
    if route.path_class is PathClass.NVL:
        return _PER_LANE * min(machine.link_of_id[link].count for link in route.links)
    return _SCORE.get(route.path_class, 0)


def machines() -> Iterator[Topology]:
    """Nodes of the catalogue on which a choice can matter."""
    for name in catalogue_names():
        machine = read_topology(name)
        if 3 <= len(machine.devices) <= _MOST_DEVICES and len(machine.hosts) == 1:
            yield machine


def by_rates(machine: Topology) -> Rule:
    """`choose`."""
    return cache(lambda count, free: choose_devices(machine, count, free).devices)


def compare_sets(found: list[Topology], trials: int) -> None:
    """Random free sets: how often a rule's ring is slower than that of `choose`."""
    rng, slower, worst, choose_slower = random.Random(1), [0, 0], [1.0, 1.0], 0
    tools = {m.name: (by_rates(m), PairScores(m), SetRates(m)) for m in found}
    for _ in range(trials):
        machine = rng.choice(found)
        size = rng.randint(3, len(machine.devices))
        free = tuple(sorted(rng.sample(range(len(machine.devices)), size)))
        count = rng.randint(2, size - 1)
        choose, scores, rates = tools[machine.name]
        own = rates.of(choose(count, free))
        for at, devices in enumerate((scores(count, free), free[:count])):
            ratio = own / rates.of(devices)
            slower[at] += ratio > 1 + 1e-6
            worst[at] = max(worst[at], ratio)
            choose_slower += ratio < 1 - 1e-6
    print(f"{trials} random sets of free GPUs on {len(found)} machines")
    for name, times, most in zip(("pair scores", "lowest numbers"), slower, worst, strict=True):
        print(f"  {name:15} slower than choose in {times:5}, at most {most:.2f} times")
    print(f"  choose          slower than one of them in {choose_slower}")


def stream(machine: Topology, rule: Rule, jobs: int, seed: int) -> int:
    """How many jobs of several GPUs got GPUs that direct links join."""
    rng = random.Random(seed)
    mean = sum(_SIZES) / len(_SIZES)
    free, ends, now, linked = set(range(len(machine.devices))), [], 0.0, 0
    for number in range(jobs):
        now += rng.expovariate(_BUSY * len(machine.devices) / mean)
        count, length = rng.choice(_SIZES), rng.expovariate(1.0)
        while ends and (ends[0][0] <= now or count > len(free)):
            ended, _, devices = heappop(ends)
            now = max(now, ended)
            free |= set(devices)
        taken = rule(count, tuple(sorted(free)))
        free -= set(taken)
        heappush(ends, (now + length, number, taken))
        linked += count > 1 and _is_linked(machine, taken)
    return linked


def _is_linked(machine: Topology, devices: Devices) -> bool:
    """Whether direct links between the devices join them all."""
    ids = {machine.devices[device].id for device in devices}
    joined = {next(iter(sorted(ids)))}
    kinds = (LinkKind.NVLINK, LinkKind.XGMI, LinkKind.XELINK)
    edges = [set(link.ends) for link in machine.links if link.kind in kinds]
    while more := {e for pair in edges if pair <= ids and pair & joined for e in pair} - joined:
        joined |= more
    return joined == ids


def main() -> None:
    """Both tables."""
    options = parser(__doc__ or "", rounds=3)
    options.add_argument("--trials", type=int, default=2000)
    options.add_argument("--jobs", type=int, default=2000)
    args = options.parse_args()
    print(describe())
    found = list(machines())
    compare_sets(found, args.trials)
    print(f"\njobs of several GPUs with linked GPUs, {args.rounds} streams of {args.jobs} jobs")
    print(f"{'machine':26}{'choose':>8}{'scores':>8}{'lowest':>8}")
    total: dict[str, int] = defaultdict(int)
    for machine in found:
        rules: dict[str, Rule] = {
            "choose": by_rates(machine),
            "scores": PairScores(machine),
            "lowest": lambda count, free: free[:count],
        }
        linked = {
            name: sum(stream(machine, rule, args.jobs, seed) for seed in range(args.rounds))
            for name, rule in rules.items()
        }
        if not any(linked.values()):
            continue  # no direct links, or switches that join all
        for name, count in linked.items():
            total[name] += count
        print(f"{machine.name:26}" + "".join(f"{count:8}" for count in linked.values()))
    print(f"{'together':26}" + "".join(f"{count:8}" for count in total.values()))


if __name__ == "__main__":
    main()
