"""Profile files: one SQLite database per job, so that any tool can query it.

A profile may come from anybody, and SQLite alone is no check: it runs what a schema says (views,
generated columns), follows pages in circles, and does not notice a changed number.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from toposeat.errors import InputError
from toposeat.model.cpu_list import cpus_of
from toposeat.model.files import beginning, encodable, open_input, replace_atomically, unreadable
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
)

PROFILE_SCHEMA = "toposeat/profile/4"
DIGEST_KEY = "digest"  # in table `meta`: SHA-256 of the rows of all tables but itself
SQLITE_MAGIC = b"SQLite format 3\x00"
_DIGEST_ROWS = 4096  # of one MessagePack array; another number makes another digest
_PIECE = 1 << 16  # rows read at a time: Python numbers are large
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 24,  # bytes of a text or row
    sqlite3.SQLITE_LIMIT_COLUMN: 32,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 16,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
}
_NO_DIGEST = "this profile came without a digest: damage to it would not have been noticed"
_HINT = "profile the application again"

_CREATE_TABLES = """
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
    visible_devices INTEGER, local_rank INTEGER, cpus TEXT NOT NULL, cpu_s REAL);
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
CREATE TABLE report (line TEXT NOT NULL);
"""
_STATEMENTS = {
    statement.split()[2]: statement for statement in _CREATE_TABLES.strip().rstrip(";").split(";\n")
}
_REFERENCES = (  # what names a row of a table by the table's first column, or names nothing
    ("phase_pair", "phase", "phase"),
    ("rank_time", "rank", "rank"),
    ("rank_device", "rank", "rank"),
    ("group_load", "communicator", "communicator"),
    ("group_load", "phase", "phase"),
)


def _rule(column: str, kind: str, more: str) -> str:
    """What a column must hold, as SQL; ":ranks" is the number of ranks."""
    rule = f"typeof({column}) = '{kind.lower()}'"
    if kind == "REAL":
        rule = f"typeof({column}) IN ('real', 'integer') AND {column} BETWEEN 0 AND 1e18"
    elif column in ("rank", "source", "target", "root"):
        rule += f" AND {column} BETWEEN {-(column == 'root')} AND :ranks - 1"
    elif kind == "INTEGER" and column not in ("id", "communicator"):
        rule += f" AND {column} >= 0"
    return f"({rule})" if more else f"({column} IS NULL OR {rule})"


COLUMNS = {  # by table, and by column what it must hold
    table: {
        column: _rule(column, kind, more)
        for column, kind, more in re.findall(
            r"(\w+) (TEXT|INTEGER|REAL)( NOT NULL| PRIMARY KEY|)", statement
        )
    }
    for table, statement in _STATEMENTS.items()
}

_Record = TypeVar("_Record")


def is_profile(path: str | Path) -> bool:
    """Whether a file looks like a profile (only its first bytes are read)."""
    return beginning(path, len(SQLITE_MAGIC)) == SQLITE_MAGIC


# ---- writing


def save_traffic(traffic: Traffic, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a profile, whole or not at all."""

    def produce(temporary: Path) -> None:
        try:
            with contextlib.closing(sqlite3.connect(temporary)) as database:
                _fill(database, traffic)
        except sqlite3.OperationalError as error:  # a full disk, no permission
            raise OSError(str(error)) from error

    replace_atomically(path, produce, overwrite=overwrite)


def _fill(database: sqlite3.Connection, traffic: Traffic) -> None:
    # One transaction, and no journal: the file is a new one, and renamed when it is whole.
    database.executescript(f"PRAGMA journal_mode=OFF; BEGIN; {_CREATE_TABLES}")
    meta = {
        "schema": PROFILE_SCHEMA,
        "ranks": str(traffic.ranks),
        "origin": traffic.origin,
        "collective_model": traffic.collective_model,
        "timed": str(int(traffic.timed)),
        **{f"user.{key}": value for key, value in traffic.metadata.items()},
    }
    ranks, phases = traffic.rank_info, traffic.phases
    for table, rows in (
        ("meta", meta.items()),
        ("pair", _pair_rows(traffic.tables)),
        ("histogram", _bucket_rows(traffic)),
        ("communicator", (_row("communicator", each) for each in traffic.communicators)),
        ("member", ((c.id, *at) for c in traffic.communicators for at in enumerate(c.ranks))),
        ("collective", (_row("collective", each) for each in traffic.collectives)),
        ("group_load", (_row("group_load", each) for each in traffic.groups)),
        ("rank", (_row("rank", each) for each in ranks)),
        ("rank_time", (_row("rank_time", each, r.rank) for r in ranks for each in r.time)),
        (
            "rank_device",
            (
                _row("rank_device", use, r.rank, at)
                for r in ranks
                for at, use in enumerate(r.devices)
            ),
        ),
        ("phase", (_row("phase", each, each.index) for each in phases)),
        ("phase_pair", ((p.index, *row) for p in phases for row in _pair_rows(p.tables))),
        ("report", zip(traffic.report)),
    ):
        _insert(database, table, rows)
    _insert(database, "meta", [(DIGEST_KEY, _content_digest(database))])
    database.commit()


