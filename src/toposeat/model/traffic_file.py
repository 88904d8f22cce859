"""Profile files: one SQLite database per job, so that any tool can query it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from toposeat.errors import InputError
from toposeat.model.files import replace_atomically
from toposeat.model.input_file import beginning, open_input, unreadable
from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    CollectiveEvent,
    Communicator,
    DeviceUse,
    Exchange,
    GroupLoad,
    Int64Array,
    MemorySpace,
    PairTable,
    Phase,
    RankInfo,
    TableKey,
    TimeKind,
    TimeShare,
    Traffic,
    TrafficKind,
    World,
    WorldFlow,
)
from toposeat.model.traffic_rows import fill_database
from toposeat.model.traffic_schema import (
    COLUMNS,
    DIGEST_KEY,
    PROFILE_SCHEMA,
    SQLITE_MAGIC,
    check_columns,
    check_pages,
    check_references,
    check_tables,
    content_digest,
)

_PIECE = 1 << 16  # rows read at a time: Python numbers are large
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 24,  # bytes of a text or row
    sqlite3.SQLITE_LIMIT_COLUMN: 32,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 16,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
}
_NO_DIGEST = "this profile came without a digest: damage to it would not have been noticed"


def save_traffic(traffic: Traffic, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a profile, whole or not at all."""

    def produce(temporary: Path) -> None:
        try:
            _fill(temporary, traffic)
        except sqlite3.OperationalError as error:  # a full disk, no permission
            raise OSError(str(error)) from error

    replace_atomically(path, produce, overwrite=overwrite)


def is_profile(path: str | Path) -> bool:
    """Whether a file looks like a profile (only its first bytes are read)."""
    return beginning(path, len(SQLITE_MAGIC)) == SQLITE_MAGIC


def load_traffic(path: str | Path) -> Traffic:
    """Read a profile.

    Raises:
        InputError: missing, damaged, truncated, of another schema, or with impossible content.
    """
    try:
        open_input(path).close()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if not is_profile(path):
        raise InputError(
            "not a toposeat profile", path=path, hint="make one with: toposeat profile -o F -- ..."
        )
    try:
        with contextlib.closing(_open_read_only(path)) as database:
            return _read(database, path)
    except sqlite3.Error as error:
        raise InputError(
            f"damaged profile: {error}", path=path, hint="profile the application again"
        ) from error
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(
            f"profile says something impossible: {error}",
            path=path,
            hint="profile the application again",
        ) from error


def _open_read_only(path: str | Path) -> sqlite3.Connection:
    """Open a database from anybody: nothing is written, and no file beside it is read."""
    name = f"{Path(path).resolve().as_uri()}?mode=ro&immutable=1"
    database = sqlite3.connect(name, uri=True)
    for limit, most in _LIMITS.items():
        database.setlimit(limit, most)
    for setting in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"):
        database.execute(f"PRAGMA {setting}")
    return database


def _fill(path: Path, traffic: Traffic) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        fill_database(database, traffic)


def _read(database: sqlite3.Connection, path: str | Path) -> Traffic:
    check_pages(database)
    check_tables(database, ["meta"])  # in another version all others may differ
    check_columns(database, "meta", 0)
    meta = dict(_rows(database, "meta"))
    if meta.get("schema") != PROFILE_SCHEMA:
        raise InputError(
            f"expected schema {PROFILE_SCHEMA!r}, found {str(meta.get('schema'))[:80]!r}",
            path=path,
            hint="this profile is from another version of toposeat; profile again",
        )
    check_tables(database)
    ranks = _number_of_ranks(meta)
    for table in COLUMNS:
        check_columns(database, table, ranks)
    for child, parent in (
        ("phase_pair", "phase"),
        ("world_pair", "world"),
        ("world_flow", "world"),
    ):
        check_references(database, child, parent)
    if meta.get("timed") not in ("0", "1"):
        raise ValueError(f"{str(meta.get('timed'))[:40]!r} as timed in table 'meta'")
    traffic = Traffic(
        ranks=ranks,
        origin=meta.get("origin", ""),
        tables=_read_pairs(database, "pair"),
        histograms=_read_histograms(database),
        communicators=_read_communicators(database),
        collectives=_read_collectives(database),
        groups=_read_groups(database),
        collective_model=meta.get("collective_model", ""),
        rank_info=_read_ranks(database),
        metadata={k.removeprefix("user."): v for k, v in meta.items() if k.startswith("user.")},
        report=tuple(line for (line,) in database.execute("SELECT line FROM report")),
        phases=_read_phases(database),
        worlds=_read_worlds(database),
        timed=meta["timed"] == "1",
    )
    if DIGEST_KEY not in meta:
        return replace(traffic, report=tuple(dict.fromkeys((*traffic.report, _NO_DIGEST))))
    if meta[DIGEST_KEY] != content_digest(database):
        raise ValueError("its rows are not those that were written")
    return traffic


def _number_of_ranks(meta: Mapping[str, str]) -> int:
    digits = meta.get("ranks", "")
    ranks = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else 0
    if not 1 <= ranks < 2**31:
        raise ValueError(f"{digits[:40]!r} as number of ranks")
    return ranks


def _rows(database: sqlite3.Connection, table: str) -> sqlite3.Cursor:
    """All rows of a table in their order, which is that of its primary key."""
    return database.execute(f'SELECT {", ".join(COLUMNS[table])} FROM "{table}"')


