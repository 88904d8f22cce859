"""Divide CPUs among ranks: whole cores, evenly, disjointly, and at least one CPU for each rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

_Core = tuple[int, ...]  # the CPUs that are its hardware threads


def share_cpus(
    pools: Mapping[int, tuple[int, ...]], cores: Iterable[frozenset[int]] = ()
) -> dict[int, tuple[int, ...]]:
    """Give each rank its part of the CPUs near its device.

    Args:
        pools: by rank, the CPUs that it may have (ascending, not empty).
        cores: the CPUs of each core that has several, as far as that is known.

    Returns:
        By rank a subset of its pool, not empty. Wherever there are enough cores, each rank has
        whole ones; wherever there are enough CPUs, sets are disjoint and as even as the pools
        allow; else ranks share single CPUs.
    """
    known = list(cores)
    shares: dict[int, tuple[int, ...]] = {}
    for group in _overlapping(pools):
        pool = pools[group[0]]
        whole = _cores_of(sorted({cpu for rank in group for cpu in pools[rank]}), known)
        if all(pools[rank] == pool for rank in group):
            shares.update(zip(group, _split(whole, len(group)), strict=True))
        else:
            shares.update(_balance({rank: pools[rank] for rank in group}, whole))
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


def _cores_of(cpus: Sequence[int], known: Sequence[frozenset[int]]) -> list[_Core]:
    """The CPUs as cores, in the order of their first ones.

    Where no core is known, the second half of a list that has a gap there holds the second hardware
    threads of the cores of the first, as Linux numbers them on most machines.
    """
    pool = set(cpus)
    found = [tuple(sorted(core & pool)) for core in known if core & pool]
    half = len(cpus) // 2
    first, second = cpus[:half], cpus[half:]
    apart = {b - a for a, b in zip(first, second, strict=False)}
    if not found and len(cpus) == 2 * half and len(apart) == 1 and apart != {half}:
        found = list(zip(first, second, strict=True))
    single = pool.difference(*found)
    return sorted([*found, *((cpu,) for cpu in single)])


def _split(cores: Sequence[_Core], parts: int) -> list[tuple[int, ...]]:
    """Equal parts of one pool."""
    if len(cores) < parts:
        cores = [(cpu,) for core in cores for cpu in core]
    if len(cores) < parts:
        return [cores[part % len(cores)] for part in range(parts)]
    ends = [len(cores) * part // parts for part in range(parts + 1)]
    return [
        tuple(sorted(cpu for core in cores[ends[part] : ends[part + 1]] for cpu in core))
        for part in range(parts)
    ]


def _balance(
    pools: Mapping[int, tuple[int, ...]], cores: Sequence[_Core]
) -> dict[int, tuple[int, ...]]:
    """Divide overlapping pools: each core goes to the allowed rank with the fewest CPUs.

    Cores that few ranks may have are given first. Where a rank would get none, single CPUs are
    divided so; a rank for which nothing is left then shares its pool's first CPU.
    """
    given: dict[int, list[int]] = {rank: [] for rank in pools}
    whole = {rank: set(pool) for rank, pool in pools.items()}
    wanted_by = {
        core: [rank for rank, pool in whole.items() if pool.issuperset(core)] for core in cores
    }
    for core, ranks in sorted(wanted_by.items(), key=lambda item: (len(item[1]), item[0])):
        if ranks:
            poorest = min(ranks, key=lambda rank: (len(given[rank]), len(pools[rank]), rank))
            given[poorest] += core
    if not all(given.values()) and any(len(core) > 1 for core in cores):
        return _balance(pools, [(cpu,) for core in cores for cpu in core])
    return {rank: tuple(sorted(cpus)) or pools[rank][:1] for rank, cpus in given.items()}
