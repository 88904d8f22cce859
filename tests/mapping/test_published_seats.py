"""Machines of public threads: the CPUs and NIC of each device, and sets to choose of them."""

import pytest

from toposeat.errors import InputError
from toposeat.mapping import choose_devices, seat_ranks
from toposeat.pipeline.placing import open_machine
from toposeat.topology import read_topologies

# Files, then by device: its CPUs where every device has a rank, and its NIC.
SEATS = {
    "45-a100-4-nics-at-two-gpus/topo.txt list.txt": [
        ("16-31,80-95", "mlx5_0"),
        ("0-15,64-79", "mlx5_0"),
        ("48-63,112-127", "mlx5_1"),
        ("32-47,96-111", "mlx5_1"),
    ],
    "61-b200-numa-0-2-3-5/topo.txt list.txt": [
        ("0-9,120-129", None),
        ("10-19,130-139", None),
        ("40-49,160-169", None),
        ("50-59,170-179", None),
        ("60-69,180-189", None),
        ("70-79,190-199", None),
        ("100-109,220-229", None),
        ("110-119,230-239", None),
    ],
    "63-eleven-nics/topo.txt": [
        ("0-11,96-107", "mlx5_0"),
        ("12-23,108-119", "mlx5_1"),
        ("24-35,120-131", "mlx5_2"),
        ("36-47,132-143", "mlx5_4"),
        ("48-59,144-155", "mlx5_5"),
        ("60-71,156-167", "mlx5_6"),
        ("72-83,168-179", "mlx5_7"),
        ("84-95,180-191", "mlx5_11"),
    ],
    "75-gb200-numa-lists/topo.txt list.txt": [
        ("0-35", "mlx5_0"),
        ("36-71", "mlx5_1"),
        ("72-107", "mlx5_2"),
        ("108-143", "mlx5_3"),
    ],
    "77-pix-phb-14-cores/topo.txt": [  # 14 cores of four ranks: no two on the threads of one
        ("0-3,28-31", None),
        ("4-7,32-35", None),
        ("8-10,36-38", None),
        ("11-13,39-41", None),
        ("14-17,42-45", None),
        ("18-21,46-49", None),
        ("22-24,50-52", None),
        ("25-27,53-55", None),
    ],
}


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
    found = [(seat.cpus, seat.nic) for seat in seat_ranks(machine, ranks, range(ranks))]
    assert found == SEATS[case]


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
