"""The line of a job that borrows, and what its ranks' reports prove."""

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.tables import rows, variables
from toposeat.errors import UsageError
from toposeat.launch import hosts_of_ranks, parse_launch_line, seat_words, verified
from toposeat.model.lent import BorrowedDevice, BorrowedSeat, LentDevice, MeasuredWay
from toposeat.model.runs import SeatVerdict
from toposeat.model.topology import ANY_HOST

HERE = socket.gethostname()
LINES = Path(__file__).with_name("lines.txt")


@pytest.mark.parametrize(("kind", "line", "environment", "expected"), rows(LINES, "hosts"))
def test_ranks_are_expected_in_blocks_where_hosts_are_known(kind, line, environment, expected):
    parsed = parse_launch_line(line.split(), identify=lambda _: kind)
    expected = expected.replace("HERE", HERE).replace("*", ANY_HOST)
    assert hosts_of_ranks(parsed, variables(environment)) == tuple(expected.split())


def test_a_line_that_does_not_say_how_many_ranks_is_refused():
    parsed = parse_launch_line(["srun", "-N", "2", "./a"], identify=lambda _: "srun")
    with pytest.raises(UsageError, match="how many ranks"):
        hosts_of_ranks(parsed, {})


LENT = [
    LentDevice(id="a/0", host="a", index=0, name="x", kind="gpu", socket="/s", address="9.9.9.9:1"),
    LentDevice(id="b/0", host="b", index=3, name="y", kind="gpu", socket="/t"),
]


def seats(*rows):
    of = {device.id: device for device in LENT}
    return [
        BorrowedSeat(
            rank=rank,
            host=host,
            devices=tuple(
                BorrowedDevice(id=id, host=of[id].host, name=of[id].name) for id in ids.split()
            ),
        )
        for rank, (host, ids) in enumerate(rows)
    ]


def test_words_name_each_device_once_and_seats_in_rank_order():
    planned = seats(("a", "b/0"), ("a", "a/0 b/0"), ("c", "b/0"))
    assert seat_words(planned, LENT) == "b,/t,,3 a,/s,9.9.9.9:1,0|a=0;1+0 c=0"


def test_more_ranks_than_a_variable_holds_are_refused():
    with pytest.raises(UsageError, match="too many"):
        seat_words(seats(("a", "a/0"), ("b", "b/0")) * 40_000, LENT)


def report(folder, name, rank, *devices, **more):
    text = json.dumps({"devices": devices, "rank": rank, **more})
    (folder / f"cl.{name}.json").write_text(text)


UNIX = {"endpoint": "unix:/s#0", "index": 0, "name": "x", "host": "a", "calls": 9, "waits": 2}
SPEED = {
    "round_trip_s": 1e-5,
    "bandwidth_to_bytes_per_s": 2e9,
    "bandwidth_from_bytes_per_s": 1e9,
    "bytes_to": 5,
    "bytes_from": 7,
}


def test_a_rank_that_reached_its_device_is_as_planned(tmp_path):
    report(tmp_path, "a.1", "0", UNIX | SPEED, run_s=2.5)
    report(tmp_path, "a.2", "0", UNIX | SPEED)  # a child of the rank
    (seat,) = verified(seats(("a", "a/0")), LENT, tmp_path)
    assert (seat.verdict, seat.differences, seat.run_s) == (SeatVerdict.AS_PLACED, (), 2.5)
    (device,) = seat.devices
    assert device.measured == MeasuredWay(
        round_trip_s=1e-5, to_bytes_per_s=2e9, from_bytes_per_s=1e9
    )
    assert (device.use.bytes_to, device.use.bytes_from) == (10, 14)
    assert (device.use.calls, device.use.waits) == (18, 4)


def test_another_device_or_none_is_a_mismatch(tmp_path):
    report(tmp_path, "a.1", 0, {"endpoint": "unix:/t", "index": 3})
    report(tmp_path, "a.2", 1, {"endpoint": "tcp:9.9.9.9:1", "index": 0})
    report(tmp_path, "a.3", 2)
    wrong, right, none = verified(seats(*[("a", "a/0")] * 3), LENT, tmp_path)
    assert (wrong.verdict, right.verdict) == (SeatVerdict.MISMATCH, SeatVerdict.AS_PLACED)
    assert wrong.differences == ("got b/0 in place of a/0, which was not meant for it",)
    assert none.differences == ("could not reach a/0",)


def test_a_device_whose_proxy_ended_first_is_lost(tmp_path):
    report(tmp_path, "a.1", 0, UNIX | SPEED)  # a process that ended before
    report(tmp_path, "a.2", 0, UNIX | SPEED | {"lost": True})
    report(tmp_path, "a.3", 1, UNIX | SPEED)
    loser, other = verified(seats(("a", "a/0"), ("a", "a/0")), LENT, tmp_path)
    assert (loser.verdict, other.verdict) == (SeatVerdict.LOST, SeatVerdict.AS_PLACED)
    assert loser.differences == ("lost a/0: its proxy, or the way to it, ended before it did",)
    assert [loser.devices[0].is_lost, other.devices[0].is_lost] == [True, False]


def test_another_host_is_said(tmp_path):
    report(tmp_path, "n7.cluster.1", 0, UNIX)
    report(tmp_path, "n7.cluster.2", 1, UNIX)
    planned = seats(("a", "a/0"), (ANY_HOST, "a/0"))
    moved, anywhere = verified(planned, LENT, tmp_path)
    assert moved.differences == ("it ran on n7.cluster, where another device may be nearer",)
    assert (anywhere.verdict, anywhere.host) == (SeatVerdict.AS_PLACED, "n7.cluster")


def test_a_process_that_was_killed_before_it_measured_has_reached_its_device(tmp_path):
    report(tmp_path, "a.1", 0, UNIX | {"waits": -1})
    (seat,) = verified(seats(("a", "a/0")), LENT, tmp_path)
    assert seat.verdict is SeatVerdict.AS_PLACED
    (device,) = seat.devices
    assert (device.measured, device.use) == (None, None)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"devices": 3}', '{"devices": [{"index": 0}]}'])
def test_a_rank_without_a_whole_report_is_not_checked(tmp_path, text):
    (tmp_path / "cl.a.1.json").write_text(text)
    planned = seats(("a", "a/0"))
    (seat,) = verified(planned, LENT, tmp_path)
    assert seat.verdict is SeatVerdict.NOT_CHECKED
    assert replace(seat, verdict=None, differences=()) == planned[0]
