"""Verdicts from what ranks left behind: no claim without evidence."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.tables import rows, variables
from toposeat.launch import read_reports, verify
from toposeat.model.placement import Placement, Seat
from toposeat.model.runs import RealisedSeat, SeatVerdict, verdict_of_job

LINES = Path(__file__).with_name("lines.txt")
VERDICTS = Path(__file__).with_name("verdicts.txt")
PCI = ("0000:1a:00.0", "0000:3d:00.0")


def placement(**changes):
    values = {"cpus": "0-3", "memory_node": 0, "nic": "mlx5_0", **changes}
    seats = tuple(
        Seat(rank=i, local_rank=i, index=i, pci_bus_id=PCI[i], **values) for i in range(2)
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


PLACEMENTS = {
    "nvidia": placement(),
    "amd": replace(placement(), vendor="amd"),
    "no-pci": Placement(
        seats=(Seat(rank=0, local_rank=0, index=0),), devices_of_host={}, vendor="nvidia"
    ),
    "two-cpus": Placement(
        seats=(
            placement().seats[0],
            Seat(rank=1, local_rank=1, index=1, pci_bus_id=PCI[1], cpus="4-7", memory_node=1),
        ),
        devices_of_host={},
    ),
}


def changed(values, cell):
    """Values of a report with those of a cell; `name!` is one that goes."""
    gone = {word[:-1] for word in cell.split() if word.endswith("!")}
    told = " ".join(word for word in cell.split() if not word.endswith("!")) or "-"
    told = {name: text.replace(r"\s", " ") for name, text in variables(told).items()}
    return {name: text for name, text in {**values, **told}.items() if name not in gone}


@pytest.mark.parametrize(("place", "seat", "probe", "expected", "said"), rows(VERDICTS, "verdicts"))
def test_verdicts(*, tmp_path, place, seat, probe, expected, said):
    seat, probe, said = (
        re.sub(r"\bP([01])\b", lambda at: PCI[int(at[1])], x) for x in (seat, probe, said)
    )
    write(tmp_path / "rank-0.seat", "report", changed(SEAT, seat))
    if probe != "none":
        write(tmp_path / "rank-0-77.probe", "probe", changed(PROBE, probe))
    name, _, code = place.partition(" code=")
    found = verify(PLACEMENTS[name], read_reports(tmp_path), exit_code=int(code or 0))[0]
    used = {True: "used", False: "unused", None: "unknown"}[found.used_device]
    job = verdict_of_job([found])
    assert f"{found.verdict.value}, {used}, {job.value}" == expected
    assert "; ".join(found.differences) == ("" if said == "-" else said)
    assert used != "unused" or found.pci_bus_id is None


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


def test_one_verdict_for_the_job():
    seats = [RealisedSeat(rank=rank, verdict=SeatVerdict.AS_PLACED) for rank in range(2)]
    none = RealisedSeat(rank=2, used_device=False)
    unknown, wrong = RealisedSeat(rank=3), RealisedSeat(rank=4, verdict=SeatVerdict.MISMATCH)
    assert verdict_of_job([]) is None
    assert verdict_of_job([*seats, none]) is SeatVerdict.AS_PLACED
    assert verdict_of_job([*seats, none, unknown]) is SeatVerdict.NOT_CHECKED
    assert verdict_of_job([*seats, none, unknown, wrong]) is SeatVerdict.MISMATCH


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
