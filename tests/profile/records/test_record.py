"""Reading one record: sound ones exactly, damaged ones never as something else."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profile.records.records import HEADER, write_record
from toposeat.errors import InputError
from toposeat.model.traffic import MemorySpace, TimeKind
from toposeat.profile.records.record import OUTSIDE, read_record, record_paths
from toposeat.profile.records.segment import OPERATIONS, TIME_KINDS, Flag, Kind, PhaseMode, State

LAYOUT = Path(__file__).resolve().parents[3] / "interposer" / "include" / "toposeat_record.h"
OUTSIDE_CODE = 0x7FFFFFFF


def sample(folder, **changes):
    options = {
        "pairs": [(0, 0, 2, 100, 7), (0, 1, 2, 8, 1), (3, 0, 1, 0, 5), (0, 0, OUTSIDE_CODE, 4, 2)],
        "events": [(0, 13, 0, -1, 64, 3), (0xFFFFFFFF, 2, 1, 3, 10, 1)],
        "communicators": [(0, [(0, 1, 4)]), (0, [(3, -2, 2), (0, 0, 1)]), (1, [(-1, 0, 6)])],
    }
    return write_record(folder, 1, 4, **(options | changes))  # type: ignore[arg-type]


def test_everything_comes_back(tmp_path):
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
    assert record.info.wall_s == pytest.approx(3e-3)
    assert record.info.mpi_s == pytest.approx(1.5e-3)
    assert (record.info.host, record.library, record.calls) == ("node1", "Test MPI 1.0", 42)


def test_holes_are_not_read_as_data(tmp_path):
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


def test_rank_that_died_in_init(tmp_path):
    path = tmp_path / "rank-0-1.tpsrec"
    path.write_bytes(bytes(8192))
    assert read_record(path) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"magic": b"NOTAREC\n"}, "it does not start as one"),
        ({"version": 1}, "version 1"),
        ({"byte_order": 0x04030201}, "start as one of this byte order"),
        ({"header_bytes": 12}, "another size"),
        ({"state": 7}, "7 is not a valid State"),
        ({"rank": 4}, "rank 4 of 4"),
        ({"rank": -1}, "rank -1 of 4"),
        ({"world_size": 1 << 22}, "rank 1 of"),
        ({"thread": 0}, "only one thread's part"),
        ({"slots_offset": 1 << 62}, "slots of 576 bytes at 4611686018427387904 do not fit"),
        ({"slots_capacity": 1 << 60}, "slots of 576 bytes"),
        ({"slots_stride": 1}, "slots of 1 bytes"),
        ({"slots_offset": 0}, "at 0 do not fit"),
        ({"phase_mode": 3}, "3 is not a valid PhaseMode"),
        ({"communicators_used": 4000}, "4000 of "),
        ({"runs_used": 1}, "do not add up"),
        ({"start_ticks": 5000}, "clock runs backwards"),
        ({"last_ns": 0}, "clock runs backwards"),
    ],
)
def test_impossible_headers(change, words, tmp_path):
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
        {"pairs": [(0, 0, OUTSIDE_CODE + 1, 1, 1)]},  # beyond all numbers of peers
        {"pairs": [(0, 0, 1, 1 << 40, 1 << 23)]},  # 2^63 bytes
        {"events": [(3, 2, 0, 0, 1, 1)]},  # unknown communicator
        {"events": [(0, 99, 0, 0, 1, 1)]},  # unknown operation
        {"events": [(0, 2, 0, 4, 1, 1)]},  # root beyond the world
        {"communicators": [(0, [(2, 1, 3)])]},  # members 2, 3, 4
        {"communicators": [(0, [(0, 1, -1)])]},
        {"pairs": [(0, 0, 1, 8, 1, 1)]},  # unknown phase
        {"events": [(0, 2, 0, 0, 1, 1, 1)]},
        {"phases": [(0, 999, 4000, 1)]},  # begins before MPI_Init
        {"phases": [(0, 1000, 4000, 0), (1, 2000, 1500, 0)]},
        {"time": {(0, 0, 0): (1 << 60, 1)}},
        {"devices": [(0, b"", 1 << 60, 1)]},
    ],
)
def test_impossible_contents(change, tmp_path):
    with pytest.raises(InputError):
        read_record(sample(tmp_path, **({"events": ()} | change)))


def test_missing_and_unreadable(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_record(tmp_path / "nothing.tpsrec")
    with pytest.raises(InputError):
        read_record(tmp_path)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_damage_is_refused_or_harmless(tmp_path, data):
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


def check_bounds(record):
    assert 0 <= record.rank < record.world_size
    assert ((record.peer == OUTSIDE) | (record.peer < record.world_size)).all()
    assert (record.bytes >= 0).all()
    assert (record.messages >= 0).all()
    for communicator in record.communicators:
        if communicator.size < 1 << 16:
            ranks = communicator.ranks()
            assert len(ranks) == communicator.size
            assert all(OUTSIDE <= r < record.world_size for r in ranks)
    assert record.info.wall_s >= 0
    assert record.info.mpi_s >= 0


def test_threads_add_up(tmp_path):
    """A rank's segments sum to its record; the shared events and devices are numbered alike."""
    path = write_record(
        tmp_path,
        1,
        4,
        pairs=[(0, 0, 2, 100, 1)],
        devices=[(0, b"0000:41:00.0", 5, 1), (1, b"0000:42:00.0", 0, 0)],
        time={(0, 0, 0): (300, 3)},
        header={"lost_messages": 1},
        communicators=[(0, [(0, 1, 4)])],
        flags=int(Flag.CONCURRENT),
    )
    for thread in range(2):
        write_record(
            tmp_path,
            1,
            4,
            thread=thread,
            pairs=[(0, 0, 2, 10, 5), (0, 1, 3, 4, thread + 1)],
            events=[(0, 2, 0, 3, 10, 1)],
            devices=[(-1, b"", 7, 1), (-1, b"", thread, 1)],
            time={(0, 3, 1): (600, 1)},
            header={"lost_messages": 2},
            phases=[(0, 0, 0, 0)],
        )
    record = read_record(path)
    assert record is not None
    assert record_paths(tmp_path) == [path]
    rows = zip(record.device, record.peer, record.bytes, record.messages, strict=True)
    assert sorted(rows) == [(False, 2, 200, 11), (True, 3, 12, 3)]
    assert record.histogram.sum() == 14
    assert [(e.operation, e.communicator, e.calls) for e in record.events] == [("bcast", 0, 1)] * 2
    assert [(d.ordinal, d.pci_bus_id, d.bytes) for d in record.info.devices] == [
        (0, "0000:41:00.0", 19),
        (1, "0000:42:00.0", 1),
    ]
    shares = {(t.kind, t.space): (round(t.seconds, 9), t.calls) for t in record.info.time}
    assert shares == {
        (TimeKind.POINT_TO_POINT, MemorySpace.HOST): (3e-4, 3),
        (TimeKind.COMPLETION, MemorySpace.DEVICE): (1.2e-3, 2),
    }
    assert record.info.mpi_s == pytest.approx(1.5e-3)
    assert (record.calls, record.segments, record.lost_messages) == (5, 3, 5)


