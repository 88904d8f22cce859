"""Profile files: one SQLite database per job, so that any tool can query it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import replace
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
    OLD_SCHEMAS,
    PROFILE_SCHEMA,
    SQLITE_MAGIC,
    check_columns,
    check_references,
    check_tables,
    columns_of,
)

_PIECE = 1 << 16  # rows read at a time: Python numbers are large


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
    return sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)


def _fill(path: Path, traffic: Traffic) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        fill_database(database, traffic)


def _read(database: sqlite3.Connection, path: str | Path) -> Traffic:
    meta = _read_meta(database)
    schema = meta.get("schema", "")
    if schema != PROFILE_SCHEMA and schema not in OLD_SCHEMAS:
        raise InputError(
            f"expected schema {PROFILE_SCHEMA!r}, found {str(meta.get('schema'))[:80]!r}",
            path=path,
            hint="this profile is from another version of toposeat; profile again",
        )
    ranks = _number_of_ranks(meta)
    columns = columns_of(schema)
    check_tables(database, columns)
    for table, rules in columns.items():
        check_columns(database, table, rules, ranks)
    traffic = Traffic(
        ranks=ranks,
        origin=meta.get("origin", ""),
        tables=_read_pairs(database, "pair"),
        histograms=_read_histograms(database),
        communicators=_read_communicators(database),
        collectives=_read_collectives(database, columns["collective"]),
        collective_model=meta.get("collective_model", ""),
        rank_info=_read_ranks(database, columns["rank"]),
        metadata={k.removeprefix("user."): v for k, v in meta.items() if k.startswith("user.")},
        report=tuple(line for (line,) in database.execute("SELECT line FROM report")),
    )
    return traffic if schema in OLD_SCHEMAS else _with_parts(traffic, database, meta)


def _with_parts(traffic: Traffic, database: sqlite3.Connection, meta: dict[str, str]) -> Traffic:
    """Add what the first schema did not have."""
    for child, parent in (
        ("phase_pair", "phase"),
        ("world_pair", "world"),
        ("world_flow", "world"),
    ):
        check_references(database, child, parent)
    if meta.get("timed") not in ("0", "1"):
        raise ValueError(f"{str(meta.get('timed'))[:40]!r} as timed in table 'meta'")
    return replace(
        traffic,
        rank_info=_with_time_and_devices(traffic.rank_info, database),
        phases=_read_phases(database),
        worlds=_read_worlds(database),
        timed=meta["timed"] == "1",
    )


def _read_meta(database: sqlite3.Connection) -> dict[str, str]:
    rules = columns_of(PROFILE_SCHEMA)["meta"]
    check_tables(database, ["meta"])
    check_columns(database, "meta", rules, 0)
    return dict(database.execute("SELECT key, value FROM meta"))


def _number_of_ranks(meta: Mapping[str, str]) -> int:
    digits = meta.get("ranks", "")
    ranks = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else 0
    if not 1 <= ranks < 2**31:
        raise ValueError(f"{digits[:40]!r} as number of ranks")
    return ranks


def _select(database: sqlite3.Connection, table: str, columns: Iterable[str]) -> sqlite3.Cursor:
    return database.execute(f'SELECT {", ".join(columns)} FROM "{table}"')


def _read_ranks(database: sqlite3.Connection, columns: Iterable[str]) -> tuple[RankInfo, ...]:
    names = list(columns)
    made = []
    for row in _select(database, "rank", names):
        values = dict(zip(names, row, strict=True))
        made.append(RankInfo(**{**values, "finalized": bool(values["finalized"])}))
    return tuple(made)


def _with_time_and_devices(
    ranks: tuple[RankInfo, ...], database: sqlite3.Connection
) -> tuple[RankInfo, ...]:
    time: dict[int, list[TimeShare]] = {}
    for rank, kind, space, seconds, calls in database.execute(
        "SELECT rank, kind, space, seconds, calls FROM rank_time"
    ):
        share = TimeShare(
            kind=TimeKind(kind), space=MemorySpace(space), seconds=float(seconds), calls=calls
        )
        time.setdefault(rank, []).append(share)
    devices: dict[int, list[DeviceUse]] = {}
    for rank, pci, ordinal, size in database.execute(
        "SELECT rank, pci_bus_id, ordinal, bytes FROM rank_device ORDER BY rank, position"
    ):
        use = DeviceUse(pci_bus_id=pci, ordinal=ordinal, bytes=size)
        devices.setdefault(rank, []).append(use)
    lost = (time.keys() | devices.keys()) - {info.rank for info in ranks}
    if lost:
        raise ValueError(f"time or devices of rank {min(lost)}, which table 'rank' does not list")
    return tuple(
        replace(
            info,
            time=tuple(time.get(info.rank, ())),
            devices=tuple(devices.get(info.rank, ())),
        )
        for info in ranks
    )


def _read_collectives(
    database: sqlite3.Connection, columns: Iterable[str]
) -> tuple[CollectiveEvent, ...]:
    names = list(columns)
    made = []
    for row in _select(database, "collective", names):
        values = dict(zip(names, row, strict=True))
        made.append(CollectiveEvent(**{**values, "space": MemorySpace(values["space"])}))
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
    columns = "id, label, begin_s, end_s, mpi_s, active_s"
    found = database.execute(f"SELECT {columns} FROM phase ORDER BY id")
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
        for number, label, begin_s, end_s, mpi_s, active_s in found.fetchall()
    )


def _read_worlds(database: sqlite3.Connection) -> tuple[World, ...]:
    flows: dict[int, list[WorldFlow]] = {}
    for world, rank, kind, space, inbound, size, messages in database.execute(
        "SELECT world, rank, kind, space, inbound, bytes, messages FROM world_flow"
    ):
        flow = WorldFlow(
            rank=rank,
            kind=TrafficKind(kind),
            space=MemorySpace(space),
            bytes=size,
            messages=messages,
            inbound=bool(inbound),
        )
        flows.setdefault(world, []).append(flow)
    found = database.execute("SELECT id, name, ranks, parent FROM world ORDER BY id").fetchall()
    return tuple(
        World(
            id=number,
            name=name,
            ranks=ranks,
            parent=parent,
            tables=_read_pairs(database, "world_pair", ("world", number)),
            flows=tuple(flows.get(number, ())),
        )
        for number, name, ranks, parent in found
    )


def _read_histograms(
    database: sqlite3.Connection,
) -> Mapping[tuple[TrafficKind, MemorySpace], Int64Array]:
    histograms: dict[tuple[TrafficKind, MemorySpace], Int64Array] = {}
    for kind, space, bucket, messages in database.execute(
        "SELECT kind, space, bucket, messages FROM histogram"
    ):
        if not 0 <= bucket < HISTOGRAM_BUCKETS:
            raise ValueError(f"histogram bucket {bucket}")
        key = TrafficKind(kind), MemorySpace(space)
        counts = histograms.setdefault(key, np.zeros(HISTOGRAM_BUCKETS, dtype=np.int64))
        counts[bucket] = messages
    return histograms


def _read_communicators(database: sqlite3.Connection) -> tuple[Communicator, ...]:
    members: dict[int, list[int]] = {}
    for communicator, rank in database.execute(
        "SELECT communicator, rank FROM member ORDER BY communicator, position"
    ):
        members.setdefault(communicator, []).append(rank)
    return tuple(
        Communicator(id=number, ranks=tuple(members.get(number, ())), name=name)
        for number, name in database.execute("SELECT id, name FROM communicator ORDER BY id")
    )
