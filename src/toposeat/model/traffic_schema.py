"""The tables of a profile, what each column may hold, and the checks of a file against both.

A profile may come from anybody, and SQLite alone is no check: it runs what a schema says (views,
generated columns), follows pages in circles, and does not notice a changed number.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable

PROFILE_SCHEMA = "toposeat/profile/3"
DIGEST_KEY = "digest"  # in table `meta`: SHA-256 of the rows of all tables but itself
SQLITE_MAGIC = b"SQLite format 3\x00"
_DIGEST_ROWS = 4096  # of one MessagePack array; another number makes another digest

CREATE_TABLES = """
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
    root INTEGER NOT NULL, space TEXT NOT NULL, bytes INTEGER NOT NULL, calls INTEGER NOT NULL,
    algorithm TEXT NOT NULL, element INTEGER NOT NULL);
CREATE TABLE group_load (
    communicator INTEGER NOT NULL, library TEXT NOT NULL, exchange TEXT NOT NULL,
    bytes INTEGER NOT NULL, messages INTEGER NOT NULL, phase INTEGER);
CREATE TABLE rank (
    rank INTEGER PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, finalized INTEGER NOT NULL,
    wall_s REAL NOT NULL, mpi_s REAL NOT NULL, device_pci_bus_id TEXT, device_ordinal INTEGER,
    visible_devices INTEGER, local_rank INTEGER);
CREATE TABLE rank_time (
    rank INTEGER NOT NULL, kind TEXT NOT NULL, space TEXT NOT NULL, seconds REAL NOT NULL,
    calls INTEGER NOT NULL, PRIMARY KEY (rank, kind, space)) WITHOUT ROWID;
CREATE TABLE rank_device (
    rank INTEGER NOT NULL, position INTEGER NOT NULL, pci_bus_id TEXT, ordinal INTEGER,
    bytes INTEGER NOT NULL, PRIMARY KEY (rank, position)) WITHOUT ROWID;
CREATE TABLE phase (
    id INTEGER PRIMARY KEY, label TEXT NOT NULL, begin_s REAL NOT NULL, end_s REAL NOT NULL,
    mpi_s REAL NOT NULL, active_s REAL NOT NULL);
CREATE TABLE phase_pair (
    phase INTEGER NOT NULL, kind TEXT NOT NULL, space TEXT NOT NULL, source INTEGER NOT NULL,
    target INTEGER NOT NULL, bytes INTEGER NOT NULL, messages INTEGER NOT NULL,
    PRIMARY KEY (phase, kind, space, source, target)) WITHOUT ROWID;
CREATE TABLE world (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, ranks INTEGER NOT NULL, parent INTEGER);
CREATE TABLE world_pair (
    world INTEGER NOT NULL, kind TEXT NOT NULL, space TEXT NOT NULL, source INTEGER NOT NULL,
    target INTEGER NOT NULL, bytes INTEGER NOT NULL, messages INTEGER NOT NULL,
    PRIMARY KEY (world, kind, space, source, target)) WITHOUT ROWID;
CREATE TABLE world_flow (
    world INTEGER NOT NULL, rank INTEGER NOT NULL, kind TEXT NOT NULL, space TEXT NOT NULL,
    inbound INTEGER NOT NULL, bytes INTEGER NOT NULL, messages INTEGER NOT NULL,
    PRIMARY KEY (world, rank, kind, space, inbound)) WITHOUT ROWID;
