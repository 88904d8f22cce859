"""Divide CPUs among ranks: evenly, disjointly, and at least one for each rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def share_cpus(pools: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Give each rank its part of the CPUs near its device.

    Args:
        pools: by rank, the CPUs that it may have (ascending, not empty).

    Returns:
        By rank a subset of its pool, not empty. Wherever there are enough CPUs, sets are disjoint
        and as even as the pools allow; else ranks share single CPUs.
    """
    shares: dict[int, tuple[int, ...]] = {}
    for group in _overlapping(pools):
        pool = pools[group[0]]
        if all(pools[rank] == pool for rank in group):
            shares.update(zip(group, _split(pool, len(group)), strict=True))
        else:
            shares.update(_balance({rank: pools[rank] for rank in group}))
    return shares


def _overlapping(pools: Mapping[int, tuple[int, ...]]) -> list[list[int]]:
    """Groups of ranks whose pools overlap, directly or through others, in rank order."""
    groups: list[tuple[set[int], list[int]]] = []
    for rank in sorted(pools):
        cpus, members = set(pools[rank]), [rank]
        apart = []
        for known, ranks in groups:
            if cpus & known:
                cpus |= known
                members = ranks + members
            else:
                apart.append((known, ranks))
        groups = [*apart, (cpus, members)]
    return [sorted(ranks) for _, ranks in groups]


def _runs(cpus: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return runs


def _split(pool: tuple[int, ...], parts: int) -> list[tuple[int, ...]]:
    """Equal parts of one pool.

    Every run of consecutive CPUs is cut alike: on most machines the second hardware threads of the
    cores of run 1 are run 2, and a rank should get both threads of its cores.
    """
    if len(pool) < parts:
        return [(pool[part % len(pool)],) for part in range(parts)]
    runs = _runs(pool)
    if any(len(run) % parts for run in runs):
        runs = [list(pool)]
    return [
        tuple(
            cpu
            for run in runs
            for cpu in run[len(run) * part // parts : len(run) * (part + 1) // parts]
        )
        for part in range(parts)
    ]


def _balance(pools: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Divide overlapping pools: each CPU goes to the allowed rank with the fewest CPUs.

    CPUs that few ranks may have are given first. A rank for which nothing is left shares its
    pool's first CPU.
    """
    given: dict[int, list[int]] = {rank: [] for rank in pools}
    wanted_by = {
        cpu: [rank for rank, pool in pools.items() if cpu in pool]
        for cpu in sorted({cpu for pool in pools.values() for cpu in pool})
    }
    for cpu, ranks in sorted(wanted_by.items(), key=lambda item: (len(item[1]), item[0])):
        poorest = min(ranks, key=lambda rank: (len(given[rank]), len(pools[rank]), rank))
        given[poorest].append(cpu)
    return {rank: tuple(sorted(cpus)) or pools[rank][:1] for rank, cpus in given.items()}
