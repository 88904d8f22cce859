"""Profile files: one SQLite database per job, so that any tool can query it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from toposeat.errors import InputError
from toposeat.model.files import encodable, replace_atomically
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

PROFILE_SCHEMA = "toposeat/profile/1"
SQLITE_MAGIC = b"SQLite format 3\x00"

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pair (
    kind TEXT NOT NULL, space TEXT NOT NULL, source INTEGER NOT NULL, target INTEGER NOT NULL,
    bytes INTEGER NOT NULL, messages INTEGER NOT NULL,
    PRIMARY KEY (kind, space, source, target)) WITHOUT ROWID;
CREATE TABLE histogram (
    kind TEXT NOT NULL, space TEXT NOT NULL, bucket INTEGER NOT NULL, messages INTEGER NOT NULL,
    PRIMARY KEY (kind, space, bucket)) WITHOUT ROWID;
CREATE TABLE communicator (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE member (
    communicator INTEGER NOT NULL, position INTEGER NOT NULL, rank INTEGER NOT NULL,
    PRIMARY KEY (communicator, position)) WITHOUT ROWID;
CREATE TABLE collective (
    communicator INTEGER NOT NULL, operation TEXT NOT NULL, rank INTEGER NOT NULL,
    root INTEGER NOT NULL, space TEXT NOT NULL, bytes INTEGER NOT NULL, calls INTEGER NOT NULL);
CREATE TABLE rank (
    rank INTEGER PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, finalized INTEGER NOT NULL,
    wall_s REAL NOT NULL, mpi_s REAL NOT NULL, device_pci_bus_id TEXT, device_ordinal INTEGER,
    visible_devices INTEGER);
CREATE TABLE report (line TEXT NOT NULL);
"""

# What each column must hold, as SQL. Ranks are checked against the number of ranks, ":ranks".
_TEXT = "typeof({0}) = 'text'"
_COUNT = "typeof({0}) = 'integer' AND {0} >= 0"
_SECONDS = "typeof({0}) IN ('real', 'integer') AND {0} BETWEEN 0 AND 1e18"
_MAYBE_COUNT = "({0} IS NULL OR typeof({0}) = 'integer' AND {0} >= 0)"
_RANK = "typeof({0}) = 'integer' AND {0} BETWEEN 0 AND :ranks - 1"
_COLUMNS: dict[str, dict[str, str]] = {
    "meta": {"key": _TEXT, "value": _TEXT},
    "pair": {
        "kind": _TEXT, "space": _TEXT, "source": _RANK, "target": _RANK, "bytes": _COUNT,
        "messages": _COUNT,
    },
    "histogram": {"kind": _TEXT, "space": _TEXT, "bucket": _COUNT, "messages": _COUNT},
    "communicator": {"id": "typeof({0}) = 'integer'", "name": _TEXT},
    "member": {"communicator": "typeof({0}) = 'integer'", "position": _COUNT, "rank": _RANK},
    "collective": {
        "communicator": "typeof({0}) = 'integer'", "operation": _TEXT, "rank": _RANK,
        "root": "typeof({0}) = 'integer' AND {0} BETWEEN -1 AND :ranks - 1", "space": _TEXT,
        "bytes": _COUNT, "calls": _COUNT,
    },
    "rank": {
        "rank": _RANK, "host": _TEXT, "pid": _COUNT, "finalized": _COUNT, "wall_s": _SECONDS,
        "mpi_s": _SECONDS, "device_pci_bus_id": "({0} IS NULL OR typeof({0}) = 'text')",
        "device_ordinal": _MAYBE_COUNT, "visible_devices": _MAYBE_COUNT,
    },
    "report": {"line": _TEXT},
}  # fmt: skip


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
    try:
        if not Path(path).is_file():
            return False  # of a pipe, nobody could read again what was looked at here
        with Path(path).open("rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False


def load_traffic(path: str | Path) -> Traffic:
    """Read a profile.

    Raises:
        InputError: missing, damaged, truncated, of another schema, or with impossible content.
    """
    try:
        if not Path(path).is_file():
            raise InputError("no such file", path=path, hint="check the name")
    except OSError as error:
        raise InputError(
            f"cannot read: {error.strerror or error}", path=path, hint="check the name"
        ) from error
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
        database.executescript("PRAGMA journal_mode=OFF;" + _TABLES)
        meta = {
            "schema": PROFILE_SCHEMA,
            "ranks": str(traffic.ranks),
            "origin": encodable(traffic.origin),
            "collective_model": traffic.collective_model,
            **{
                encodable(f"user.{key}"): encodable(value)
                for key, value in traffic.metadata.items()
            },
        }
        database.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        database.executemany("INSERT INTO pair VALUES (?, ?, ?, ?, ?, ?)", _pair_rows(traffic))
        database.executemany("INSERT INTO histogram VALUES (?, ?, ?, ?)", _bucket_rows(traffic))
        for group in traffic.communicators:
            database.execute(
                "INSERT INTO communicator VALUES (?, ?)", (group.id, encodable(group.name))
            )
            database.executemany(
                "INSERT INTO member VALUES (?, ?, ?)",
                ((group.id, position, rank) for position, rank in enumerate(group.ranks)),
            )
        database.executemany(
            "INSERT INTO collective VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (e.communicator, e.operation, e.rank, e.root, e.space.value, e.bytes, e.calls)
                for e in traffic.collectives
            ),
        )
        database.executemany(
            "INSERT INTO rank VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    *(r.rank, encodable(r.host), r.pid, int(r.finalized), r.wall_s, r.mpi_s),
                    *(r.device_pci_bus_id, r.device_ordinal, r.visible_devices),
                )
                for r in traffic.rank_info
            ),
        )
        database.executemany(
            "INSERT INTO report VALUES (?)", ((encodable(line),) for line in traffic.report)
        )
        database.commit()


