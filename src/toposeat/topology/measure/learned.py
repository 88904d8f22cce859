"""Builds a topology from measurements: numbers on a known graph, or a graph of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from toposeat.evaluation.route_numbers import walk
from toposeat.model.few import few
from toposeat.model.measurement import Matrix, MeasuredPairs, Measurement, SharedRates
from toposeat.model.pair import BANDWIDTH, LATENCY
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import (
    ComponentKind,
    Device,
    HostNumbers,
    Link,
    LinkKind,
    PairNumbers,
    PathClass,
    Route,
    Topology,
    Vendor,
)
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.measure.pairs import SharedLink
from toposeat.topology.measure.results import PROTOCOLS, PairResults
from toposeat.topology.merge import merge_topologies
from toposeat.topology.premises import without_premises
from toposeat.topology.told import told_machine

_DRIFT = 0.1  # of an earlier measurement
_FULL = 0.9  # of both capacities together: above it, directions do not hinder each other
_SAME = 0.95  # rates within this factor of each other have the same limit


def facts_of_measurement(
    pci: Sequence[str],
    results: PairResults,
    protocol: str,
    host: Sequence[HostNumbers] = (),
    ordinals: Sequence[int] | None = None,
) -> Topology:
    """The numbers of `toposeat measure`.

    Pairs that cannot use the protocol were copied through host memory: their numbers are those of
    "staged".

    `pci` and `ordinals` are the bus id and the number on this node of each GPU.
    """
    bandwidth, latency = pair_numbers(results, protocol)
    return told_machine(
        origin="toposeat measure",
        devices=tuple(
            Device(id=f"GPU{i}", index=None if ordinals is None else ordinals[i], pci_bus_id=each)
            for i, each in enumerate(pci)
        ),
        numbers=(
            PairNumbers(what=BANDWIDTH, values=bandwidth, engine="ce"),
            PairNumbers(what=LATENCY, values=latency, engine="ce"),
        ),
        host_copies=host,
    )


def pair_numbers(
    results: PairResults, protocol: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bytes/s and seconds of each ordered pair, shape (n, n); "staged" if there is no other."""
    bandwidth, latency = results.bandwidth(protocol), results.latency(protocol)
    staged, staged_latency = results.bandwidth("staged"), results.latency("staged")
    return (
        np.where(np.isnan(bandwidth), staged, bandwidth),
        np.where(np.isnan(latency), staged_latency, latency),
    )


def numbers_of(topology: Topology, pci: Sequence[str | None]) -> dict[str, int]:
    """Position of each measured device by its id; by order alone where a bus id is not known."""
    order = {d.pci_bus_id: d.id for d in topology.devices}
    ids = [order[each] for each in pci if each is not None and each in order]
    if len(ids) < len(pci):
        ids = [d.id for d in topology.devices][: len(pci)]
    return {id: i for i, id in enumerate(ids)}


def _without_far_limits(facts: Topology, base: Topology | None) -> Topology:
    """Leave out host copies that are slower than the same GPU's copies over PCIe to peers.

    Their limit lies beyond the GPU's own link, but a merge would take it for that link's capacity.
    """
    rates = np.array(facts.numbers[0].values)
    if base is not None:
        number = numbers_of(base, [d.pci_bus_id for d in facts.devices])
        for (a, b), route in base.route_of_pair.items():
            if route.path_class is PathClass.NVL and a in number and b in number:
                rates[number[a], number[b]] = np.nan
    rates = np.nan_to_num(rates)
    place = {device.id: i for i, device in enumerate(facts.devices)}
    kept = [
        each
        for each in facts.host_copies
        if each.what != BANDWIDTH
        or (
            (each.from_device or 0.0) > _SAME * rates[place[each.device]].max()
            and (each.to_device or 0.0) > _SAME * rates[:, place[each.device]].max()
        )
    ]
    return replace(facts, host_copies=tuple(kept))


