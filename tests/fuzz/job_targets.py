"""What describes jobs: placements, traffic of every kind, results; and the patterns users type."""

import json
import os
import re
import sqlite3
import tempfile
from contextlib import closing, suppress
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np

from tests.fuzz.binary_damage import drawn_from
from tests.fuzz.target import Target, text_seeds
from tests.profile.importers import test_pytorch_trace as pytorch
from tests.profile.importers.nccl_samples import LoggedProcess, call_line, init_lines
from tests.profile.importers.test_open_mpi_monitoring import RANK0
from tests.profile.records import test_torch_record as torch_record
from tests.profile.records.records import write_record
from toposeat.model.job_folder import RECORD_SUFFIX, TORCH_SUFFIX
from toposeat.model.placement_file import format_placement, parse_placement
from toposeat.model.traffic_file import COLUMNS, save_traffic
from toposeat.profile import PATTERNS, pattern_traffic, read_traffic

_PLACEMENT = """\
# toposeat/placement/1
# vendor: nvidia
# devices node1: 0=0000:31:00.0=GPU-1,1=0000:b1:00.0=-
# objective: time
rank\thost\tlocal_rank\tpci\tuuid\tindex\tcpus\tmemnode\tnic
0\tnode1\t0\t0000:b1:00.0\t-\t1\t16-31\t1\tmlx5_0
1\tnode1\t1\t0000:31:00.0\tGPU-1\t0\t-\t-\t-
"""
RECORDS = (RECORD_SUFFIX, TORCH_SUFFIX)
_MATRICES = {
    "m.csv": "# bytes\n0,5,1e3\n7,0,0\n1,2,0\n",
    "labels.csv": "rank,r0,r1\nr0,0,5\nr1,7.0,0\n",
}
_NO_BRACKETS = str.maketrans("", "", "[]")
_PAIRS = {
    "pairs.csv": "# ranks=10\nsource,target,bytes,messages\n0,1,5,2\n2,0,7,1\n",
    "b.csv": "source;target;bytes\n0;1;5\n1;0;6\n".replace(";", ","),
}


def job_targets():
    """Placements, every importer of traffic, profiles, patterns."""
    four = [LoggedProcess("node07", device) for device in range(4)]
    log = init_lines(four, 0)
    log += init_lines(four[:2], 1)
    log += [call_line(process, 0, 4, "AllReduce", 1000) for process in four]
    log.append(call_line(four[0], 1, 2, "Send", 5, root=1))
    calls = [
        pytorch.event("allreduce", 100, 100),
        pytorch.event("all_to_all", 40, 40, "1", **{"In split size": "[10, 30]"}),
        pytorch.event("send", 10, 10, "1", Rank=1),
        pytorch.kernel(pytorch.event("broadcast", 5, 5, Rank=3)),
    ]
    traces = {"rank0.json": json.dumps(pytorch.trace(0, calls))}
    profiles, ranks = (_profile_seed(),), (_record_seed(),)
    torch = (_torch_seed(),)
    return [
        Target("placement", tuple(text_seeds({"p.place": _PLACEMENT})), _read_placement),
        _traffic("CSV matrix", text_seeds(_MATRICES)),
        _traffic("CSV pair list", text_seeds(_PAIRS)),
        _traffic("NumPy matrix (npy)", _numpy_seeds()),
        _traffic("Open MPI monitoring", text_seeds({"run.0.prof": RANK0})),
        _traffic("NCCL debug log", text_seeds({"nccl.log": "\n".join(log) + "\n"})),
        _traffic("PyTorch trace", text_seeds(traces)),
        Target("PyTorch rank record", torch, _read_traffic, drawn_from(torch)),
        Target("profile (SQLite)", profiles, _read_traffic, drawn_from(profiles)),
        Target("profile, other schemas", profiles, _read_traffic, _altered(profiles[0])),
        Target("rank record", ranks, _read_traffic, drawn_from(ranks)),
        Target("traffic patterns", _pattern_seeds(), _read_pattern),
    ]  # fmt: skip


def _traffic(name, seeds):
    return Target(name, tuple(seeds), _read_traffic)


def _torch_seed():
    path = torch_record.write(scratch())
    seed = Path(path.name), path.read_bytes()
    path.unlink()
    return seed


def _read_placement(name, data):
    placement = parse_placement(data.decode("utf-8", "replace"), path=name)
    again = format_placement(placement)
    assert parse_placement(again, path=name) == placement, "written and read as another one"


@cache
def _folder(_pid):
    base = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="toposeat-fuzz-", dir=base))
    REMOVE.append(folder)
    return folder


REMOVE = []  # folders of this process, for whoever ends it