def _insert(database: sqlite3.Connection, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * len(COLUMNS[table]))
    database.executemany(f'INSERT INTO "{table}" VALUES ({marks})', map(_plain, rows))


def _plain(row: tuple[Any, ...]) -> list[Any]:
    return [encodable(value) if isinstance(value, str) else value for value in row]


def _row(table: str, record: object, *before: int) -> tuple[Any, ...]:
    """A record as a row: its members are called like the columns that come after `before`."""
    return (*before, *(getattr(record, name) for name in list(COLUMNS[table])[len(before) :]))


def _pair_rows(tables: Mapping[TableKey, PairTable]) -> Iterator[tuple[Any, ...]]:
    for (kind, space), table in tables.items():
        columns = (table.source, table.target, table.bytes, table.messages)
        for start in range(0, len(table), 1 << 16):  # bounds the lists of Python numbers
            parts = (column[start : start + (1 << 16)].tolist() for column in columns)
            yield from zip(repeat(kind.value), repeat(space.value), *parts)


def _bucket_rows(traffic: Traffic) -> Iterator[tuple[Any, ...]]:
    for (kind, space), counts in traffic.histograms.items():
        for bucket in np.flatnonzero(counts).tolist():
            yield kind.value, space.value, bucket, int(counts[bucket])


# ---- reading


def load_traffic(path: str | Path) -> Traffic:
    """Read a profile."""
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
        raise InputError(f"damaged profile: {error}", path=path, hint=_HINT) from error
    except (ValueError, TypeError, OverflowError) as error:
        cause = f"profile says something impossible: {error}"
        raise InputError(cause, path=path, hint=_HINT) from error


def _open_read_only(path: str | Path) -> sqlite3.Connection:
    """Open a database from anybody: nothing is written, and no file beside it is read."""
    name = f"{Path(path).resolve().as_uri()}?mode=ro&immutable=1"
    database = sqlite3.connect(name, uri=True)
    for limit, most in _LIMITS.items():
        database.setlimit(limit, most)
    for setting in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"):
        database.execute(f"PRAGMA {setting}")
    return database