def _without_old(base: Topology, facts: Topology) -> Topology:
    """The machine without earlier measurements of pairs that have been measured again."""
    number = numbers_of(base, [d.pci_bus_id for d in facts.devices])
    rates = facts.numbers[0].values
    routes = []
    for route in base.routes:
        i, j = number.get(route.source), number.get(route.target)
        if i is not None and j is not None and not np.isnan(rates[i, j]):
            cap, latency, curve = route.cap_bytes_per_s, route.latency_s, route.curve
            route = replace(  # noqa: PLW2901
                route,
                cap_bytes_per_s=None if cap and cap.source is Source.MEASURED else cap,
                latency_s=None if latency and latency.source is Source.MEASURED else latency,
                curve=None if curve and curve.source is Source.MEASURED else curve,
            )
        routes.append(route)
    return replace(base, routes=tuple(routes))


def measured_topology(base: Topology, facts: Topology, tried: Sequence[SharedLink]) -> Topology:
    """A known machine with measured pairs and measured capacities of its shared links.

    A shared link of the measurement is the link of the graph that the same GPUs' traffic to all
    others crosses. The report names shared links without a counterpart. Where a link did not limit
    the GPUs, its capacity, if it is assumed, is raised to what the link carried.
    """
    facts = _without_far_limits(facts, base)
    merged = merge_topologies([_without_old(base, facts), facts], base.name)
    number = numbers_of(merged, [d.pci_bus_id for d in facts.devices])
    of_set = _links_by_set(merged, number)
    links = {link.id: link for link in merged.links}
    report = list(merged.report)
    for each in tried:
        found = of_set.get(each.inside)
        if not each.limits:
            if found is not None:
                links[found[0]] = _as_wide(links[found[0]], each, forward_out=found[1])
        elif found is None:
            report.append(
                f"GPUs {_list(each.inside)} share {each.out_bytes_per_s / 1e9:.3g} GB/s to the"
                " others, but the topology shows no link that only they use"
            )
        else:
            links[found[0]] = _with_capacity(links[found[0]], each, forward_out=found[1])
    ports = np.nan_to_num(facts.numbers[0].values)
    for i in range(len(number)):
        found = of_set.get(frozenset({i}))
        if found is not None:
            port = _port(ports, i)
            links[found[0]] = _with_capacity(links[found[0]], port, forward_out=found[1])
    return replace(
        merged,
        links=tuple(links[link.id] for link in merged.links),
        report=tuple(dict.fromkeys([*report, *drift(base, merged)])),
    )


def _port(rates: NDArray[np.float64], i: int) -> SharedLink:
    """What joins one GPU to all others: it carries what its fastest pair reaches."""
    return SharedLink(frozenset({i}), float(rates[i].max()), float(rates[:, i].max()), inf)


def _links_by_set(
    topology: Topology, number: Mapping[str, int]
) -> dict[frozenset[int], tuple[str, bool]]:
    """Link id by the set of GPUs whose traffic to all others crosses it, and if forward is out."""
    crossing: dict[tuple[str, bool], set[tuple[int, int]]] = {}
    for route in topology.routes:
        if route.source not in number or route.target not in number:
            continue
        for link, is_reverse in walk(topology.link_of_id, route):
            pair = (number[route.source], number[route.target])
            crossing.setdefault((link.id, not is_reverse), set()).add(pair)
    found: dict[frozenset[int], tuple[str, bool]] = {}
    for (link_id, forward), pairs in crossing.items():
        inside = frozenset(a for a, _ in pairs)
        outside = frozenset(range(len(number))) - inside
        if outside and pairs == {(a, b) for a in inside for b in outside}:
            found.setdefault(inside, (link_id, forward))
    return found