CREATE TABLE report (line TEXT NOT NULL);
"""

# What each column must hold, as SQL. Ranks are checked against the number of ranks, ":ranks".
_TEXT = "typeof({0}) = 'text'"
_MAYBE_TEXT = "({0} IS NULL OR typeof({0}) = 'text')"
_NUMBER = "typeof({0}) = 'integer'"
_COUNT = "typeof({0}) = 'integer' AND {0} >= 0"
_SECONDS = "typeof({0}) IN ('real', 'integer') AND {0} BETWEEN 0 AND 1e18"
_MAYBE_COUNT = "({0} IS NULL OR typeof({0}) = 'integer' AND {0} >= 0)"
_RANK = "typeof({0}) = 'integer' AND {0} BETWEEN 0 AND :ranks - 1"
_ANY_RANK = "typeof({0}) = 'integer' AND {0} BETWEEN 0 AND 2147483646"
_ROOT = "typeof({0}) = 'integer' AND {0} BETWEEN -1 AND :ranks - 1"

_KEY = {"kind": _TEXT, "space": _TEXT}
_CELL = {"bytes": _COUNT, "messages": _COUNT}

COLUMNS: dict[str, dict[str, str]] = {
    "meta": {"key": _TEXT, "value": _TEXT},
    "pair": {**_KEY, "source": _RANK, "target": _RANK, **_CELL},
    "histogram": {**_KEY, "bucket": _COUNT, "messages": _COUNT},
    "communicator": {"id": _NUMBER, "name": _TEXT},
    "member": {"communicator": _NUMBER, "position": _COUNT, "rank": _RANK},
    "collective": {
        "communicator": _NUMBER, "operation": _TEXT, "rank": _RANK, "root": _ROOT, "space": _TEXT,
        "bytes": _COUNT, "calls": _COUNT, "algorithm": _TEXT, "element": _COUNT,
    },
    "group_load": {
        "communicator": _NUMBER, "library": _TEXT, "exchange": _TEXT, **_CELL,
        "phase": _MAYBE_COUNT,
    },
    "rank": {
        "rank": _RANK, "host": _TEXT, "pid": _COUNT, "finalized": _COUNT, "wall_s": _SECONDS,
        "mpi_s": _SECONDS, "device_pci_bus_id": _MAYBE_TEXT, "device_ordinal": _MAYBE_COUNT,
        "visible_devices": _MAYBE_COUNT, "local_rank": _MAYBE_COUNT,
    },
    "rank_time": {"rank": _RANK, **_KEY, "seconds": _SECONDS, "calls": _COUNT},
    "rank_device": {
        "rank": _RANK, "position": _COUNT, "pci_bus_id": _MAYBE_TEXT, "ordinal": _MAYBE_COUNT,
        "bytes": _COUNT,
    },
    "phase": {
        "id": _COUNT, "label": _TEXT, "begin_s": _SECONDS, "end_s": _SECONDS, "mpi_s": _SECONDS,
        "active_s": _SECONDS,
    },
    "phase_pair": {"phase": _COUNT, **_KEY, "source": _RANK, "target": _RANK, **_CELL},
    "world": {"id": _COUNT, "name": _TEXT, "ranks": _COUNT, "parent": _MAYBE_COUNT},
    "world_pair": {"world": _COUNT, **_KEY, "source": _ANY_RANK, "target": _ANY_RANK, **_CELL},
    "world_flow": {"world": _COUNT, "rank": _RANK, **_KEY, "inbound": _COUNT, **_CELL},
    "report": {"line": _TEXT},
}  # fmt: skip
_STATEMENTS = {
    statement.split()[2]: statement for statement in CREATE_TABLES.strip().rstrip(";").split(";\n")
}


def check_pages(database: sqlite3.Connection) -> None:
    """Refuse a file whose pages SQLite would read more than once: few bytes make endless rows.

    Raises:
        ValueError: naming the fault.
    """
    (fault,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if fault != "ok":
        raise ValueError(" ".join(fault.split())[:80])


def check_tables(database: sqlite3.Connection, names: Iterable[str] = ()) -> None:
    """Refuse a schema that differs from ours in any letter.

    Args:
        database: only its schema is read.
        names: only these tables; default all, and nothing beside them.

    Raises:
        ValueError: naming what is missing, extra or different.
    """
    found = {
        name: (kind, sql)
        for name, kind, sql in database.execute("SELECT name, type, sql FROM sqlite_master")
    }
    for name in names or dict.fromkeys([*_STATEMENTS, *found]):
        kind, sql = found.get(name, ("missing", ""))
        if kind != "table":
            raise ValueError(f"{name[:40]!r} is no table, but {kind}")
        if sql != _STATEMENTS.get(name):
            raise ValueError(f"{name[:40]!r} is no table of a profile")


def check_columns(database: sqlite3.Connection, table: str, ranks: int) -> None:
    """Refuse values of another type or range than their column's; SQLite itself stores anything.

    Raises:
        ValueError: naming the value, column and table.
    """
    rules = {name: f"({rule.format(name)})" for name, rule in COLUMNS[table].items()}
    everything = (
        f'SELECT 1 FROM "{table}" WHERE ({" AND ".join(rules.values())}) IS NOT TRUE LIMIT 1'
    )
    if database.execute(everything, {"ranks": ranks}).fetchone() is None:
        return
    for column, rule in rules.items():
        wrong = database.execute(
            f'SELECT {column} FROM "{table}" WHERE {rule} IS NOT TRUE LIMIT 1', {"ranks": ranks}
        ).fetchone()
        if wrong is not None:
            raise ValueError(f"{str(wrong[0])[:40]!r} as {column} in table {table!r}")


def check_references(database: sqlite3.Connection, child: str, parent: str) -> None:
    """Refuse rows of `child` whose column `parent` names no row of that table.

    Raises:
        ValueError: naming the row's number and the tables.
    """
    lost = database.execute(
        f'SELECT "{parent}" FROM "{child}"'
        f' WHERE "{parent}" NOT IN (SELECT id FROM "{parent}") LIMIT 1'
    ).fetchone()
    if lost is not None:
        raise ValueError(f"table {child!r} names {parent} {lost[0]}, which is not there")


def content_digest(database: sqlite3.Connection) -> str:
    """SHA-256 of all rows in their order, as MessagePack, without the row that holds it."""
    import msgspec  # noqa: PLC0415 - 25 ms

    encode, digest = msgspec.msgpack.Encoder().encode, hashlib.sha256()
    for table, columns in COLUMNS.items():
        where = f"WHERE key != '{DIGEST_KEY}'" if table == "meta" else ""
        rows = database.execute(f'SELECT {", ".join(columns)} FROM "{table}" {where}')
        while piece := rows.fetchmany(_DIGEST_ROWS):
            digest.update(encode(piece))
    return digest.hexdigest()
