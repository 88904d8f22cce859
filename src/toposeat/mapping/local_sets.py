"""Which set of a host's devices each group gets that has several ranks there.

The search over hosts knows pairs of ranks, not rings. Here the ranks of a host are placed on its
devices by their groups, as on a machine of that host alone (`sets`), and what that gives is judged
on the whole machine: hosts whose ranks have the same groups get the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from toposeat.evaluation import Evaluator
from toposeat.mapping.problem import problem_of
from toposeat.mapping.sets import map_sets
from toposeat.mapping.shapes import Shape
from toposeat.model.map_options import Constraints
from toposeat.model.traffic import Communicator, GroupLoad, Phase, Traffic

Slots = NDArray[np.uint32]
Shares = tuple[tuple[GroupLoad, tuple[int, ...]], ...]  # of groups, with local ranks

_BUDGET_S = 0.5  # of all hosts together
_MOST_KINDS = 4  # of hosts, by their groups


def with_local_sets(shape: Shape, traffic: Traffic, slots: Slots, *, seed: int) -> Slots | None:
    """Other devices on the same hosts; None where all hosts are best as they are."""
    if shape.node is None or shape.domain_of_host:
        return None
    per_host = shape.slots_per_host
    order = np.argsort(slots, kind="stable")
    hosts, first = np.unique(slots[order] // per_host, return_index=True)
    ranks_of_host = np.split(order, first[1:])
    shares = _shares(traffic, slots // per_host, ranks_of_host, hosts)
    kinds = dict.fromkeys(zip(shares, map(len, ranks_of_host), strict=True))
    if len(kinds) > _MOST_KINDS or not any(own for own, _ in kinds):
        return None
    devices = {}
    for own, count in kinds:
        devices[own, count] = tuple(range(count))
        if own:
            answer = map_sets(
                Evaluator(shape.node, _of_host(own, count, traffic.phases)),
                problem_of(shape.node, count, Constraints()),
                range(count),
                budget_s=_BUDGET_S / len(kinds),
                seed=seed,
            )
            devices[own, count] = answer.device_of_rank
    if all(own == tuple(range(len(own))) for own in devices.values()):
        return None
    found = slots.copy()
    for host, own, ranks in zip(hosts.tolist(), shares, ranks_of_host, strict=True):
        found[np.sort(ranks)] = host * per_host + np.array(devices[own, len(ranks)], np.uint32)
    return found


def _shares(
    traffic: Traffic, host_of_rank: Slots, ranks_of_host: list[NDArray[np.intp]], hosts: Slots
) -> list[Shares]:
    """For each host the groups with several ranks there."""
    number = {host: at for at, host in enumerate(hosts.tolist())}
    local = np.zeros(len(host_of_rank), np.intp)
    for ranks in ranks_of_host:
        local[np.sort(ranks)] = np.arange(len(ranks))
    members = {each.id: each.ranks for each in traffic.communicators}
    found: list[list[tuple[GroupLoad, tuple[int, ...]]]] = [[] for _ in hosts]
    for load in traffic.groups:
        here: dict[int, list[int]] = {}
        for rank in members[load.communicator]:
            here.setdefault(int(host_of_rank[rank]), []).append(int(local[rank]))
        for host, own in here.items():
            if len(own) > 1:
                alike = replace(load, communicator=0)
                found[number[host]].append((alike, tuple(sorted(own))))
    return [tuple(sorted(each, key=repr)) for each in found]


def _of_host(shares: Shares, ranks: int, phases: Sequence[Phase]) -> Traffic:
    """The groups of one host."""
    return Traffic(
        ranks=ranks,
        origin="groups of a host",
        tables={},
        phases=tuple(replace(phase, tables={}) for phase in phases),
        communicators=tuple(
            Communicator(id=at, ranks=own, name="") for at, (_, own) in enumerate(shares)
        ),
        groups=tuple(replace(load, communicator=at) for at, (load, _) in enumerate(shares)),
    )