def _with_capacity(link: Link, shared: SharedLink, *, forward_out: bool) -> Link:
    out = Quantity(shared.out_bytes_per_s, Source.MEASURED)
    into = Quantity(shared.in_bytes_per_s, Source.MEASURED)
    if not out.value or not into.value:
        return link
    both = shared.both_bytes_per_s
    combined = link.combined_bytes_per_s
    if shared.has_combined_limit:
        combined = Quantity(both, Source.MEASURED)
    elif np.isfinite(both) and both > _FULL * (out.value + into.value):
        combined = None  # the two directions do not hinder each other
    return replace(
        link,
        forward_bytes_per_s=out if forward_out else into,
        backward_bytes_per_s=into if forward_out else out,
        combined_bytes_per_s=combined,
    )


def _as_wide(link: Link, carried: SharedLink, *, forward_out: bool) -> Link:
    """A link with no assumed capacity below what it was seen to carry."""
    out, into = carried.out_bytes_per_s, carried.in_bytes_per_s
    combined = link.combined_bytes_per_s
    return replace(
        link,
        forward_bytes_per_s=at_least(link.forward_bytes_per_s, out if forward_out else into),
        backward_bytes_per_s=at_least(link.backward_bytes_per_s, into if forward_out else out),
        combined_bytes_per_s=combined and at_least(combined, carried.both_bytes_per_s),
    )


def at_least(capacity: Quantity, carried: float) -> Quantity:
    """A capacity; one that is assumed is no less than what was seen to be carried."""
    if capacity.source is not Source.ASSUMED or carried <= capacity.value:
        return capacity
    return Quantity(carried, Source.MEASURED)


def drift(before: Topology, after: Topology) -> list[str]:
    """One sentence if measured limits of pairs differ from those measured earlier."""
    moved = []
    for pair, route in after.route_of_pair.items():
        old = before.route_of_pair.get(pair)
        now, then = route.cap_bytes_per_s, old.cap_bytes_per_s if old else None
        if now and then and now.source is then.source is Source.MEASURED and then.value:
            change = now.value / then.value - 1
            if abs(change) > _DRIFT:
                moved.append((abs(change), change, pair))
    if not moved:
        return []
    _, change, (a, b) = max(moved)
    return [
        f"{len(moved)} pairs differ by more than {_DRIFT:.0%} from the earlier measurement,"
        f" {a} -> {b} most: {change:+.0%}"
    ]


def topology_of_measurement(name: str, facts: Topology, shared: Sequence[SharedLink]) -> Topology:
    """A machine known from measurements only: a tree of the sets that share a link.

    Raises:
        ValueError: two sets overlap, which no tree shows.
    """
    facts = _without_far_limits(facts, None)
    builder = GraphBuilder()
    rates = np.nan_to_num(facts.numbers[0].values)
    for i, fact in enumerate(facts.devices):
        builder.devices.append(
            Device(id=f"gpu{i}", index=i, vendor=Vendor.UNKNOWN, pci_bus_id=fact.pci_bus_id)
        )
    root = builder.component(ComponentKind.NUMA, "host")
    sets = sorted(shared, key=lambda each: len(each.inside))
    latency = float(np.nanmin(facts.numbers[1].values)) / 4
    vertex = {each.inside: f"shared{k}" for k, each in enumerate(sets)}
    for each in sets:
        builder.component(ComponentKind.SWITCH, vertex[each.inside])

    def link(below: str, above: str, each: SharedLink) -> None:
        limit = (
            Quantity(each.both_bytes_per_s, Source.MEASURED) if each.has_combined_limit else None
        )
        builder.link(
            LinkKind.PCIE,
            below,
            above,
            bytes_per_s=Quantity(each.out_bytes_per_s, Source.MEASURED),
            backward_bytes_per_s=Quantity(each.in_bytes_per_s, Source.MEASURED),
            combined_bytes_per_s=limit,
            latency_s=latency,
        )

    for k, each in enumerate(sets):
        parent = next((other for other in sets[k + 1 :] if other.inside & each.inside), None)
        if parent is not None and not each.inside < parent.inside:
            raise ValueError(
                f"GPUs {_list(each.inside)} and GPUs {_list(parent.inside)} overlap in their links"
            )
        link(vertex[each.inside], root if parent is None else vertex[parent.inside], each)
    for i in range(len(facts.devices)):
        home = next((vertex[each.inside] for each in sets if i in each.inside), root)
        link(f"gpu{i}", home, _port(rates, i))
    learned = builder.build(name=name, origin="toposeat measure", caps=_caps(rates))
    routes = [replace(route, path_class=PathClass.UNKNOWN) for route in learned.routes]
    doubt = "known from measurements only: kinds of links and their latencies are not known"
    return merge_topologies(
        [replace(learned, routes=tuple(routes), report=(doubt,)), facts], learned.name
    )