def _pair_rows(traffic: Traffic) -> Iterator[tuple[str, str, int, int, int, int]]:
    for (kind, space), table in traffic.tables.items():
        columns = (table.source, table.target, table.bytes, table.messages)
        for row in zip(*(column.tolist() for column in columns), strict=True):
            yield (kind.value, space.value, *row)


def _bucket_rows(traffic: Traffic) -> Iterator[tuple[str, str, int, int]]:
    for (kind, space), counts in traffic.histograms.items():
        for bucket in np.flatnonzero(counts).tolist():
            yield kind.value, space.value, bucket, int(counts[bucket])


def _check_tables(database: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Refuse a schema that is not ours: views and virtual tables would run what a stranger wrote.

    Raises:
        ValueError: a table is missing or is none.
    """
    kinds = {
        name: (kind, root)
        for name, kind, root in database.execute("SELECT name, type, rootpage FROM sqlite_master")
    }
    for table in tables:
        kind, root = kinds.get(table, ("missing", 0))
        if kind != "table" or not root:
            raise ValueError(f"{table!r} is no table, but {kind}")


def _check_columns(database: sqlite3.Connection, table: str, ranks: int) -> None:
    """Refuse values of another type or range than their column's; SQLite itself stores anything."""
    for column, condition in _COLUMNS[table].items():
        rule = condition.format(f'"{table}"."{column}"')
        wrong = database.execute(
            f'SELECT "{table}"."{column}" FROM "{table}"'
            f" WHERE NOT ({rule}) OR ({rule}) IS NULL LIMIT 1",
            {"ranks": ranks},
        ).fetchone()
        if wrong is not None:
            raise ValueError(f"{str(wrong[0])[:40]!r} as {column} in table {table!r}")


def _read(database: sqlite3.Connection, path: str | Path) -> Traffic:
    _check_tables(database, ["meta"])
    _check_columns(database, "meta", 0)
    meta: dict[str, str] = dict(database.execute("SELECT key, value FROM meta"))
    if meta.get("schema") != PROFILE_SCHEMA:
        raise InputError(
            f"expected schema {PROFILE_SCHEMA!r}, found {str(meta.get('schema'))[:80]!r}",
            path=path,
            hint="this profile is from another version of toposeat; profile again",
        )
    digits = meta.get("ranks", "")
    ranks = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else 0
    if not 1 <= ranks < 2**31:
        raise ValueError(f"{digits[:40]!r} as number of ranks")
    _check_tables(database, _COLUMNS)
    for table in _COLUMNS:
        _check_columns(database, table, ranks)
    return Traffic(
        ranks=ranks,
        origin=meta.get("origin", ""),
        tables=_read_pairs(database),
        histograms=_read_histograms(database),
        communicators=_read_communicators(database),
        collectives=tuple(
            CollectiveEvent(
                communicator=row[0],
                operation=row[1],
                rank=row[2],
                root=row[3],
                space=MemorySpace(row[4]),
                bytes=row[5],
                calls=row[6],
            )
            for row in database.execute(_select("collective"))
        ),
        collective_model=meta.get("collective_model", ""),
        rank_info=tuple(_rank_info(row) for row in database.execute(_select("rank"))),
        metadata={k.removeprefix("user."): v for k, v in meta.items() if k.startswith("user.")},
        report=tuple(line for (line,) in database.execute("SELECT line FROM report")),
    )


def _select(table: str) -> str:
    return f'SELECT {", ".join(_COLUMNS[table])} FROM "{table}"'


def _rank_info(row: tuple[Any, ...]) -> RankInfo:
    return RankInfo(
        rank=row[0],
        host=row[1],
        pid=row[2],
        finalized=bool(row[3]),
        wall_s=row[4],
        mpi_s=row[5],
        device_pci_bus_id=row[6],
        device_ordinal=row[7],
        visible_devices=row[8],
    )


def _read_pairs(
    database: sqlite3.Connection,
) -> Mapping[tuple[TrafficKind, MemorySpace], PairTable]:
    tables = {}
    keys = database.execute("SELECT DISTINCT kind, space FROM pair").fetchall()
    for kind, space in keys:
        rows = database.execute(
            "SELECT source, target, bytes, messages FROM pair WHERE kind = ? AND space = ?",
            (kind, space),
        ).fetchall()
        columns = np.array(rows, dtype=np.int64).T
        tables[TrafficKind(kind), MemorySpace(space)] = PairTable.from_pairs(*columns)
    return tables


def _read_histograms(
    database: sqlite3.Connection,
) -> Mapping[tuple[TrafficKind, MemorySpace], Int64Array]:
    histograms: dict[tuple[TrafficKind, MemorySpace], Int64Array] = {}
    for kind, space, bucket, messages in database.execute(_select("histogram")):
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