def scratch():
    """A folder in memory of this process's own."""
    return _folder(os.getpid())


def written(name, data):
    """A file of this content there, under its own name."""
    path = scratch() / name.name
    path.write_bytes(data)
    return path


def _sound(traffic):
    table = traffic.table()
    assert len(table) == 0 or max(table.source.max(), table.target.max()) < traffic.ranks
    assert len(table) == 0 or min(table.bytes.min(), table.messages.min()) >= 0


def _read_traffic(name, data):
    """The file goes under its own name, a record as the folder that it is in."""
    path = written(name, data)
    try:
        _sound(read_traffic(path.parent if path.suffix in RECORDS else path))
    finally:
        path.unlink()


def _read_pattern(_, data):
    _sound(pattern_traffic(data.decode("utf-8", "replace")))


def _pattern_seeds():
    """The documented forms, each with what stands in brackets and without."""
    forms = [kind.form.replace(":N", ":8") for kind in PATTERNS.values()]
    words = [form.partition("[")[0] for form in forms]
    words += [re.sub("=[A-Z]+", "=2", form.translate(_NO_BRACKETS)) for form in forms]
    return tuple((Path("pattern"), word.encode()) for word in dict.fromkeys(words))


def _numpy_seeds():
    matrix = np.array([[0, 5, 7], [11, 0, 0], [1, 2, 0]])
    plain, floats = BytesIO(), BytesIO()
    np.save(plain, matrix)
    np.save(floats, matrix.astype("f4"))
    return [(Path("m.npy"), plain.getvalue()), (Path("f.npy"), floats.getvalue())]


def _profile_seed():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "job.tps")
        save_traffic(pattern_traffic("stencil2d:2x2"), path)
        return Path(path.name), path.read_bytes()


_STATEMENTS = (
    "DROP TABLE {table}",
    "ALTER TABLE {table} RENAME TO {other}s",
    "ALTER TABLE {table} ADD COLUMN {column} {type}",
    "ALTER TABLE {table} ADD COLUMN more {type} AS ({value})",
    "ALTER TABLE {table} DROP COLUMN {column}",
    "ALTER TABLE {table} RENAME COLUMN {column} TO {column}s",
    "CREATE VIEW v AS SELECT * FROM {table}, {other}",
    "ALTER TABLE {table} RENAME TO old; CREATE VIEW {table} AS SELECT *, {value} FROM old",
    "CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {other}; END",
    "CREATE INDEX i ON {table} ({column}, abs({value}))",
    "CREATE TABLE more AS SELECT * FROM {table}",
    "UPDATE {table} SET {column} = {value}",
    "DELETE FROM {table}",
    "INSERT INTO {table} SELECT * FROM {table}",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET {what} = {value} WHERE name = '{table}'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage ="
    " (SELECT rootpage FROM sqlite_master WHERE name = '{other}') WHERE name = '{table}'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET"
    " sql = replace(sql, '{type}', 'BLOB COLLATE RTRIM DEFAULT ({value})')",
    "PRAGMA user_version = 7; PRAGMA application_id = 9; VACUUM",
    "PRAGMA encoding = 'UTF-16'; ANALYZE",
)
_VALUES = (
    "-1", "9e999", "NULL", "''", "x'00'", "1 << 62", "zeroblob(20000000)", "randomblob(9)",
    "'\x1b['", "printf('%.20000000c', 'x')", "(SELECT sql FROM sqlite_master)", "rowid",
    "load_extension('x')",
)  # fmt: skip


def _altered(seed):
    """Profiles that SQLite's own statements changed: tables, views, generated columns, contents."""

    def draw(source):
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(seed[1])
            for _ in range(source.randint(1, 3)):
                table, other = source.choice(list(COLUMNS)), source.choice(list(COLUMNS))
                words = {
                    "table": table,
                    "other": other,
                    "column": source.choice(list(COLUMNS[table])),
                    "type": source.choice(("TEXT", "INTEGER", "REAL")),
                    "value": source.choice(_VALUES),
                    "what": source.choice(("sql", "type", "name", "tbl_name")),
                }
                with suppress(sqlite3.Error):
                    database.executescript(source.choice(_STATEMENTS).format(**words))
            return seed[0], database.serialize()

    return draw


def _record_seed():
    with tempfile.TemporaryDirectory() as folder:
        path = write_record(
            Path(folder), 0, 2, pairs=[(0, 0, 1, 100, 7), (1, 1, 1, 8, 1)],
            events=[(0, 13, 0, -1, 64, 3)], communicators=[(0, [(0, 1, 2)])],
        )  # fmt: skip
        return Path(path.name), path.read_bytes()
