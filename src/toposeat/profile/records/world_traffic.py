"""`Traffic` from an added-up world, with its collectives expanded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
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
)
from toposeat.profile.records.collectives import (
    MAX_PAIRS,
    Expansion,
    expand_collectives,
    model_words,
    rules_of,
    with_rounds,
)
from toposeat.profile.records.segment import PhaseMode
from toposeat.profile.records.world import PhaseSum, WorldSum, tables_of

Tables = Mapping[TableKey, PairTable]


def make_traffic(world: WorldSum, report: Sequence[str], damaged: int) -> Traffic:
    """The traffic of a job; `report` goes on."""
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
    metadata = {"mpi": world.library, "abi": world.abi}
    if damaged:
        metadata["damaged_records"] = str(damaged)
    traffic = Traffic(
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
        timed=world.timed,
    )
    return with_rounds(traffic)


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
