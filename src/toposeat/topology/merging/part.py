"""How far a source is trusted, and what a source that is a graph tells as a partial topology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import IntEnum

import numpy as np

from toposeat.model.pair import BANDWIDTH, LATENCY
from toposeat.model.quantity import Quantity
from toposeat.model.topology import Pair, PairNumbers, Topology
from toposeat.topology.graph.routes import with_direct_routes
from toposeat.topology.told import Ends, is_whole, tells_bonds, tells_paths


class Rank(IntEnum):
    """Trust in what a source tells of the structure, best first; numbers are ranked apart."""

    DRIVER = 0  # the kernel's and the driver's own tables: NVML, KFD, sysfs
    NCCL = 1
    HWLOC = 2
    CATALOGUE = 3  # what such a machine is by its data sheet
    TEXT = 4  # a matrix of words
    PROGRAM = 5  # a benchmark: it has the best numbers and tells little of devices


_RANK_OF_ORIGIN = (
    ("NCCL", Rank.NCCL),
    ("RCCL", Rank.NCCL),
    ("hwloc", Rank.HWLOC),
    ("catalogue", Rank.CATALOGUE),
    ("machine file", Rank.CATALOGUE),
    ("synthetic", Rank.CATALOGUE),
    ("nvidia-smi topo", Rank.TEXT),
    ("nvidia-smi -q", Rank.DRIVER),
    ("nvidia-smi nvlink", Rank.DRIVER),
)


def rank_of(part: Topology) -> Rank:
    """How far a source is trusted: a graph by its origin, a table by what it is of."""
    if is_whole(part):  # a merged machine is as good as the best source of its structure
        first = part.origin.removeprefix("merged: ")
        ranks = (rank for start, rank in _RANK_OF_ORIGIN if first.startswith(start))
        return next(ranks, Rank.DRIVER)
    if tells_paths(part):
        return Rank.TEXT
    if tells_bonds(part) or part.lanes:
        return Rank.DRIVER
    if part.numbers or part.host_copies:
        return Rank.PROGRAM
    return Rank.TEXT if any(p.peer_access is not None for p in part.pairs) else Rank.DRIVER


def part_of(source: Topology) -> Topology:
    """A source as a part of a merge: a graph with the facts of its routes, and no GPU slices."""
    if not is_whole(source):
        return _without_slices(source)
    if len(source.hosts) > 1:
        raise ValueError(f"{source.name}: several hosts, and only one machine can be merged")
    routed = source if source.routes or not source.nics else with_direct_routes(source)
    return replace(source, pairs=_pairs_of_routes(routed), numbers=_numbers_of_routes(source))


def _without_slices(table: Topology) -> Topology:
    """A table without slices of devices that it lists as well: a graph holds one or the other."""
    listed = {device.id for device in table.devices}
    slices = {device.id for device in table.devices if device.parent in listed}
    if not slices or tells_paths(table):
        return table
    whole = [i for i, device in enumerate(table.devices) if device.id not in slices]
    kept = tuple(table.devices[i] for i in whole)
    axes = tuple(device.id for device in kept)
    return replace(
        table,
        devices=kept,
        pairs=tuple(p for p in table.pairs if not slices & {p.source, p.target}),
        numbers=tuple(
            replace(each, devices=axes, values=each.values[np.ix_(whole, whole)])
            for each in table.numbers
        ),
        host_copies=tuple(each for each in table.host_copies if each.device not in slices),
        lanes=tuple(each for each in table.lanes if each.device not in slices),
        report=(*table.report, f"{len(slices)} slices of GPUs are left out: merged are whole GPUs"),
    )


def _pairs_of_routes(graph: Topology) -> tuple[Pair, ...]:
    """What routes tell that a graph drawn anew would not: peer access, and how near NICs are."""
    nics = {nic.id for nic in graph.nics}
    found: dict[Ends, Pair] = dict(graph.pair_of_ends)
    for ends, route in graph.route_of_pair.items():
        told = found.get(ends, Pair(source=ends[0], target=ends[1]))
        near = route.path_class if ends[1] in nics else told.path_class
        if near is not told.path_class or route.peer_access is not told.peer_access:
            found[ends] = replace(told, path_class=near, peer_access=route.peer_access)
    return tuple(found.values())


def _numbers_of_routes(graph: Topology) -> tuple[PairNumbers, ...]:
    """Numbers of routes and devices, by the source that is of this machine."""
    ids = tuple(device.id for device in graph.devices)
    routes = [(e, r) for e, r in graph.route_of_pair.items() if e[0] in ids and e[1] in ids]
    caps = {e: r.cap_bytes_per_s for e, r in routes}
    caps |= {(d.id, d.id): d.copy_bytes_per_s for d in graph.devices}
    sums = {e: r.combined_bytes_per_s for e, r in routes}
    latencies = {e: r.latency_s for e, r in routes}
    latencies |= {(d.id, d.id): d.copy_latency_s for d in graph.devices}
    return (
        *_matrices(BANDWIDTH, ids, caps, both_ways=False),
        *_matrices(BANDWIDTH, ids, sums, both_ways=True),
        *_matrices(LATENCY, ids, latencies, both_ways=False),
    )


def _matrices(
    what: str, ids: tuple[str, ...], found: Mapping[Ends, Quantity | None], *, both_ways: bool
) -> Iterable[PairNumbers]:
    """One matrix for each source that is of this machine."""
    at = {id: i for i, id in enumerate(ids)}
    known = {ends: q for ends, q in found.items() if q and q.source.is_of_this_machine}
    for source in dict.fromkeys(q.source for q in known.values()):
        values = np.full((len(ids), len(ids)), np.nan)
        for (a, b), quantity in known.items():
            if quantity.source is source:
                values[at[a], at[b]] = quantity.value
        yield PairNumbers(what=what, values=values, devices=ids, both_ways=both_ways, source=source)
