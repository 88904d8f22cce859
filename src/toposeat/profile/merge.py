"""One `Traffic` from the records that the ranks of one run left in a folder."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from toposeat.errors import InputError, ToposeatError
from toposeat.model.topology import canonical_pci
from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    CollectiveEvent,
    Communicator,
    Int64Array,
    MemorySpace,
    PairTable,
    RankInfo,
    Traffic,
    TrafficKind,
)
from toposeat.profile.collectives import expand_collectives, rules_of
from toposeat.profile.record import (
    NO_COMMUNICATOR,
    OUTSIDE,
    Flag,
    Kind,
    Members,
    RankRecord,
    State,
    read_record,
    record_paths,
)

_KINDS = {
    Kind.POINT_TO_POINT: TrafficKind.POINT_TO_POINT,
    Kind.COLLECTIVE: TrafficKind.COLLECTIVE,
    Kind.ONE_SIDED: TrafficKind.ONE_SIDED,
    Kind.ONE_SIDED_FROM: TrafficKind.ONE_SIDED,
}
_LISTED = 8  # how many ranks a sentence of the report names
_MAX_MEMBERS = 1 << 26  # of all communicators together

_Key = tuple[TrafficKind, MemorySpace]

Progress = Callable[[int, int], None]  # records merged, of all


def read_records(directory: str | Path, *, progress: Progress | None = None) -> Traffic:
    """Merge the `.tpsrec` files of one run.

    Ranks without a record, unfinalised ranks and everything that could not be counted are named
    in `Traffic.report`.

    Raises:
        InputError: the folder or a record in it is unreadable or damaged.
        ToposeatError: there is no record at all.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise InputError("no such folder of traffic records", hint="profile first", path=folder)
    paths = record_paths(folder)
    records = []
    for done, path in enumerate(paths, 1):
        record = read_record(path)
        if record is not None:
            records.append(record)
        if progress is not None:
            progress(done, len(paths))
    report = []
    if len(records) < len(paths):
        report.append(f"{len(paths) - len(records)} ranks died while MPI was being initialised")
    records = _one_world(records, report)
    if not records:
        raise ToposeatError(
            f"{folder} holds no traffic record", hint="was the program run under the interposer?"
        )
    return _merge(records, report)


def _one_world(records: Sequence[RankRecord], report: list[str]) -> list[RankRecord]:
    """The records of one MPI_COMM_WORLD in rank order; what is left out is reported."""
    first = [r for r in records if not r.has(Flag.INSIDE_RANK)]
    if len(first) < len(records):
        report.append(
            f"{len(records) - len(first)} processes belong to MPI jobs that ranks started"
            " themselves and are left out"
        )
    own = [r for r in first if not r.has(Flag.SPAWNED)]
    if len(own) < len(first):
        report.append(f"{len(first) - len(own)} processes were spawned by the job and are left out")
    worlds: dict[tuple[str, int], dict[int, RankRecord]] = defaultdict(dict)
    again = 0
    for record in sorted(own, key=lambda r: (r.rank, r.pid)):
        world = worlds[record.world, record.world_size]
        again += record.rank in world
        world.setdefault(record.rank, record)
    if again:
        report.append(f"{again} ranks left a second record: several MPI runs; the first is used")
    if not worlds:
        return []
    chosen = max(worlds.values(), key=len)
    if len(own) > 1 and all(size == 1 for _, size in worlds):
        report.append(
            "every process was a job of one rank: launcher and program belong to different MPIs?"
        )
    if len(worlds) > 1:
        report.append(f"records of {len(worlds)} MPI jobs found; the largest one is used")
    return [chosen[rank] for rank in sorted(chosen)]


def _merge(records: Sequence[RankRecord], report: list[str]) -> Traffic:
    ranks = records[0].world_size
    communicators, inter, number_of = _number_communicators(records)
    events = _collect_events(records, number_of)
    tables, histograms = _collect_pairs(records)
    intra = [c for c in communicators if c.id not in inter]
    expansion = expand_collectives(events, intra, rules_of(records[0].library))
    for space, table in expansion.tables.items():
        key = (TrafficKind.COLLECTIVE, space)
        tables[key] = PairTable.total([tables.get(key, PairTable.empty()), table])
    _describe(records, report)
    report += expansion.report
    if any(event.communicator in inter for event in events):
        report.append("collectives over inter-communicators are listed, not modelled as messages")
    return Traffic(
        ranks=ranks,
        origin="interposer",
        tables=tables,
        histograms=histograms,
        communicators=communicators,
        collectives=expansion.events,
        collective_model=expansion.model,
        rank_info=tuple(_rank_info(r) for r in records),
        metadata={"mpi": records[0].library, "abi": records[0].abi},
        report=tuple(report),
    )


def _number_communicators(
    records: Sequence[RankRecord],
) -> tuple[tuple[Communicator, ...], set[int], dict[tuple[int, int], int]]:
    """Job-wide ids: communicators with the same members are one.

    Returns:
        The communicators; the ids of inter-communicators (whose members are the remote group); and
        the id by (rank, its own number).
    """
    ids: dict[tuple[bool, bytes], int] = {}
    made: list[Communicator] = []
    number_of: dict[tuple[int, int], int] = {}
    inter: set[int] = set()
    members = 0
    for record in records:
        for local, seen in enumerate(record.communicators):
            if seen.key not in ids:
                members += seen.size
                if members > _MAX_MEMBERS:
                    raise InputError("too many communicators", hint="", path=record.path)
                ids[seen.key] = len(made)
                if seen.inter:
                    inter.add(len(made))
                made.append(_communicator(len(made), seen))
            number_of[record.rank, local] = ids[seen.key]
    return tuple(made), inter, number_of


