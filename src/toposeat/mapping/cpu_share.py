"""Divide CPUs among ranks: whole cores, evenly, disjointly, and at least one CPU for each rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

_Core = tuple[int, ...]  # the CPUs that are its hardware threads


def share_cpus(
    pools: Mapping[int, tuple[int, ...]],
    cores: Iterable[frozenset[int]] = (),
    caches: Iterable[frozenset[int]] = (),
) -> dict[int, tuple[int, ...]]:
    """Give each rank its part of the CPUs near its device.

    Args:
        pools: by rank, the CPUs that it may have (ascending, not empty).
        cores: the CPUs of each core, as far as that is known.
        caches: the CPUs of each last-level cache, as far as that is known.

    Returns:
        By rank a subset of its pool, not empty. Wherever each rank can have a core of its own, no
        core is of two ranks, and shares are as even as the pools allow; else it is so with single
        CPUs; else ranks share those. Caches stay whole where they divide evenly among ranks of one
        pool.
    """
    known, near = list(cores), list(caches)
    shares: dict[int, tuple[int, ...]] = {}
    for group in _overlapping(pools):
        pool = pools[group[0]]
        whole = _cores_of(sorted({cpu for rank in group for cpu in pools[rank]}), known)
        if all(pools[rank] == pool for rank in group):
            shares.update(zip(group, _split(whole, near, len(group)), strict=True))
        else:
            shares.update(_balance({rank: pools[rank] for rank in group}, whole))
    return shares


def cores_by_number(cpus: Sequence[int]) -> list[_Core]:
    """The cores of CPUs (ascending) as Linux numbers them on most machines.

    The second half of a list that has a gap there holds the second threads of the first; CPUs in
    one run are a core each.
    """
    half = len(cpus) // 2
    first, second = cpus[:half], cpus[half:]
    apart = {b - a for a, b in zip(first, second, strict=False)}
    if len(cpus) == 2 * half and len(apart) == 1 and apart != {half}:
        return list(zip(first, second, strict=True))
    return [(cpu,) for cpu in cpus]


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
    """The CPUs as cores, in the order of their first ones; by their numbers where none is known."""
    pool = set(cpus)
    found = [tuple(sorted(core & pool)) for core in known if core & pool]
    if not found:
        return cores_by_number(cpus)
    single = pool.difference(*found)
    return sorted([*found, *((cpu,) for cpu in single)])


def _split(
    cores: Sequence[_Core], caches: Sequence[frozenset[int]], parts: int
) -> list[tuple[int, ...]]:
    """Equal parts of one pool; of whole caches where they or the parts divide evenly."""
    blocks = [block for cache in caches if (block := [c for c in cores if cache.issuperset(c)])]
    blocks.sort()
    if sum(map(len, blocks)) == len(cores) and len(blocks) > 1:
        each, of_one = len(blocks) // parts, parts // len(blocks)
        if len(blocks) == each * parts:
            runs = [blocks[at * each : (at + 1) * each] for at in range(parts)]
            return [_joined(core for block in run for core in block) for run in runs]
        if parts == of_one * len(blocks) and all(len(block) >= of_one for block in blocks):
            return [part for block in blocks for part in _cut(block, of_one)]
    if len(cores) < parts:
        cores = [(cpu,) for core in cores for cpu in core]
    if len(cores) < parts:
        return [cores[part % len(cores)] for part in range(parts)]
    return _cut(cores, parts)


def _cut(cores: Sequence[_Core], parts: int) -> list[tuple[int, ...]]:
    """Parts of a run of cores; those left over go to the first parts, one each."""
    each, more = divmod(len(cores), parts)
    starts = [part * each + min(part, more) for part in range(parts + 1)]
    return [_joined(cores[starts[part] : starts[part + 1]]) for part in range(parts)]


def _joined(cores: Iterable[_Core]) -> tuple[int, ...]:
    return tuple(sorted(cpu for core in cores for cpu in core))


def _balance(
    pools: Mapping[int, tuple[int, ...]], cores: Sequence[_Core]
) -> dict[int, tuple[int, ...]]:
    """Divide overlapping pools: ranks take cores in turns, until none can have one more.

    Of a core that is partly in a rank's pool the rank gets that part. Where a rank cannot have a
    core of its own, single CPUs are divided so; a rank for which nothing is left then shares its
    pool's first CPU.
    """
    whole = {rank: set(pool) for rank, pool in pools.items()}
    wanted = [sum(not pool.isdisjoint(core) for pool in whole.values()) for core in cores]
    may = {
        rank: sorted(
            (at for at, core in enumerate(cores) if not pool.isdisjoint(core)),
            key=lambda at: (not pool.issuperset(cores[at]), wanted[at], at),
        )
        for rank, pool in whole.items()
    }
    owner: dict[int, int] = {}
    hungry = sorted(pools, key=lambda rank: (len(may[rank]), rank))
    while hungry:
        hungry = [rank for rank in hungry if _takes_one(rank, may, owner)]
    if len(set(owner.values())) < len(pools) and any(len(core) > 1 for core in cores):
        return _balance(pools, [(cpu,) for core in cores for cpu in core])
    given: dict[int, list[int]] = {rank: [] for rank in pools}
    for at, rank in owner.items():
        given[rank] += whole[rank].intersection(cores[at])
    return {rank: tuple(sorted(cpus)) or pools[rank][:1] for rank, cpus in given.items()}


def _takes_one(rank: int, may: Mapping[int, Sequence[int]], owner: dict[int, int]) -> bool:
    """Give a rank a free core, or one whose owner takes another instead (an augmenting path)."""
    gives: dict[int, tuple[int, int]] = {}  # by rank the core that it would give, and to whom
    queue = [rank]
    for taker in queue:
        for core in may[taker]:
            giver = owner.get(core)
            if giver is None:
                owner[core] = taker
                _pass_on(taker, gives, owner)
                return True
            if giver != rank and giver not in gives:
                gives[giver] = core, taker
                queue.append(giver)
    return False


def _pass_on(taker: int, gives: Mapping[int, tuple[int, int]], owner: dict[int, int]) -> None:
    """Who got a core gives one to the next, back to the rank that asked."""
    while taker in gives:
        core, taker = gives[taker]
        owner[core] = taker