def _read_ranks(database: sqlite3.Connection) -> tuple[RankInfo, ...]:
    kind_of, space_of = cache(TimeKind), cache(MemorySpace)  # there are few, of many rows
    time: dict[int, list[TimeShare]] = {}
    for rank, kind, space, seconds, calls in _rows(database, "rank_time"):
        share = TimeShare(
            kind=kind_of(kind), space=space_of(space), seconds=float(seconds), calls=calls
        )
        time.setdefault(rank, []).append(share)
    devices: dict[int, list[DeviceUse]] = {}
    for rank, _, pci, ordinal, size in _rows(database, "rank_device"):
        use = DeviceUse(pci_bus_id=pci, ordinal=ordinal, bytes=size)
        devices.setdefault(rank, []).append(use)
    made = []
    for row in _rows(database, "rank"):
        values = dict(zip(COLUMNS["rank"], row, strict=True))
        values["finalized"] = bool(values["finalized"])
        parts = (tuple(time.pop(row[0], ())), tuple(devices.pop(row[0], ())))
        made.append(RankInfo(**values, time=parts[0], devices=parts[1]))
    if lost := time.keys() | devices.keys():
        raise ValueError(f"time or devices of rank {min(lost)}, which table 'rank' does not list")
    return tuple(made)


def _read_collectives(database: sqlite3.Connection) -> tuple[CollectiveEvent, ...]:
    made = []
    for row in _rows(database, "collective"):
        values = dict(zip(COLUMNS["collective"], row, strict=True))
        made.append(CollectiveEvent(**{**values, "space": MemorySpace(values["space"])}))
    return tuple(made)


def _read_groups(database: sqlite3.Connection) -> tuple[GroupLoad, ...]:
    made = []
    for row in _rows(database, "group_load"):
        values = dict(zip(COLUMNS["group_load"], row, strict=True))
        made.append(GroupLoad(**{**values, "exchange": Exchange(values["exchange"])}))
    return tuple(made)


def _read_pairs(
    database: sqlite3.Connection, table: str, part: tuple[str, int] | None = None
) -> dict[TableKey, PairTable]:
    """One `PairTable` per kind and space, of all rows or of those with `column = number`."""
    where, values = ("TRUE", ()) if part is None else (f'"{part[0]}" = ?', part[1:])
    keys = database.execute(f'SELECT DISTINCT kind, space FROM "{table}" WHERE {where}', values)
    tables = {}
    for kind, space in keys.fetchall():
        rows = database.execute(
            f'SELECT source, target, bytes, messages FROM "{table}"'
            f" WHERE {where} AND kind = ? AND space = ?",
            (*values, kind, space),
        )
        pieces = []
        while piece := rows.fetchmany(_PIECE):
            pieces.append(np.array(piece, dtype=np.int64).T)
        columns = np.concatenate(pieces, axis=1)
        tables[TrafficKind(kind), MemorySpace(space)] = PairTable.from_pairs(*columns)
    return tables


def _read_phases(database: sqlite3.Connection) -> tuple[Phase, ...]:
    return tuple(
        Phase(
            index=number,
            label=label,
            begin_s=begin_s,
            end_s=end_s,
            mpi_s=mpi_s,
            active_s=active_s,
            tables=_read_pairs(database, "phase_pair", ("phase", number)),
        )
        for number, label, begin_s, end_s, mpi_s, active_s in _rows(database, "phase").fetchall()
    )


def _read_worlds(database: sqlite3.Connection) -> tuple[World, ...]:
    flows: dict[int, list[WorldFlow]] = {}
    for world, rank, kind, space, inbound, size, messages in _rows(database, "world_flow"):
        flow = WorldFlow(
            rank=rank,
            kind=TrafficKind(kind),
            space=MemorySpace(space),
            bytes=size,
            messages=messages,
            inbound=bool(inbound),
        )
        flows.setdefault(world, []).append(flow)
    return tuple(
        World(
            id=number,
            name=name,
            ranks=ranks,
            parent=parent,
            tables=_read_pairs(database, "world_pair", ("world", number)),
            flows=tuple(flows.get(number, ())),
        )
        for number, name, ranks, parent in _rows(database, "world").fetchall()
    )


def _read_histograms(
    database: sqlite3.Connection,
) -> Mapping[tuple[TrafficKind, MemorySpace], Int64Array]:
    histograms: dict[tuple[TrafficKind, MemorySpace], Int64Array] = {}
    for kind, space, bucket, messages in _rows(database, "histogram"):
        if not 0 <= bucket < HISTOGRAM_BUCKETS:
            raise ValueError(f"histogram bucket {bucket}")
        key = TrafficKind(kind), MemorySpace(space)
        counts = histograms.setdefault(key, np.zeros(HISTOGRAM_BUCKETS, dtype=np.int64))
        counts[bucket] = messages
    return histograms


def _read_communicators(database: sqlite3.Connection) -> tuple[Communicator, ...]:
    members: dict[int, list[int]] = {}
    for communicator, _, rank in _rows(database, "member"):
        members.setdefault(communicator, []).append(rank)
    return tuple(
        Communicator(id=number, ranks=tuple(members.get(number, ())), name=name)
        for number, name in _rows(database, "communicator")
    )