def test_a_stranger_among_the_threads(tmp_path):
    path = write_record(tmp_path, 1, 4, flags=int(Flag.CONCURRENT))
    other = write_record(tmp_path, 1, 8, thread=0)
    with pytest.raises(InputError, match="does not belong") as caught:
        read_record(path)
    assert str(other) in caught.value.message


def test_phases_by_mark(tmp_path):
    """Labels in order; a phase that was going on when the rank died ends with its last mark."""
    path = write_record(
        tmp_path,
        1,
        4,
        state=0,
        phases=[(0, 1000, 1500, 500), (7, 1500, 3000, 600), (2, 2000, 0, 0)],
        time={(0, 0, 0): (10, 1), (1, 0, 0): (20, 2), (2, 1, 0): (30, 3)},
        pairs=[(0, 0, 2, 8, 1, 0), (0, 0, 2, 8, 2, 1), (0, 0, 2, 8, 4, 2)],
        events=[(0, 2, 0, 3, 10, 1, 2)],
        communicators=[(0, [(0, 1, 4)])],
        header={"phase_mode": 1, "current_phase": 2, "entered_ticks": 3000},
    )
    record = read_record(path)
    assert record is not None
    assert [p.label for p in record.phases] == [0, 2, 7]
    stretches = [[round(v * 1e6) for v in (p.begin_s, p.end_s, p.active_s)] for p in record.phases]
    assert stretches == [[0, 500, 500], [1000, 3000, 1000], [500, 2000, 600]]
    assert [round(p.mpi_s * 1e6) for p in record.phases] == [10, 30, 20]
    assert dict(zip(record.phase.tolist(), record.messages.tolist(), strict=True)) == {
        0: 1,
        1: 4,
        2: 2,
    }
    assert [e.phase for e in record.events] == [1]
    assert record.calls == 6


def test_time_windows_have_the_borders_of_the_clock(tmp_path):
    path = write_record(
        tmp_path,
        0,
        1,
        phases=[(0, 1000, 2010, 1010), (2, 3005, 4000, 995)],
        header={"phase_mode": 2, "window_ns": 1_000_000, "current_phase": 1, "entered_ticks": 4000},
    )
    record = read_record(path)
    assert record is not None
    borders = [(p.label, round(p.begin_s * 1e3), round(p.end_s * 1e3)) for p in record.phases]
    assert borders == [(0, 0, 1), (2, 2, 3)]


def test_numbers_agree_with_the_c_header():
    text = LAYOUT.read_text(encoding="utf-8")
    operations = re.findall(r"X\((\d+), (\w+)\)", text)
    assert {int(number): name for number, name in operations} == OPERATIONS
    flags = re.findall(r"TPS_FLAG_(\w+) = (\d+)", text)
    assert {name: int(value) for name, value in flags} == {f.name: f.value for f in Flag}
    states = re.findall(r"TPS_STATE_(\w+) = (\d+)", text)
    assert {name: int(value) for name, value in states} == {s.name: s.value for s in State}
    times = re.findall(r"TPS_TIME_(\w+) = (\d)", text)
    assert {name: int(value) for name, value in times} == {
        kind.name: code for code, kind in enumerate(TIME_KINDS)
    }
    modes = re.findall(r"TPS_PHASES_(\w+) = (\d)\b", text)
    assert {name: int(value) for name, value in modes} == {m.name: m.value for m in PhaseMode}
    kinds = re.findall(r"TPS_((?:POINT|COLL|ONE)\w+) = (\d)", text)
    assert {name: int(value) for name, value in kinds} == {k.name: k.value for k in Kind}
