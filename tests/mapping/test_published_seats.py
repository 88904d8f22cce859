"""Machines of public threads: the CPUs and NIC of each device, and sets to choose of them."""

from pathlib import Path

import pytest

from tests.support.tables import rows
from toposeat.errors import InputError
from toposeat.mapping import choose_devices, seat_ranks
from toposeat.pipeline import open_machine
from toposeat.topology import read_topologies

SEATS = dict(rows(Path(__file__).with_name("published_seats.txt"), "seats"))


def machine_of(shared_dir, case):
    folder, _, files = case.partition("/")
    where = shared_dir / "cases/topology" / folder
    if not where.is_dir():
        pytest.skip(f"no {folder} among the cases of ../shared")
    return read_topologies([where / name for name in files.split()])


@pytest.mark.parametrize("case", SEATS)
def test_cpus_and_nics(case, shared_dir):
    machine = machine_of(shared_dir, case)
    ranks = len(machine.devices)
    seats = seat_ranks(machine, ranks, range(ranks))
    assert [f"{seat.cpus}@{seat.nic or '-'}" for seat in seats] == SEATS[case].split()


def test_tiles_of_two_sockets(shared_dir):
    seats = seat_ranks(machine_of(shared_dir, "53-intel-max-6/topo.txt"), 12, range(12)).seats
    assert [seats[at].cpus for at in (0, 5, 6, 11)] == [
        "0-8,104-112",
        "44-51,148-155",
        "52-60,156-164",
        "96-103,200-207",
    ]


@pytest.mark.parametrize("name", ["topo.txt", "hl-smi.txt"])
def test_another_maker_is_named(shared_dir, name):
    with pytest.raises(InputError, match=r"Habana's Gaudi\): not read") as caught:
        machine_of(shared_dir, f"71-gaudi-hl-smi/{name}")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("case", "count", "free", "taken"),
    [
        ("77-pix-phb-14-cores/topo.txt", 2, range(1, 4), {2, 3}),
        ("77-pix-phb-14-cores/topo.txt", 4, range(1, 8), {4, 5, 6, 7}),
        ("67-pix-fours-node/topo.txt list.txt", 4, range(2, 8), {4, 5, 6, 7}),
        ("49-p100-nic-on-second-socket/topo.txt", 4, range(8), {0, 1, 2, 3}),
    ],
)
def test_sets(case, count, free, taken, shared_dir):
    machine = machine_of(shared_dir, case)
    chosen = choose_devices(machine, count, free, machine=open_machine(machine))
    assert set(chosen.devices) == taken
