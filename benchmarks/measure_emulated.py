"""`toposeat measure` on a whole emulated 16-GPU node, against the model that paced it.

    toposeat emulate -t k80-16 --scale 0.05 -- python -m benchmarks.measure_emulated

Emulated: shows that the measurement recovers what the links do, nothing about a real K80.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from benchmarks.machine import describe

from toposeat.model.topology import Topology
from toposeat.topology import read_topology
from toposeat.topology.measure import (
    PairResults,
    SharedLink,
    Workers,
    measure_both_ways,
    measure_host,
    measure_pairs,
    tournament,
    try_sets,
)
from toposeat.topology.measure.results import BANDWIDTH_SIZES, SMALL_BYTES


def main() -> None:
    """Measure, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", default="k80-16", help="as given to `toposeat emulate -t`")
    parser.add_argument("--scale", type=float, default=0.05, help="as given to it")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for pairs alone")
    options = parser.parse_args()
    machine = read_topology(options.machine)
    print(f"EMULATED {options.machine}, links x {options.scale}\n{describe()}")
    rounds = tournament(len(machine.devices))
    for number, matches in enumerate(rounds, 1):
        print(f"round {number}: {' '.join(f'{a}-{b}' for a, b in matches)}")
    begin = time.monotonic()
    with Workers() as workers:
        results = PairResults(workers.count)
        measure_pairs(workers, ["get"], options.budget, results, lambda *_: None)
        pairs_s = time.monotonic() - begin
        measure_both_ways(workers, "get", results, lambda *_: None)
        both_s = time.monotonic() - begin - pairs_s
        tried = try_sets(workers, results.bandwidth("get"), "get", lambda *_: None)
        host = measure_host(workers)
    total = time.monotonic() - begin
    print(
        f"wall time {total:.1f} s, of it pairs alone {pairs_s:.1f} s, both directions"
        f" {both_s:.1f} s; {len(host) // 2} GPUs to host"
    )
    _print_errors(machine, options.scale, results)
    _print_both(machine, options.scale, results)
    _print_sets(machine, tried)


def model_rates(machine: Topology, scale: float) -> dict[tuple[int, int], float]:
    """Bytes/s of each pair alone: the least of its links and its cap."""
    rates = {}
    for i, a in enumerate(machine.devices):
        for j, b in enumerate(machine.devices):
            if i == j:
                continue
            route, here = machine.route_of_pair[a.id, b.id], a.id
            least = route.cap_bytes_per_s.value if route.cap_bytes_per_s else float("inf")
            for name in route.links:
                link = machine.link_of_id[name]
                forward = here == link.ends[0]
                here = link.ends[1] if forward else link.ends[0]
                side = link.forward_bytes_per_s if forward else link.backward_bytes_per_s
                least = min(least, side.value)
            rates[i, j] = scale * least
    return rates


def _print_errors(machine: Topology, scale: float, results: PairResults) -> None:
    exact = model_rates(machine, scale)
    print("error against the emulated model, all ordered pairs (bandwidth alone):")
    slope = results.bandwidth("get")
    _print_error("slope 1-4 MiB", [slope[pair] / rate - 1 for pair, rate in exact.items()])
    for size in BANDWIDTH_SIZES:
        seconds = results.best("get", size)
        errors = [size / seconds[pair] / rate - 1 for pair, rate in exact.items()]
        _print_error(f"best of {size >> 10} KiB", errors)
    repeats = [len(t.seconds) for t in results.of.values() if t.bytes >= SMALL_BYTES]
    print(
        f"repeats {min(repeats)} to {max(repeats)} (median {statistics.median(repeats):g});"
        f" median beyond the fastest: {results.spread():.2%}"
    )


def _print_error(what: str, errors: list[float]) -> None:
    size = np.abs(errors)
    print(
        f"  {what:<18} median {np.median(size):6.2%}  95 % of pairs {np.quantile(size, 0.95):6.2%}"
        f"  worst {size.max():6.2%}  within 2 %: {np.mean(size <= 0.02):.1%} of {len(size)}"
    )


def _print_both(machine: Topology, scale: float, results: PairResults) -> None:
    """Both directions at once, beside what the links' combined capacities leave of twice one."""
    exact, both = model_rates(machine, scale), results.both_ways("get")
    errors = []
    for (i, j), rate in exact.items():
        route = machine.route_of_pair[machine.devices[i].id, machine.devices[j].id]
        combined = [machine.link_of_id[name].combined_bytes_per_s for name in route.links]
        limits = [scale * each.value for each in (*combined, route.combined_bytes_per_s) if each]
        errors.append(both[i, j] / min(rate + exact[j, i], *limits, float("inf")) - 1)
    print("both directions at once (median of each direction, handshake included):")
    _print_error("4 MiB", errors)


def _print_sets(machine: Topology, tried: list[SharedLink]) -> None:
    """Links that several GPUs' traffic to all others crosses, beside the sets found."""
    found = {each.inside for each in tried if each.limits}
    roomy = {each.inside for each in tried if not each.limits}
    number = {device.id: i for i, device in enumerate(machine.devices)}
    wanted: dict[frozenset[int], float] = {}
    crossing: dict[str, set[frozenset[int]]] = {}
    for (a, b), route in machine.route_of_pair.items():
        if a in number and b in number:
            for name in route.links:
                crossing.setdefault(name, set()).add(frozenset((number[a], number[b])))
    everyone = set(number.values())
    for name, pairs in crossing.items():
        near = max(_sides(pairs, everyone), key=len, default=set())
        side = frozenset(near if len(near) * 2 <= len(everyone) else everyone - near)
        if len(side) > 1:
            wanted[side] = machine.link_of_id[name].forward_bytes_per_s.value
    print(f"links that several GPUs share, in the catalogue: {len(wanted)} sets of GPUs")
    for side in sorted(wanted, key=lambda each: (len(each), sorted(each))):
        most = _most_into(side, wanted)
        if side in found:
            word = "found"
        elif most <= wanted[side]:
            word = f"cannot be filled ({most / 1e9:.2f} of {wanted[side] / 1e9:.2f} GB/s)"
            word += ", reported as no constraint:" if side in roomy else ", MISSED:"
        else:
            word = "MISSED"
        print(f"  {word} {sorted(side)}")
    for side in found - set(wanted):
        print(f"  NOT IN THE CATALOGUE {sorted(side)}")


def _most_into(side: frozenset[int], rates: dict[frozenset[int], float]) -> float:
    """Bytes/s that the shared links below one can give it at most."""
    inner = [each for each in rates if each < side]
    largest = [each for each in inner if not any(each < other for other in inner)]
    covered = frozenset().union(*largest) == side
    return sum(rates[each] for each in largest) if covered else float("inf")


def _sides(pairs: set[frozenset[int]], everyone: set[int]) -> list[set[int]]:
    """The two sides of a link that every pair across it, and no other, uses."""
    sides = []
    for start in everyone:
        side = {start} | {i for i in everyone if i != start and frozenset((start, i)) not in pairs}
        cut = {frozenset((a, b)) for a in side for b in everyone - side}
        if cut and cut == pairs:
            sides.append(side)
    return sides


if __name__ == "__main__":
    main()