def _communicator(number: int, seen: Members) -> Communicator:
    ranks = tuple(r for r in seen.ranks() if r != OUTSIDE)
    return Communicator(id=number, ranks=ranks, name=seen.name)


def _collect_events(
    records: Sequence[RankRecord], number_of: dict[tuple[int, int], int]
) -> tuple[CollectiveEvent, ...]:
    events = [
        CollectiveEvent(
            communicator=number_of.get((record.rank, event.communicator), NO_COMMUNICATOR),
            operation=event.operation,
            rank=record.rank,
            root=event.root,
            space=MemorySpace.DEVICE if event.device else MemorySpace.HOST,
            bytes=event.bytes,
            calls=event.calls,
        )
        for record in records
        for event in record.events
    ]
    return tuple(sorted(events, key=_event_order))


def _event_order(event: CollectiveEvent) -> tuple[int, str, int, int, str, int]:
    return (
        event.communicator,
        event.operation,
        event.rank,
        event.root,
        event.space.value,
        event.bytes,
    )


def _collect_pairs(
    records: Sequence[RankRecord],
) -> tuple[dict[_Key, PairTable], dict[_Key, Int64Array]]:
    parts: dict[_Key, list[Int64Array]] = defaultdict(list)
    histograms: dict[_Key, Int64Array] = {}
    for record in records:
        for kind in Kind:
            for device in (False, True):
                chosen = (record.kind == kind) & (record.device == device)
                inside = chosen & (record.peer != OUTSIDE)
                if not inside.any():
                    continue
                space = MemorySpace.DEVICE if device else MemorySpace.HOST
                key = (_KINDS[kind], space)
                parts[key].append(_rows(record, inside, reverse=kind is Kind.ONE_SIDED_FROM))
                counts = histograms.setdefault(key, np.zeros(HISTOGRAM_BUCKETS, dtype=np.int64))
                counts += record.histogram[inside].sum(axis=0)
    tables = {key: PairTable.from_pairs(*np.concatenate(p, axis=1)) for key, p in parts.items()}
    return tables, histograms


def _rows(record: RankRecord, chosen: np.ndarray, *, reverse: bool) -> Int64Array:
    peer = record.peer[chosen]
    own = np.full_like(peer, record.rank)
    ends = (peer, own) if reverse else (own, peer)
    return np.stack([*ends, record.bytes[chosen], record.messages[chosen]])


def _rank_info(record: RankRecord) -> RankInfo:
    pci = record.device_pci_bus_id
    try:
        pci = canonical_pci(pci) if pci else None
    except ValueError:
        pci = None
    return RankInfo(
        rank=record.rank,
        host=record.host,
        pid=record.pid,
        finalized=record.state is State.FINALIZED,
        wall_s=record.wall_s,
        mpi_s=record.mpi_s,
        device_pci_bus_id=pci,
        device_ordinal=record.device_ordinal,
        visible_devices=record.visible_devices,
    )


def _describe(records: Sequence[RankRecord], report: list[str]) -> None:
    """Sentences about everything the numbers do not show."""

    def having(test: Callable[[RankRecord], bool]) -> list[int]:
        return [r.rank for r in records if test(r)]

    present = {r.rank for r in records}
    _say(report, [r for r in range(records[0].world_size) if r not in present], "left no record")
    _say(report, having(lambda r: r.state is State.RUNNING), "did not reach MPI_Finalize")
    _say(report, having(lambda r: r.state is State.ABORTED), "called MPI_Abort")
    lost = sum(r.lost_messages for r in records)
    if lost:
        size = sum(r.lost_bytes for r in records)
        report.append(f"{lost} messages ({size} bytes) could not be attributed")
    events = sum(r.lost_events for r in records)
    if events:
        report.append(f"{events} collective calls could not be recorded")
    _say(
        report,
        having(lambda r: any(event.by_class for event in r.events)),
        "made collectives of very many sizes: some are merged by size class",
    )
    outside = Counter[str]()
    for record in records:
        away = record.peer == OUTSIDE
        outside["messages"] += int(record.messages[away].sum())
        outside["bytes"] += int(record.bytes[away].sum())
    if outside["messages"]:
        report.append(
            f"{outside['messages']} messages ({outside['bytes']} bytes) with processes outside"
            " MPI_COMM_WORLD are not in the tables"
        )
    _say(report, having(lambda r: r.has(Flag.SEVERAL_DEVICES)), "used buffers of several devices")
    _say(
        report,
        having(lambda r: r.has(Flag.LEVEL_ZERO)),
        "use Level Zero: device buffers are counted as host memory",
    )


def _say(report: list[str], ranks: Iterable[int], what: str) -> None:
    listed = list(ranks)
    if not listed:
        return
    names = ", ".join(map(str, listed[:_LISTED])) + (", ..." if len(listed) > _LISTED else "")
    report.append(f"rank{'s' if len(listed) > 1 else ''} {names} {what}")
