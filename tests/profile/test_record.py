"""Reading one record: sound ones exactly, damaged ones never as something else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profile.records import HEADER, write_record
from toposeat.errors import InputError
from toposeat.profile.record import (
    OPERATIONS,
    OUTSIDE,
    Flag,
    Kind,
    RankRecord,
    State,
    read_record,
)

LAYOUT = Path(__file__).resolve().parents[2] / "interposer" / "include" / "toposeat_record.h"
OUTSIDE_CODE = 0x7FFFFFFF


def sample(folder: Path, **changes: object) -> Path:
    options: dict[str, object] = {
        "pairs": [(0, 0, 2, 100, 7), (0, 1, 2, 8, 1), (3, 0, 1, 0, 5), (0, 0, OUTSIDE_CODE, 4, 2)],
        "events": [(0, 13, 0, -1, 64, 3), (0xFFFFFFFF, 2, 1, 3, 10, 1)],
        "communicators": [(0, [(0, 1, 4)]), (0, [(3, -2, 2), (0, 0, 1)]), (1, [(-1, 0, 6)])],
    }
    return write_record(folder, 1, 4, **(options | changes))  # type: ignore[arg-type]


def test_everything_comes_back(tmp_path: Path) -> None:
    record = read_record(sample(tmp_path))
    assert record is not None
    assert (record.rank, record.world_size, record.state) == (1, 4, State.FINALIZED)
    rows = zip(record.kind, record.device, record.peer, record.bytes, record.messages, strict=True)
    assert sorted(rows) == [
        (0, False, OUTSIDE, 8, 2),
        (0, False, 2, 700, 7),
        (0, True, 2, 8, 1),
        (3, False, 1, 0, 5),
    ]
    assert [c.ranks() for c in record.communicators] == [(0, 1, 2, 3), (3, 1, 0), (OUTSIDE,) * 6]
    assert [c.inter for c in record.communicators] == [False, False, True]
    assert [(e.operation, e.root, e.bytes, e.calls) for e in record.events] == [
        ("allreduce", -1, 64, 3),
        ("bcast", 3, 10, 1),
    ]
    # 3000 ticks are 3 ms: 1500 ticks in MPI are 1.5 ms.
    assert record.wall_s == pytest.approx(3e-3)
    assert record.mpi_s == pytest.approx(1.5e-3)
    assert (record.host, record.library, record.calls) == ("node1", "Test MPI 1.0", 42)


def test_holes_are_not_read_as_data(tmp_path: Path) -> None:
    """A sparse file, as the interposer makes it, reads like the dense one."""
    dense = sample(tmp_path)
    image = dense.read_bytes()
    sparse = tmp_path / "sparse.tpsrec"
    with sparse.open("wb") as stream:
        for at in range(0, len(image), 4096):
            page = image[at : at + 4096]
            if any(page):
                stream.seek(at)
                stream.write(page)
        stream.truncate(len(image))
    assert sparse.stat().st_blocks * 512 < len(image)
    a, b = read_record(dense), read_record(sparse)
    assert a is not None
    assert b is not None
    assert (a.peer == b.peer).all()
    assert (a.histogram == b.histogram).all()
    assert a.events == b.events


def test_rank_that_died_in_init(tmp_path: Path) -> None:
    path = tmp_path / "rank-0-1.tpsrec"
    path.write_bytes(bytes(8192))
    assert read_record(path) is None


# Positions in the header: 0 magic, 1 version, 2 byte order, 3 size, 4 state, 6 rank, 7 world, 9 on
# offset / capacity / stride of the four sections, 21 communicators used, 22 runs used, 23.. clocks.
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({0: b"NOTAREC\n"}, "does not start as one"),
        ({1: 9}, "version 9"),
        ({2: 0x04030201}, "byte order"),
        ({3: 12}, "another size"),
        ({4: 7}, "unknown state 7"),
        ({6: 4}, "rank 4 of 4"),
        ({6: -1}, "rank -1 of 4"),
        ({7: 1 << 30}, "rank 1 of"),
        ({9: 1 << 62}, "beyond the end"),
        ({10: 1 << 60}, "beyond the end"),
        ({11: 1}, "slots have 1 bytes each"),
        ({9: 0}, "beyond the end"),
        ({21: 4000}, "claims 4000 communicators"),
        ({22: 1}, "do not add up"),
        ({25: 0}, "clock runs backwards"),
    ],
)
def test_impossible_headers(change: dict[int, object], words: str, tmp_path: Path) -> None:
    path = sample(tmp_path, header=change)
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        read_record(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": [(0, 0, 4, 1, 1)]},  # rank beyond the world
        {"pairs": [(0, 0, 1, 1 << 40, 1 << 23)]},  # 2^63 bytes
        {"events": [(3, 2, 0, 0, 1, 1)]},  # unknown communicator
        {"events": [(0, 99, 0, 0, 1, 1)]},  # unknown operation
        {"events": [(0, 2, 0, 4, 1, 1)]},  # root beyond the world
        {"communicators": [(0, [(2, 1, 3)])]},  # members 2, 3, 4
        {"communicators": [(0, [(0, 1, -1)])]},
    ],
)
def test_impossible_contents(change: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_record(sample(tmp_path, **({"events": ()} | change)))


def test_missing_and_unreadable(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_record(tmp_path / "nothing.tpsrec")
    with pytest.raises(InputError):
        read_record(tmp_path)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_damage_is_refused_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    """Flipped bytes and truncation: an InputError that names the file, or a record in bounds."""
    image = bytearray(sample(tmp_path).read_bytes())
    interesting = st.one_of(
        st.integers(0, HEADER.size - 1), st.integers(4096, len(image) - 1).map(lambda n: n)
    )
    for at in data.draw(st.lists(interesting, max_size=6)):
        image[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(image)), st.integers(0, len(image))))
    path = tmp_path / "damaged.tpsrec"
    path.write_bytes(image[:cut])
    try:
        record = read_record(path)
    except InputError as error:
        assert str(path) in error.message
        return
    if record is not None:
        check_bounds(record)


def check_bounds(record: RankRecord) -> None:
    assert 0 <= record.rank < record.world_size
    assert ((record.peer == OUTSIDE) | (record.peer < record.world_size)).all()
    assert (record.bytes >= 0).all()
    assert (record.messages >= 0).all()
    for communicator in record.communicators:
        if communicator.size < 1 << 16:
            ranks = communicator.ranks()
            assert len(ranks) == communicator.size
            assert all(OUTSIDE <= r < record.world_size for r in ranks)
    assert record.wall_s >= 0
    assert record.mpi_s >= 0


def test_numbers_agree_with_the_c_header() -> None:
    text = LAYOUT.read_text(encoding="utf-8")
    operations = re.findall(r"X\((\d+), (\w+)\)", text)
    assert {int(number): name for number, name in operations} == OPERATIONS
    flags = re.findall(r"TPS_FLAG_(\w+) = (\d+)", text)
    assert {name: int(value) for name, value in flags} == {f.name: f.value for f in Flag}
    states = re.findall(r"TPS_STATE_(\w+) = (\d+)", text)
    assert {name: int(value) for name, value in states} == {s.name: s.value for s in State}
    kinds = re.findall(r"TPS_((?:POINT|COLL|ONE)\w+) = (\d)", text)
    assert {name: int(value) for name, value in kinds} == {k.name: k.value for k in Kind}