def _caps(rates: NDArray[np.float64]) -> dict[tuple[str, str], Quantity]:
    n = len(rates)
    return {
        (f"gpu{i}", f"gpu{j}"): Quantity(float(rates[i, j]), Source.MEASURED)
        for i in range(n)
        for j in range(n)
        if i != j and rates[i, j] > 0
    }


def _list(numbers: frozenset[int]) -> str:
    return ", ".join(str(i) for i in sorted(numbers))


def check_machine(base: Topology, pci: Sequence[str], ordinals: Sequence[int]) -> None:
    """Refuse GPUs that are not those of the known machine, before anything is measured."""
    merge_topologies(
        [base, facts_of_measurement(pci, PairResults(len(pci)), PROTOCOLS[0], (), ordinals)],
        base.name,
    )


def unseen_devices(base: Topology, pci: Sequence[str]) -> list[str]:
    """One sentence if the known machine has GPUs that no process could take."""
    unseen = [
        f"{device.id} ({device.pci_bus_id})"
        for device in base.devices
        if device.pci_bus_id is not None and device.pci_bus_id not in pci
    ]
    if not unseen:
        return []
    return [
        f"{base.name} has {len(base.devices)} GPUs, {len(pci)} were measured; not visible here:"
        f" {few(unseen, 4)}. A container, cgroup or CUDA_VISIBLE_DEVICES may hide them; their pairs"
        " keep the numbers that they had"
    ]


def fallen_back(results: PairResults, protocols: Sequence[str]) -> list[str]:
    """One sentence for each protocol that some pairs could not use."""
    said = []
    staged = ~np.isnan(results.bandwidth("staged"))
    for name in protocols:
        missing = np.isnan(results.bandwidth(name)) & staged
        pairs = [pair for pair in results.pairs() if missing[pair]]
        if name != "staged" and pairs:
            a, b = pairs[0]
            said.append(
                f"{name} is not possible for {len(pairs)} pairs, GPU {a} to {b} first: the driver"
                " allows no direct access between them. They went through host memory, and their"
                " numbers are of that (staged)"
            )
    return said


def measurement_of(
    pci: Sequence[str],
    results: PairResults,
    tried: Sequence[SharedLink],
    host: Sequence[HostNumbers],
) -> Measurement:
    """The whole measurement, with the protocols that pairs fell back to."""

    def rows(values: NDArray[np.float64]) -> Matrix:
        return tuple(map(tuple, values.tolist()))

    used = {key[2] for key in results.of}
    return Measurement(
        devices=tuple(pci),
        protocols={
            name: MeasuredPairs(
                bandwidth_bytes_per_s=rows(results.bandwidth(name)),
                latency_s=rows(results.latency(name)),
                bandwidth_ratio=rows(results.bandwidth_ratio(name)),
                latency_ratio=rows(results.latency_ratio(name)),
                both_ways_bytes_per_s=rows(results.both_ways(name)),
                both_ways_ratio=rows(results.both_ways_ratio(name)),
            )
            for name in PROTOCOLS
            if name in used
        },
        spread=results.spread(),
        shared=tuple(
            SharedRates(
                devices=tuple(sorted(each.inside)),
                out_bytes_per_s=each.out_bytes_per_s,
                in_bytes_per_s=each.in_bytes_per_s,
                both_bytes_per_s=each.both_bytes_per_s,
                limits=each.limits,
            )
            for each in tried
        ),
        host=tuple(host),
    )


