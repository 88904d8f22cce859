"""Verdicts from what ranks left behind: no claim without evidence."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.tables import rows
from toposeat.launch import read_reports, verify
from toposeat.model.placement import Placement, Seat
from toposeat.model.runs import RealisedSeat, SeatVerdict, verdict_of_job

LINES = Path(__file__).with_name("lines.txt")
PCI = ("0000:1a:00.0", "0000:3d:00.0")


def placement(**changes):
    values = {"cpus": "0-3", "memory_node": 0, "nic": "mlx5_0", **changes}
    seats = tuple(
        Seat(rank=i, local_rank=i, index=i, pci_bus_id=PCI[i], **values)  # type: ignore[arg-type]
        for i in range(2)
    )
    return Placement(seats=seats, devices_of_host={}, vendor="nvidia")


SEAT = {
    "rank": "0",
    "local_rank": "0",
    "seated": "yes",
    "visibility": "permute",
    "visible_devices": "0,1",
    "nearby_rank": "0",
    "nic": "UCX_NET_DEVICES=mlx5_0:1",
    "host": "n1",
    "pid": "77",
    "cpus": "0-3",
    "memory_policy": "preferred:0",
}
PROBE = {
    "rank": "0",
    "pid": "77",
    "when": "MPI_Finalize",
    "cpus": "0-3",
    "memory_policy": "preferred:0",
    "cuda": "asked",
    "cuda_devices": "00000000:1A:00.0",
}


def mpich(folder, segments, **probe):
    """The verdicts on two ranks of one node that had these segments of shared memory."""
    for rank, own in segments.items():
        seat = {**SEAT, "rank": str(rank), "nearby_rank": str(rank)}
        write(folder / f"rank-{rank}.seat", "report", seat)
        values = {**PROBE, "rank": str(rank), "cuda_devices": PCI[rank], "mpi": "MPICH Version: 5"}
        more = [("mpich_segment", segment) for segment in own]
        write(folder / f"rank-{rank}-77.probe", "probe", {**values, **probe}, *more)
    return list(verify(placement(), read_reports(folder)))


@pytest.mark.parametrize("segments", [("0:1",), ("0:9", "0:1")])
def test_neighbours_that_share_memory_are_as_placed(tmp_path, segments):
    found = mpich(tmp_path, {0: segments, 1: ("0:1", "0:7")})
    assert [each.verdict for each in found] == [SeatVerdict.AS_PLACED] * 2


@pytest.mark.parametrize("other", [(), ("0:2",)])
def test_neighbours_that_share_none_are_a_mismatch(tmp_path, other):
    found = mpich(tmp_path, {0: ("0:1",), 1: other})
    assert [each.verdict for each in found] == [SeatVerdict.MISMATCH] * 2
    assert found[0].differences[0].startswith("MPICH shares memory with 0 of the 1 other ranks")


@pytest.mark.parametrize("probe", [{"mpi": "Open MPI v5.0.11"}, {"when": "exit"}])
def test_where_nothing_shows_neighbours_nothing_is_said(tmp_path, probe):
    found = mpich(tmp_path, {0: (), 1: ()}, **probe)
    assert [each.verdict for each in found] == [SeatVerdict.AS_PLACED] * 2


def write(path, schema, values, *more):
    rows = [*values.items(), *more]
    path.write_text(f"# toposeat/{schema}/1\n" + "".join(f"{k}\t{v}\n" for k, v in rows))


def first(folder, seat=None, probe=None, *more, place=None):
    """The verdict on rank 0."""
    if seat is not None:
        write(folder / "rank-0.seat", "report", {**SEAT, **seat}, *more)
    if probe is not None:
        write(folder / "rank-0-77.probe", "probe", {**PROBE, **probe})
    return verify(place or placement(), read_reports(folder))[0]


def test_with_proof_of_everything_a_rank_is_as_placed(tmp_path):
    found = first(tmp_path, {}, {})
    assert (found.verdict, found.differences) == (SeatVerdict.AS_PLACED, ())
    assert (found.host, found.local_rank, found.pid) == ("n1", 0, 77)
    assert (found.pci_bus_id, found.visible_devices) == (PCI[0], "0,1")
    assert (found.cpus, found.memory_policy) == ("0-3", "preferred:0")
    assert found.nic == "UCX_NET_DEVICES=mlx5_0:1"


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        (None, "left no report"),
        ({"cuda": "not loaded", "cuda_devices": ""}, "loaded no CUDA driver"),
        ({"cuda": "not initialised", "cuda_devices": ""}, "did not initialise"),
        ({"cuda": "already shut down", "cuda_devices": ""}, "had shut down"),
        ({"cuda": "error 999", "cuda_devices": ""}, "CUDA driver: error 999"),
        ({"cuda_devices": ""}, "made no context on any device"),
        ({"cuda_devices": "nonsense"}, "made no context on any device"),
    ],
)
def test_without_evidence_of_the_device_nothing_is_claimed(tmp_path, probe, why):
    found = first(tmp_path, {}, probe)
    assert found.verdict is SeatVerdict.NOT_CHECKED
    assert found.pci_bus_id is None
    assert len(found.differences) == 1
    assert found.differences[0].startswith("not checked: device (")
    assert why in found.differences[0]


@pytest.mark.parametrize(
    ("seat", "probe", "cause"),
    [
        ({}, {"cuda_devices": PCI[1]}, f"used device {PCI[1]}, placed on {PCI[0]}"),
        ({}, {"cpus": "0-7"}, "runs on CPUs 0-7, is placed on 0-3; it was bound to 0-3 and later"),
        ({"cpus": "4"}, {"cpus": "4"}, "runs on CPUs 4, is placed on 0-3"),
        ({}, {"memory_policy": "default"}, "memory policy is default, is placed on NUMA node 0"),
        ({"nic": "UCX_NET_DEVICES=mlx5_7:1"}, {}, "placed on mlx5_0"),
        ({"seated": "no"}, {}, "started without placement"),
        ({"warning": "cannot bind"}, {}, "cannot bind"),
    ],
)
def test_what_differs_is_a_mismatch_in_words(tmp_path, seat, probe, cause):
    found = first(tmp_path, seat, probe)
    assert found.verdict is SeatVerdict.MISMATCH
    assert any(cause in each for each in found.differences)


@pytest.mark.parametrize(("nic", "given", "said"), rows(LINES, "nics"))
def test_what_variables_say_of_a_nic_is_read_back(tmp_path, nic, given, said):
    """Against the rules that the libraries document."""
    seat = {**SEAT, "local_rank": "3"}
    del seat["nic"]
    told = [("nic", text) for text in given.split(" & ")]
    write(tmp_path / "rank-0.seat", "report", seat, *told)
    found = first(tmp_path, None, {}, place=placement(nic=nic))
    name = nic.partition(":")[0]
    expected = {
        "named": [],
        "unnamed": [f"not checked: NIC {name} (no variable points libraries at it)"],
    }.get(said, [f"NIC variables {said}, placed on {name}"])
    assert [each for each in found.differences if "NIC" in each] == expected


@pytest.mark.parametrize(
    ("seat", "listed", "cause"),
    [
        ("0,1", "0,1", "the program took another one of its list"),
        ("0,1", "1", "changed its device list (CUDA_VISIBLE_DEVICES=1; it was given 0,1)"),
        ("0,1", None, "removed its device list (CUDA_VISIBLE_DEVICES; it was given 0,1)"),
        (None, "1", "changed its device list (CUDA_VISIBLE_DEVICES=1; it was given none)"),
    ],
)
def test_who_chose_another_device_is_said(tmp_path, seat, listed, cause):
    values = {**SEAT, "visible_variable": "CUDA_VISIBLE_DEVICES", "visible_devices": seat}
    told = {name: value for name, value in values.items() if value is not None}
    write(tmp_path / "rank-0.seat", "report", told)
    lists = {"list": f"CUDA_VISIBLE_DEVICES={listed}"} if listed else {}
    found = first(tmp_path, None, {"cuda_devices": PCI[1], **lists})
    assert found.differences[0].endswith(cause)
    assert found.used_device


@pytest.mark.parametrize(
    ("probe", "vendor", "used"),
    [
        ({"cuda": "not loaded"}, "nvidia", False),
        ({"cuda": "not initialised"}, "nvidia", False),
        ({"cuda": "not loaded", "driver": "libamdhip64.so"}, "nvidia", False),
        ({"cuda": "not loaded"}, "amd", False),
        ({"cuda": "not loaded", "driver": "libamdhip64.so"}, "amd", None),
        ({"cuda": "asked"}, "nvidia", None),
        ({"cuda": "already shut down"}, "nvidia", None),
        ({"cuda": "not loaded", "child": "killed"}, "nvidia", None),
        ({"cuda": "not loaded", "pid": "78"}, "nvidia", None),
    ],
)
def test_only_a_rank_that_surely_used_no_device_needs_no_proof(tmp_path, probe, vendor, used):
    place = replace(placement(), vendor=vendor)
    found = first(tmp_path, {}, {"cuda_devices": "", **probe}, place=place)
    assert (found.verdict, found.used_device) == (SeatVerdict.NOT_CHECKED, used)
    verdict = verdict_of_job([found])
    assert verdict is (SeatVerdict.NOT_CHECKED if used is None else SeatVerdict.AS_PLACED)


@pytest.mark.parametrize(
    ("seat", "code", "why"),
    [
        ({}, 0, "LD_PRELOAD was taken from the program"),
        ({}, 137, "the rank was killed, or ended abruptly (the job ended with code 137)"),
        ({"linkage": "static"}, 0, "the program is linked statically"),
    ],
)
def test_why_there_is_no_probe_is_said(tmp_path, seat, code, why):
    write(tmp_path / "rank-0.seat", "report", {**SEAT, **seat})
    found = verify(placement(), read_reports(tmp_path), exit_code=code)[0]
    assert why in found.differences[0]
    assert found.used_device is None


def test_one_verdict_for_the_job():
    seats = [RealisedSeat(rank=rank, verdict=SeatVerdict.AS_PLACED) for rank in range(2)]
    none = RealisedSeat(rank=2, used_device=False)
    unknown, wrong = RealisedSeat(rank=3), RealisedSeat(rank=4, verdict=SeatVerdict.MISMATCH)
    assert verdict_of_job([]) is None
    assert verdict_of_job([*seats, none]) is SeatVerdict.AS_PLACED
    assert verdict_of_job([*seats, none, unknown]) is SeatVerdict.NOT_CHECKED
    assert verdict_of_job([*seats, none, unknown, wrong]) is SeatVerdict.MISMATCH


def test_fewer_cpus_than_placed_and_a_second_context_are_remarks(tmp_path):
    found = first(tmp_path, {}, {"cpus": "2", "cuda_devices": f"{PCI[0]},{PCI[1]}"})
    assert found.verdict is SeatVerdict.AS_PLACED
    assert found.differences == ("runs on CPUs 2 of 0-3", f"also has a context on {PCI[1]}")


def test_cpu_only_is_held_against_the_seat_of_the_device_that_is_used(tmp_path):
    seats = placement().seats
    other = Seat(rank=1, local_rank=1, index=1, pci_bus_id=PCI[1], cpus="4-7", memory_node=1)
    place = Placement(seats=(seats[0], other), devices_of_host={})
    seat = {"nearby_rank": "1", "cpus": "4-7", "memory_policy": "preferred:1"}
    found = first(tmp_path, seat, {"cpus": "4-7", "memory_policy": "preferred:1"}, place=place)
    assert found.verdict is SeatVerdict.AS_PLACED


def test_a_placement_without_pci_bus_ids_cannot_be_proved(tmp_path):
    place = Placement(
        seats=(Seat(rank=0, local_rank=0, index=0),), devices_of_host={}, vendor="nvidia"
    )
    found = first(tmp_path, {}, {}, place=place)
    assert found.verdict is SeatVerdict.NOT_CHECKED
    assert "does not know its PCI bus id" in found.differences[0]


def test_no_report_at_all_is_not_checked_and_a_missing_one_a_mismatch(tmp_path):
    nothing = verify(placement(), read_reports(tmp_path))
    assert [each.verdict for each in nothing] == [SeatVerdict.NOT_CHECKED] * 2
    assert "its report did not come here" in nothing[0].differences[0]
    write(tmp_path / "rank-0.seat", "report", SEAT)
    missing = verify(placement(), read_reports(tmp_path))[1]
    assert missing.verdict is SeatVerdict.MISMATCH
    assert "this rank left no report, others did" in missing.differences[0]


def test_the_probe_at_finalize_counts_before_one_at_exit(tmp_path):
    write(tmp_path / "rank-0.seat", "report", SEAT)
    write(tmp_path / "rank-0-1.probe", "probe", PROBE)
    write(tmp_path / "rank-0-2.probe", "probe", {**PROBE, "when": "exit", "cpus": "9"})
    assert verify(placement(), read_reports(tmp_path))[0].cpus == "0-3"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"# toposeat/report/9\nrank\t0\n",
        b"# toposeat/report/1\nrank\t0",
        b"# toposeat/report/1\nrank 0\n",
        b"# toposeat/report/1\nrank\t-1\n",
        b"# toposeat/report/1\nrank\t1e3\n",
        b"# toposeat/report/1\n" + b"x\ty\n" * 300_000,
        b"\xff\xfe\x00",
    ],
)
def test_damaged_reports_are_named_not_trusted(tmp_path, content):
    (tmp_path / "rank-0.seat").write_bytes(content)
    (tmp_path / ".rank-1.seat.123").write_bytes(b"half")
    found = read_reports(tmp_path)
    assert found.unreadable == ("rank-0.seat",)
    assert found.ranks == {}


def test_escapes_are_undone(tmp_path):
    write(tmp_path / "rank-0.seat", "report", {**SEAT, "warning": r"a\x09b\\x0a"})
    assert read_reports(tmp_path).ranks[0].value("warning") == "a\tb\\x0a"


def test_the_ranks_own_probe_counts_most(tmp_path):
    """Not that of an MPI program it started, whatever their process ids."""
    for pid, cpus in (("76", "9"), ("77", "0-3"), ("78", "9")):
        write(tmp_path / f"rank-0-{pid}.probe", "probe", {**PROBE, "pid": pid, "cpus": cpus})
    found = first(tmp_path, {})
    assert (found.verdict, found.cpus) == (SeatVerdict.AS_PLACED, "0-3")
