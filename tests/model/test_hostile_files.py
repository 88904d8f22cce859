"""Files that somebody damaged or forged: one line of cause at the right line, never a traceback."""

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.model.samples import pair_topology
from tests.support.tables import literals
from toposeat.errors import InputError
from toposeat.model.placement import Placement, Seat
from toposeat.model.placement_file import load_placement, save_placement
from toposeat.model.result_file import parse_run, save_run
from toposeat.model.runs import RunRecord
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.model.traffic_file import load_traffic, save_traffic
from toposeat.topology import read_topology, save_topology

PROFILES = literals(Path(__file__).with_name("hostile_profiles.txt"))


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": ' + "[" * 1_000_000,
        '{"schema": "toposeat/topology/2", "x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_deep_nesting(tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(InputError, match="nested too deeply"):
        read_topology(path)


def test_brackets_in_strings_are_no_nesting(tmp_path):
    topology = dataclasses.replace(pair_topology(), description='"[{' * 100)
    save_topology(topology, tmp_path / "t.json")
    assert read_topology(tmp_path / "t.json") == topology


def test_half_a_surrogate_pair_is_written_as_an_escape(tmp_path):
    half, again = tmp_path / "half.json", tmp_path / "again.json"
    save_topology(pair_topology(), half)
    half.write_text(half.read_text().replace('"origin": "', '"origin": "\\ud83d', 1))
    save_topology(read_topology(half), again)
    assert read_topology(again).origin.startswith("\\ud83d")


def test_names_that_are_no_utf8_can_be_read_back(tmp_path):
    """Linux hands over such arguments and folders; Python holds them as lone surrogates."""
    name = b"./caf\xe9".decode("utf-8", "surrogateescape")
    run = RunRecord(
        command=(name,), launched=(), placement=name, visibility="mask", host="h",
        started_at="", wall_s=1.0, exit_code=0, environment={"A": name},
    )  # fmt: skip
    save_run(run, tmp_path / "run.json")
    assert parse_run((tmp_path / "run.json").read_text(), "run.json").command == ("./caf\\udce9",)
    traffic = Traffic(ranks=1, origin=name, tables={}, metadata={"command": name}, report=(name,))
    save_traffic(traffic, tmp_path / "app.profile")
    assert load_traffic(tmp_path / "app.profile").metadata == {"command": "./caf\\udce9"}
    placement = Placement(
        seats=(Seat(rank=0, host="h", local_rank=0, index=0),),
        devices_of_host={},
        metadata={"command": name},
    )
    save_placement(placement, tmp_path / "app.place")
    assert load_placement(tmp_path / "app.place").metadata == {"command": "./caf\\udce9"}


@pytest.mark.parametrize("sql", PROFILES["impossible"])
def test_profiles_with_wrong_content(tmp_path, sql):
    path = forged_profile(tmp_path, sql)
    with pytest.raises(InputError, match=r"forged\.profile: (profile says|damaged)") as caught:
        load_traffic(path)
    assert caught.value.hint


@pytest.mark.parametrize(("sql", "cause"), PROFILES["code"])
def test_profiles_run_no_code_of_strangers(tmp_path, sql, cause):
    with pytest.raises(InputError, match=cause):
        load_traffic(forged_profile(tmp_path, sql))


def test_pages_that_are_read_twice_are_refused(tmp_path):
    """A few pages that name each other make rows without end."""
    rows = "WITH RECURSIVE c (x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM c WHERE x < 2000)"
    sql = f"INSERT INTO report {rows} SELECT 'a remark that is of some length ' || x FROM c"
    path = forged_profile(tmp_path, f"{sql}; DELETE FROM meta WHERE key = 'digest'")
    with closing(sqlite3.connect(path)) as database:
        (root,) = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'report'"
        ).fetchone()
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    page = memoryview(data)[(root - 1) * size : root * size]
    assert page[0] == 5  # an inner page of a table: its children's numbers at the cells
    cells = [int.from_bytes(page[12 + 2 * i : 14 + 2 * i], "big") for i in range(page[4])]
    for cell in cells:
        page[cell : cell + 4] = page[cells[0] : cells[0] + 4]
    page.release()
    path.write_bytes(data)
    with pytest.raises(InputError, match="profile says something impossible"):
        load_traffic(path)


def test_nothing_beside_a_profile_is_read_or_written(tmp_path):
    """A journal that somebody laid beside it would be rolled back into it."""
    path = forged_profile(tmp_path, "")
    before = path.read_bytes()
    for end in ("-journal", "-wal", "-shm"):
        Path(f"{path}{end}").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600))
    names = sorted(tmp_path.iterdir())
    assert load_traffic(path).ranks == 2
    assert (path.read_bytes(), sorted(tmp_path.iterdir())) == (before, names)


def forged_profile(tmp_path, sql):
    table = PairTable.from_dense([[0, 10], [0, 0]])
    tables = {(TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE): table}
    path = tmp_path / "forged.profile"
    save_traffic(Traffic(ranks=2, origin="test", tables=tables), path)
    with sqlite3.connect(path) as database:
        database.executescript(sql)
    database.close()
    return path


def test_a_name_too_long_is_no_traceback():
    with pytest.raises(InputError, match="cannot read: File name too long"):
        load_traffic("a" * 5000)


def test_totals_do_not_wrap_around():
    most = np.iinfo(np.int64).max
    with pytest.raises(ValueError, match="more than can be counted"):
        PairTable.from_pairs([0, 0], [1, 1], [most, most], [1, 1])
    half = PairTable.from_pairs([0], [1], [most // 2], [1])
    with pytest.raises(ValueError, match="more than can be counted"):
        Traffic(
            ranks=2,
            origin="",
            tables={(kind, MemorySpace.HOST): half for kind in TrafficKind},
        )
