"""The rows of a profile's tables, from a `Traffic`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any

import numpy as np

from toposeat.model.files import encodable
from toposeat.model.traffic import PairTable, TableKey, Traffic
from toposeat.model.traffic_schema import (
    CREATE_TABLES,
    DIGEST_KEY,
    PROFILE_SCHEMA,
    content_digest,
)

_Row = tuple[Any, ...]


def fill_database(database: sqlite3.Connection, traffic: Traffic) -> None:
    """Make all tables and write all rows; the database is empty before.

    Raises:
        sqlite3.OperationalError: the disk is full, or there is no permission.
    """
    # One transaction, and no journal: the file is a new one, and renamed when it is whole.
    database.executescript(f"PRAGMA journal_mode=OFF; BEGIN; {CREATE_TABLES}")
    for table, rows in (
        ("meta", _meta_rows(traffic)),
        ("pair", _pair_rows(traffic.tables)),
        ("histogram", _bucket_rows(traffic)),
        ("communicator", ((c.id, encodable(c.name)) for c in traffic.communicators)),
        ("member", _member_rows(traffic)),
        ("collective", _collective_rows(traffic)),
        ("group_load", _group_rows(traffic)),
        ("rank", _rank_rows(traffic)),
        ("rank_time", _time_rows(traffic)),
        ("rank_device", _device_rows(traffic)),
        ("phase", _phase_rows(traffic)),
        ("phase_pair", _part_rows((p.index, p.tables) for p in traffic.phases)),
        ("world", ((w.id, encodable(w.name), w.ranks, w.parent) for w in traffic.worlds)),
        ("world_pair", _part_rows((w.id, w.tables) for w in traffic.worlds)),
        ("world_flow", _flow_rows(traffic)),
        ("report", ((encodable(line),) for line in traffic.report)),
    ):
        _insert(database, table, rows)
    _insert(database, "meta", [(DIGEST_KEY, content_digest(database))])
    database.commit()


def _insert(database: sqlite3.Connection, table: str, rows: Iterable[_Row]) -> None:
    columns = len(database.execute(f'SELECT * FROM "{table}" LIMIT 0').description)
    marks = ", ".join("?" * columns)
    database.executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows)


def _meta_rows(traffic: Traffic) -> Iterator[_Row]:
    yield "schema", PROFILE_SCHEMA
    yield "ranks", str(traffic.ranks)
    yield "origin", encodable(traffic.origin)
    yield "collective_model", encodable(traffic.collective_model)
    yield "timed", str(int(traffic.timed))
    for key, value in traffic.metadata.items():
        yield encodable(f"user.{key}"), encodable(value)


def _pair_rows(tables: Mapping[TableKey, PairTable]) -> Iterator[_Row]:
    for (kind, space), table in tables.items():
        columns = (table.source, table.target, table.bytes, table.messages)
        for start in range(0, len(table), 1 << 16):  # bounds the lists of Python numbers
            parts = (column[start : start + (1 << 16)].tolist() for column in columns)
            yield from zip(repeat(kind.value), repeat(space.value), *parts)


def _part_rows(parts: Iterable[tuple[int, Mapping[TableKey, PairTable]]]) -> Iterator[_Row]:
    for number, tables in parts:
        for row in _pair_rows(tables):
            yield (number, *row)


def _bucket_rows(traffic: Traffic) -> Iterator[_Row]:
    for (kind, space), counts in traffic.histograms.items():
        for bucket in np.flatnonzero(counts).tolist():
            yield kind.value, space.value, bucket, int(counts[bucket])


def _member_rows(traffic: Traffic) -> Iterator[_Row]:
    for group in traffic.communicators:
        for position, rank in enumerate(group.ranks):
            yield group.id, position, rank


def _collective_rows(traffic: Traffic) -> Iterator[_Row]:
    for e in traffic.collectives:
        what = (e.communicator, e.operation, e.rank, e.root, e.space.value)
        yield (*what, e.bytes, e.calls, encodable(e.algorithm), e.element)


def _group_rows(traffic: Traffic) -> Iterator[_Row]:
    for g in traffic.groups:
        what = (g.communicator, encodable(g.library), g.exchange.value)
        yield (*what, g.bytes, g.messages, g.phase)


def _rank_rows(traffic: Traffic) -> Iterator[_Row]:
    for r in traffic.rank_info:
        life = (r.rank, encodable(r.host), r.pid, int(r.finalized), r.wall_s, r.mpi_s)
        yield (*life, r.device_pci_bus_id, r.device_ordinal, r.visible_devices, r.local_rank)


def _time_rows(traffic: Traffic) -> Iterator[_Row]:
    for info in traffic.rank_info:
        for share in info.time:
            yield info.rank, share.kind.value, share.space.value, share.seconds, share.calls


def _device_rows(traffic: Traffic) -> Iterator[_Row]:
    for info in traffic.rank_info:
        for position, use in enumerate(info.devices):
            yield info.rank, position, use.pci_bus_id, use.ordinal, use.bytes


def _phase_rows(traffic: Traffic) -> Iterator[_Row]:
    for phase in traffic.phases:
        times = (phase.begin_s, phase.end_s, phase.mpi_s, phase.active_s)
        yield (phase.index, encodable(phase.label), *times)


def _flow_rows(traffic: Traffic) -> Iterator[_Row]:
    for world in traffic.worlds:
        for f in world.flows:
            key = (f.kind.value, f.space.value)
            yield (world.id, f.rank, *key, int(f.inbound), f.bytes, f.messages)