def _read(database: sqlite3.Connection, path: str | Path) -> Traffic:
    # Pages that SQLite would read more than once make endless rows of few bytes.
    (fault,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if fault != "ok":
        raise ValueError(" ".join(fault.split())[:80])
    _check_tables(database, ["meta"])  # in another version all others may differ
    _check_columns(database, "meta", 0)
    meta = dict(_rows(database, "meta"))
    if meta.get("schema") != PROFILE_SCHEMA:
        raise InputError(
            f"expected schema {PROFILE_SCHEMA!r}, found {str(meta.get('schema'))[:80]!r}",
            path=path,
            hint="this profile is from another version of toposeat; profile again",
        )
    _check_tables(database, dict.fromkeys([*_STATEMENTS, *_found(database)]))
    ranks, timed = meta.get("ranks", ""), meta.get("timed", "")
    if not re.fullmatch("[0-9]{1,10}", ranks) or timed not in ("0", "1"):
        raise ValueError(f"{ranks[:40]!r} as ranks, {timed[:40]!r} as timed in table 'meta'")
    for table in COLUMNS:
        _check_columns(database, table, int(ranks))
    _check_references(database)
    members = _by_owner((row[0], row[2]) for row in _rows(database, "member"))
    time = _parts(database, "rank_time", TimeShare)
    devices = _parts(database, "rank_device", DeviceUse)
    traffic = Traffic(
        ranks=int(ranks),
        origin=meta.get("origin", ""),
        tables=_read_pairs(database, "pair"),
        histograms=_read_histograms(database),
        communicators=tuple(
            Communicator(id=number, ranks=tuple(members.get(number, ())), name=name)
            for number, name in _rows(database, "communicator")
        ),
        collectives=tuple(CollectiveEvent(**values) for values in _values(database, "collective")),
        groups=tuple(GroupLoad(**values) for values in _values(database, "group_load")),
        collective_model=meta.get("collective_model", ""),
        rank_info=tuple(
            RankInfo(
                **values,
                time=tuple(time.get(values["rank"], ())),
                devices=tuple(devices.get(values["rank"], ())),
            )
            for values in _values(database, "rank")
        ),
        metadata={k.removeprefix("user."): v for k, v in meta.items() if k.startswith("user.")},
        report=tuple(line for (line,) in database.execute("SELECT line FROM report")),
        phases=tuple(
            Phase(
                index=values.pop("id"),
                **values,
                tables=_read_pairs(database, "phase_pair", ("phase", number)),
            )
            for values in list(_values(database, "phase"))
            for number in (values["id"],)
        ),
        timed=timed == "1",
    )
    if DIGEST_KEY not in meta:
        return replace(traffic, report=tuple(dict.fromkeys((*traffic.report, _NO_DIGEST))))
    if meta[DIGEST_KEY] != _content_digest(database):
        raise ValueError("its rows are not those that were written")
    return traffic


def _found(database: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """Kind and SQL of all that the schema of a file has, by name."""
    rows = database.execute("SELECT name, type, sql FROM sqlite_master")
    return {name: (kind, sql) for name, kind, sql in rows}


def _check_tables(database: sqlite3.Connection, names: Iterable[str]) -> None:
    """Refuse a schema that differs from ours in any letter."""
    found = _found(database)
    for name in names:
        kind, sql = found.get(name, ("missing", ""))
        if kind != "table":
            raise ValueError(f"{name[:40]!r} is no table, but {kind}")
        if sql != _STATEMENTS.get(name):
            raise ValueError(f"{name[:40]!r} is no table of a profile")


def _check_columns(database: sqlite3.Connection, table: str, ranks: int) -> None:
    """Refuse values of another type or range than their column's; SQLite itself stores anything."""
    rules = " AND ".join(COLUMNS[table].values())
    wrong = f'SELECT 1 FROM "{table}" WHERE ({rules}) IS NOT TRUE LIMIT 1'
    if database.execute(wrong, {"ranks": ranks}).fetchone() is not None:
        raise ValueError(f"table {table!r} has a value that its column cannot hold")


def _check_references(database: sqlite3.Connection) -> None:
    """Refuse rows that name what is not there."""
    for child, own, parent in _REFERENCES:
        others = f'SELECT {next(iter(COLUMNS[parent]))} FROM "{parent}"'
        # NULL is in no list, and not in an empty one either
        given = f'SELECT {own} FROM "{child}" WHERE {own} IS NOT NULL'
        lost = f"{given} AND {own} NOT IN ({others}) LIMIT 1"
        if row := database.execute(lost).fetchone():
            raise ValueError(f"table {child!r} names {parent} {row[0]}, which is not there")


def _content_digest(database: sqlite3.Connection) -> str:
    """SHA-256 of all rows in their order, as MessagePack, without the row that holds it."""
    encode, digest = msgspec.msgpack.Encoder().encode, hashlib.sha256()
    for table in COLUMNS:
        rows = _rows(database, table, f"WHERE key != '{DIGEST_KEY}'" if table == "meta" else "")
        while piece := rows.fetchmany(_DIGEST_ROWS):
            digest.update(encode(piece))
    return digest.hexdigest()


def _rows(database: sqlite3.Connection, table: str, where: str = "") -> sqlite3.Cursor:
    """All rows of a table in their order, which is that of its primary key."""
    return database.execute(f'SELECT {", ".join(COLUMNS[table])} FROM "{table}" {where}')


def _values(database: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table as members of a record, by name."""
    kinds: dict[str, Callable[[Any], object]] = {  # there are few values, of many rows
        "kind": cache(TimeKind if table == "rank_time" else TrafficKind),
        "space": cache(MemorySpace),
        "exchange": cache(Exchange),
        "finalized": bool,
        "cpus": cache(_checked_cpus),
        "inbound": bool,
        "seconds": float,
    }
    columns = list(COLUMNS[table])
    converted = [(name, kinds[name]) for name in columns if name in kinds]
    for row in _rows(database, table):
        values = dict(zip(columns, row, strict=True))
        for name, kind in converted:
            values[name] = kind(values[name])
        yield values


def _checked_cpus(text: str) -> str:
    cpus_of(text)
    return text


def _parts(
    database: sqlite3.Connection, table: str, kind: Callable[..., _Record]
) -> dict[int, list[_Record]]:
    """The records of a table by what its first column names, in their order."""
    first = next(iter(COLUMNS[table]))
    found = []
    for values in _values(database, table):
        values.pop("position", None)
        found.append((values.pop(first), kind(**values)))
    return _by_owner(found)


def _by_owner(parts: Iterable[tuple[int, _Record]]) -> dict[int, list[_Record]]:
    owned: dict[int, list[_Record]] = {}
    for owner, part in parts:
        owned.setdefault(owner, []).append(part)
    return owned


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