_HINDERED = 0.9  # both directions at once reach less than this share of what they reach alone


def with_results(
    topology: Topology, pci: Sequence[str], results: PairResults, protocol: str
) -> Topology:
    """The machine with measured curves and combined limits on its routes.

    A route gets the curve of `protocol`, or of "staged" where a pair has no other, and what both
    directions of its pair reach together, where they hinder each other. Where every pair was
    measured, no assumption remains, because a limit that no transfer met limits none.

    `pci` has the bus id of each GPU of `results`.
    """
    number = numbers_of(topology, pci)
    limits = dict(both_ways_limits(results, protocol))

    def measured(route: Route) -> Route:
        i, j = number.get(route.source), number.get(route.target)
        if i is None or j is None or i == j:
            return route
        return replace(
            route,
            curve=results.curve(i, j, protocol) or results.curve(i, j, "staged") or route.curve,
            combined_bytes_per_s=limits.get((i, j), route.combined_bytes_per_s),
        )

    routes = tuple(map(measured, topology.routes))
    machine = _carrying(replace(topology, routes=routes), results, number)
    unmeasured = np.isnan(results.bandwidth(protocol)) & np.isnan(results.bandwidth("staged"))
    np.fill_diagonal(unmeasured, val=False)
    is_whole = len(number) == len(topology.devices) and not unmeasured.any()
    return without_premises(machine) if is_whole else machine


def both_ways_limits(
    results: PairResults, protocol: str
) -> Iterator[tuple[tuple[int, int], Quantity | None]]:
    """What each measured pair's directions reach together; None where they do not hinder."""
    both, alone = results.both_ways(protocol), results.bandwidth(protocol)
    for i, j in results.pairs():
        if not np.isnan(both[i, j]):
            hindered = both[i, j] < _HINDERED * (alone[i, j] + alone[j, i])
            yield (i, j), Quantity(float(both[i, j]), Source.MEASURED) if hindered else None


def _carrying(topology: Topology, results: PairResults, number: Mapping[str, int]) -> Topology:
    """Capacities of links, raised to what flows over them were measured to reach.

    A link's capacity is learnt from one protocol, whose pairs may all be slower than the link. What
    both directions carry together, where it is assumed, is no less than both of a pair reached.
    """
    least: dict[tuple[str, bool], float] = {}
    together: dict[str, float] = {}
    both = [results.both_ways(protocol) for protocol in PROTOCOLS]
    for route in topology.routes:
        i, j = number.get(route.source), number.get(route.target)
        if i is not None and j is not None and not route.staged:
            sums = [float(each[i, j]) for each in both if not np.isnan(each[i, j])]
            for link_id in route.links:
                together[link_id] = max([together.get(link_id, 0.0), *sums])
        if route.curve is not None and route.curve.source is Source.MEASURED:
            for link, is_reverse in walk(topology.link_of_id, route):
                step = (link.id, not is_reverse)
                least[step] = max(least.get(step, 0.0), route.curve.most_bytes_per_s)
    links = [
        replace(
            link,
            forward_bytes_per_s=_raised(link.forward_bytes_per_s, least.get((link.id, True))),
            backward_bytes_per_s=_raised(link.backward_bytes_per_s, least.get((link.id, False))),
            combined_bytes_per_s=link.combined_bytes_per_s
            and at_least(link.combined_bytes_per_s, together.get(link.id, 0.0)),
        )
        for link in topology.links
    ]
    return replace(topology, links=tuple(links))


def _raised(capacity: Quantity, least: float | None) -> Quantity:
    if least is None or capacity.source is not Source.MEASURED or capacity.value >= least:
        return capacity
    return replace(capacity, value=least)
