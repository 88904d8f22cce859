"""CPUs of ranks where memory nodes, sockets, cores and caches are told: `cases/layout.txt`."""

import pytest

from tests.topology.case_files import texts_of
from tests.topology.readers.recorded import machine_of
from toposeat.mapping import seat_ranks
from toposeat.topology import findings_of

CUT = "lists that a tool cut"


@pytest.mark.parametrize(
    ("case", "devices", "cpus"),
    [
        ("nodes of a socket are joined on its die", [0, 0, 0, 1, 2, 3],
         ["0-5,64-69", "6-10,70-74", "11-15,75-79"]),
        (CUT, range(4), [None] * 4),
        ("a list that a tool cut", range(4), [None] * 4),
        ("lists that a tool cut at a comma", range(4), [None] * 4),
        (f"{CUT}, completed by lscpu", range(4), ["0,2,4,6,16,18,20,22"]),
        ("a list that a tool cut, completed by lscpu", range(4), ["0,2,16,18"]),
        (f"{CUT} at a comma, completed by lscpu", range(4), ["0,2,4,6,16,18,20,22"]),
        ("short lists that are whole", range(4), ["6,14,22,30", "4,12,20,28"]),
    ],
)  # fmt: skip
def test_ranks_have_cores_of_their_own(case, devices, cpus, tmp_path):
    machine = machine_of(tmp_path, *texts_of("layout", case).values())
    seats = seat_ranks(machine, len(devices), devices).seats
    assert [seat.cpus for seat in seats[: len(cpus)]] == cpus


def test_a_cut_list_is_quoted(tmp_path):
    machine = machine_of(tmp_path, *texts_of("layout", CUT).values())
    (doubt,) = [f for f in findings_of(machine) if f.code == "cpus-cut"]
    assert "0,2,4,6,8,10" in doubt.detail
