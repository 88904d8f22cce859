"""Worlds beside MPI_COMM_WORLD, from records written byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profile.records.records import write_record
from toposeat.errors import InputError
from toposeat.model.traffic import TrafficKind
from toposeat.profile import read_records

OUTSIDE = 0x7FFFFFFF
SPAWNED, PARENT, CONNECTED, JOINED = 1, 2, 3, 4


def test_ranks_agree_by_the_key(tmp_path: Path) -> None:
    """Rank 0 met world A first, rank 1 world B; B is one world for both."""
    a, b = (11, SPAWNED, 4, b"./a"), (13, CONNECTED, 2, b"")
    pairs = [(0, 0, OUTSIDE - 1, 8, 3), (3, 0, OUTSIDE - 2, 5, 1), (0, 0, 1, 100, 1)]
    write_record(tmp_path, 0, 2, pairs=pairs, worlds=[a, b])
    write_record(tmp_path, 1, 2, pairs=[(0, 0, OUTSIDE - 1, 16, 2)], worlds=[b])
    traffic = read_records(tmp_path)
    assert traffic.table(kind=TrafficKind.POINT_TO_POINT).dense_bytes(2).tolist() == [
        [0, 100],
        [0, 0],
    ]
    first, second = traffic.worlds
    assert (first.name, first.ranks, first.parent) == ("spawned: ./a", 4, 0)
    assert (second.name, second.ranks, second.parent) == ("connected", 2, None)
    assert [(f.rank, f.bytes, f.messages, f.inbound) for f in first.flows] == [(0, 24, 3, False)]
    assert [(f.rank, f.kind, f.bytes, f.messages, f.inbound) for f in second.flows] == [
        (0, TrafficKind.ONE_SIDED, 5, 1, True),
        (1, TrafficKind.POINT_TO_POINT, 32, 2, False),
    ]


def test_a_spawned_world_that_left_records(tmp_path: Path) -> None:
    """Of several, the one of its size."""
    worlds = [(11, SPAWNED, 2, b"./a"), (13, SPAWNED, 3, b"./b")]
    pairs = [(0, 0, OUTSIDE - 1, 8, 3), (0, 0, OUTSIDE - 2, 5, 1)]
    write_record(tmp_path, 0, 1, pairs=pairs, worlds=worlds)
    for rank in range(2):
        peers = [(0, 0, 1 - rank, 9, 1)]
        write_record(tmp_path, rank, 2, pid=7, world=b"job-2", flags=1, pairs=peers)
    first, second = read_records(tmp_path).worlds
    assert (first.name, first.ranks, first.parent) == ("spawned: ./a", 2, 0)
    assert [(f.bytes, f.messages) for f in first.flows] == [(24, 3)]
    assert sum(table.bytes.sum() for table in first.tables.values()) == 18
    assert (second.name, second.ranks, second.parent) == ("spawned: ./b", 3, 0)
    assert [(f.bytes, f.messages) for f in second.flows] == [(5, 1)]


def test_spawned_worlds_know_the_key_of_their_call(tmp_path: Path) -> None:
    """Two of one size and one name of the job, the second of which spawned a third."""
    met = [(11, SPAWNED, 1, b"./a"), (13, SPAWNED, 1, b"./b")]
    pairs = [(0, 0, OUTSIDE - 1, 8, 3), (0, 0, OUTSIDE - 2, 5, 1)]
    write_record(tmp_path, 0, 1, pairs=pairs, worlds=met)
    for pid, key, more in ((7, 13, [(17, SPAWNED, 1, b"./c")]), (8, 11, []), (9, 17, [])):
        own = [(key, PARENT, 1, b""), *more]
        write_record(tmp_path, 0, 1, pid=pid, world=b"job", flags=1, worlds=own)
    worlds = read_records(tmp_path).worlds
    assert [(w.id, w.name, w.parent) for w in worlds] == [
        (1, "spawned: ./b", 0),
        (2, "spawned: ./a", 0),
        (3, "spawned: ./c", 1),
    ]
    assert [[f.bytes for f in w.flows] for w in worlds] == [[5], [24], []]


def test_worlds_that_nobody_talked_to_are_there(tmp_path: Path) -> None:
    write_record(tmp_path, 0, 1, worlds=[(7, SPAWNED, 3, b"quiet")])
    traffic = read_records(tmp_path)
    (world,) = traffic.worlds
    assert (world.name, world.flows) == ("spawned: quiet", ())
    assert "world 1, which was spawned, left no records" in "".join(traffic.report)


def test_members_of_other_worlds(tmp_path: Path) -> None:
    members = [(0, 1, 2), (-2, 0, 3)]
    write_record(
        tmp_path, 0, 2, communicators=[(0, members)], worlds=[(7, JOINED, 3, b"")], pairs=()
    )
    (communicator,) = read_records(tmp_path).communicators
    assert communicator.ranks == (0, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pairs": [(0, 0, OUTSIDE - 2, 8, 3)]}, "unknown kind, rank or phase"),
        ({"communicators": [(0, [(-3, 0, 1)])]}, "beyond the world"),
        ({"worlds": [(1, 9, 1, b"")]}, "9 is not a valid WorldOrigin"),
        ({"worlds": [(1, 1, 0, b"")]}, "0 processes"),
        ({"header": {"worlds_used": 99}}, "99 of 8 worlds"),
    ],
)
def test_damaged_worlds(tmp_path: Path, change: dict[str, object], words: str) -> None:
    write_record(tmp_path, 0, 2, **{"worlds": [(1, SPAWNED, 1, b"")], **change})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words):
        read_records(tmp_path)
