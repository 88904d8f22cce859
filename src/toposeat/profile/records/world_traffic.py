"""`Traffic` from an added-up world, with its collectives expanded and other worlds beside it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from toposeat.model.traffic import (
    CollectiveEvent,
    MemorySpace,
    PairTable,
    Phase,
    RankInfo,
    TableKey,
    Traffic,
    TrafficKind,
    World,
)
from toposeat.profile.records.collectives import (
    MAX_PAIRS,
    Expansion,
    expand_collectives,
    model_words,
    rules_of,
)
from toposeat.profile.records.segment import PhaseMode, WorldOrigin
from toposeat.profile.records.world import MetWorld, PhaseSum, WorldSum, tables_of

Tables = Mapping[TableKey, PairTable]


def make_traffic(
    world: WorldSum, spawned: Sequence[WorldSum], report: Sequence[str], damaged: int
) -> Traffic:
    """The traffic of a job, and of the worlds that its processes spawned; `report` goes on."""
    said = list(report)
    parts = _expand(world)
    for expansion in parts.values():
        said += (line for line in expansion.report if line not in said)
    events = _with_algorithms(parts)
    if any(event.algorithm for event in events):
        said += _doubts(world)
    if any(event.communicator in world.inter for event in events):
        said.append("collectives over inter-communicators are listed, not modelled as messages")
    if world.events.merged_by_class:
        said.append("collectives have very many sizes: those of one size class are merged")
    if None in parts:
        said.append("the collectives of phases are left out of their rank pairs: too many pairs")
    worlds = _worlds(world, spawned, said)
    metadata = {"mpi": world.library, "abi": world.abi}
    if damaged:
        metadata["damaged_records"] = str(damaged)
    return Traffic(
        ranks=world.size,
        origin="interposer",
        tables=_join(tables_of(world.pairs), *(e.tables for e in parts.values())),
        histograms=world.histograms,
        communicators=tuple(world.communicators),
        collectives=events,
        collective_model=model_words(rules_of(world.library), events),
        rank_info=_with_local_ranks(world.rank_info(), complete=len(world.seen) == world.size),
        metadata=metadata,
        report=tuple(said),
        phases=_phases(world, parts),
        worlds=worlds,
        timed=world.timed,
    )


def _expand(world: WorldSum) -> dict[int | None, Expansion]:
    """The collectives as messages, by the label of their phase (0 without phases).

    If the pairs of all phases together are too many, those of the whole run, under None.
    """
    rules = rules_of(world.library)
    inside = [c for c in world.communicators if c.id not in world.inter]

    def expand(label: int | None, room: int) -> Expansion:
        events = sorted(world.events.events(label), key=_order)
        return expand_collectives(events, inside, rules, room)

    parts: dict[int | None, Expansion] = {}
    room = MAX_PAIRS
    labels = world.events.phases()
    for label in labels:
        parts[label] = expand(label, room)
        room -= parts[label].all_pairs
        if parts[label].left_out and len(labels) > 1:
            return {None: expand(None, MAX_PAIRS)}
    return parts


def _doubts(world: WorldSum) -> list[str]:
    """Where the rules are known not to be those that the MPI followed."""
    if world.library.startswith("Open MPI v5") and len({info.host for info in world.ranks}) > 1:
        return [
            "Open MPI 5 uses hierarchical collectives (coll/han) on several nodes: their messages"
            " are modelled by its rules for one node"
        ]
    return []


def _order(event: CollectiveEvent) -> tuple[int, str, int, int, str, int, int]:
    place = (event.communicator, event.operation, event.rank)
    return (*place, event.root, event.space.value, event.bytes, event.element)


def _with_algorithms(parts: Mapping[int | None, Expansion]) -> tuple[CollectiveEvent, ...]:
    """The events of all phases, those of one shape and rank as one."""
    if len(parts) == 1:
        return next(iter(parts.values())).events
    merged: dict[CollectiveEvent, int] = defaultdict(int)
    for expansion in parts.values():
        for event in expansion.events:
            merged[replace(event, calls=0)] += event.calls
    return tuple(sorted((replace(e, calls=n) for e, n in merged.items()), key=_order))


def _join(own: Tables, *expanded: Mapping[MemorySpace, PairTable]) -> dict[TableKey, PairTable]:
    tables = dict(own)
    for part in expanded:
        for space, table in part.items():
            key = (TrafficKind.COLLECTIVE, space)
            tables[key] = PairTable.total([tables[key], table]) if key in tables else table
    return {key: table for key, table in tables.items() if len(table)}


def _phases(world: WorldSum, parts: Mapping[int | None, Expansion]) -> tuple[Phase, ...]:
    known = sorted(world.phases.values(), key=lambda phase: (phase.begin_s, phase.label))
    word = "window" if world.phase_mode is PhaseMode.WINDOWS else "level"
    return tuple(
        Phase(
            index=index,
            label=f"{word} {phase.label}",
            begin_s=phase.begin_s,
            end_s=phase.end_s,
            tables=_phase_tables(world, phase, parts),
            mpi_s=phase.mpi_s if world.timed else 0.0,
            active_s=phase.active_s,
        )
        for index, phase in enumerate(known)
    )


def _phase_tables(
    world: WorldSum, phase: PhaseSum, parts: Mapping[int | None, Expansion]
) -> Tables:
    if world.phase_pairs_left_out:
        return {}
    expanded = [parts[phase.label].tables] if phase.label in parts else []
    return _join(tables_of(phase.pairs), *expanded)


def _worlds(world: WorldSum, spawned: Sequence[WorldSum], said: list[str]) -> tuple[World, ...]:
    """Worlds that left records, each with what the job exchanged with it, and then all others."""
    met = list(world.others.values())
    flows_of = _matches(world, spawned)
    made = []
    for number, child in enumerate(spawned, 1):
        own = flows_of.get(number - 1)
        parts = _expand(child)
        by = (n for n, each in enumerate(spawned, 1) if each.spawned(child))
        parent = 0 if own is not None else next(by, None)
        known = own if parent in (0, None) else spawned[parent - 1].spawned(child)
        made.append(
            World(
                id=number,
                name=child.name if known is None or not known.command else known.name,
                ranks=child.size,
                parent=parent,
                tables=_join(tables_of(child.pairs), *(e.tables for e in parts.values())),
                flows=() if own is None else tuple(own.flows),
            )
        )
        said += _of_child(number, child)
    matched = {id(each) for each in flows_of.values()}
    for each in met:
        if id(each) not in matched:
            made.append(_without_records(len(made) + 1, each))
            if each.origin is WorldOrigin.SPAWNED:
                said.append(
                    f"world {len(made)}, which was spawned, left no records: what its processes"
                    " sent is not known"
                )
    size, messages = _total(met)
    if messages:
        said.append(
            f"{messages} messages ({size} bytes) are with processes outside MPI_COMM_WORLD: listed"
            " apart by world, not in the tables of rank pairs"
        )
    return tuple(made)


def _without_records(number: int, met: MetWorld) -> World:
    return World(
        id=number,
        name=met.name,
        ranks=met.size,
        parent=0 if met.origin is WorldOrigin.SPAWNED else None,
        flows=tuple(met.flows),
    )


def _matches(world: WorldSum, spawned: Sequence[WorldSum]) -> dict[int, MetWorld]:
    """By place in `spawned`: the met world that it is.

    A world that was not given a key, as it was started without the recorder in front, is the only
    one of its size.
    """
    by_key = ((place, world.spawned(child)) for place, child in enumerate(spawned))
    found = {place: own for place, own in by_key if own is not None}
    taken = {id(own) for own in found.values()}
    met = [m for m in world.others.values() if id(m) not in taken]
    left = {place: child for place, child in enumerate(spawned) if not child.spawn_key}
    if len(left) == 1 and len(met) == 1 and met[0].origin is None:
        return found | dict.fromkeys(left, met[0])
    for place, child in left.items():
        same = [m for m in met if m.origin is WorldOrigin.SPAWNED and m.size == child.size]
        if len(same) == 1 and sum(other.size == child.size for other in left.values()) == 1:
            found[place] = same[0]
    return found


def _of_child(number: int, child: WorldSum) -> list[str]:
    text = f"{len(child.seen)} of {child.size} processes of a spawned world are listed apart"
    size, messages = _total(child.others.values())
    if messages:
        text += f"; they sent {messages} messages ({size} bytes) to processes outside it"
    return [f"world {number}: {text}"]


def _total(worlds: Iterable[MetWorld]) -> tuple[int, int]:
    flows = [flow for world in worlds for flow in world.flows]
    return sum(f.bytes for f in flows), sum(f.messages for f in flows)


def _with_local_ranks(ranks: tuple[RankInfo, ...], *, complete: bool) -> tuple[RankInfo, ...]:
    """Where the launcher did not tell local ranks, they are counted within hosts, if all is there.

    Launchers number the ranks of a node in rank order.
    """
    if not complete or all(info.local_rank is not None for info in ranks):
        return ranks
    if any(info.local_rank is not None or not info.host for info in ranks):
        return ranks
    count = Counter[str]()
    made = []
    for info in ranks:
        made.append(replace(info, local_rank=count[info.host]))
        count[info.host] += 1
    return tuple(made)
