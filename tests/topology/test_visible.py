"""Devices that visibility variables leave to a process."""

from dataclasses import replace

import pytest

from toposeat import launch, mapping, topology
from toposeat.errors import UnavailableError
from toposeat.model.placement_file import format_placement, parse_placement
from toposeat.model.visible_list import order_line
from toposeat.topology import parse_topology, topology_text


@pytest.fixture
def node():
    machine = topology.read_topology("polaris-4")
    devices = tuple(replace(d, uuid=f"GPU-{d.index}aaa-bb") for d in machine.devices)
    return replace(machine, devices=devices)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("0,2", [0, 2]),
        ("3,1", [3, 1]),
        ("1,9,2", [1]),
        ("GPU-2aaa-bb,GPU-0", [2, 0]),
        ("MIG-4b", [0, 1, 2, 3]),
    ],
)
def test_a_list(node, text, left):
    seen = topology.visible_part(node, {"CUDA_VISIBLE_DEVICES": text})
    seen.check()
    assert [device.index for device in seen.devices] == left
    assert sorted([*left, *(device.index for device in seen.others)]) == [0, 1, 2, 3]


def test_what_a_list_leaves_out_is_said_once(node):
    seen = topology.visible_part(node, {"CUDA_VISIBLE_DEVICES": "3,1"})
    said = "CUDA_VISIBLE_DEVICES=3,1 leaves out D0, D2: no rank is placed there"
    assert topology.said_of_lists(seen) == (said,)
    assert topology.said_of_lists(node) == ()


@pytest.mark.parametrize(
    ("environment", "doubted"),
    [
        ({"CUDA_VISIBLE_DEVICES": "1,0,2,3"}, True),
        ({"CUDA_VISIBLE_DEVICES": "1,0,2,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, False),
        ({"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-0,GPU-2,GPU-3"}, False),
    ],
)
def test_cuda_counts_several_products_in_an_order_of_its_own(node, environment, doubted):
    first, *rest = node.devices
    mixed = replace(node, devices=(replace(first, name="NVIDIA RTX A2000"), *rest))
    said = topology.said_of_lists(topology.visible_part(mixed, environment))
    assert [("CUDA_DEVICE_ORDER" in line) for line in said] == [True] * doubted
    assert topology.said_of_lists(topology.visible_part(node, environment)) == ()


def test_other_vendors_and_no_list(node):
    assert topology.visible_part(node, {"ROCR_VISIBLE_DEVICES": "0"}) is node
    assert topology.visible_part(node, {}) is node


@pytest.mark.parametrize(
    ("source", "left"), [(None, 1), ("this", 1), ("p2p.txt -t this", 1), ("this.txt", 4), ("", 4)]
)
def test_a_list_is_of_this_machine(node, source, left):
    part = topology.part_of_job(node, source, {"CUDA_VISIBLE_DEVICES": "2"})
    assert len(part.devices) == left


@pytest.mark.parametrize("text", ["GPU-", "", "NoDevFiles"])
def test_a_list_that_leaves_nothing(node, text):
    with pytest.raises(UnavailableError, match="leave no GPU"):
        topology.visible_part(node, {"CUDA_VISIBLE_DEVICES": text})


@pytest.mark.parametrize(
    ("lists", "left", "line"),
    [
        ({"ROCR_VISIBLE_DEVICES": "5,1"}, [5, 1], "ROCR_VISIBLE_DEVICES=5,1"),
        (
            {"HIP_VISIBLE_DEVICES": "5,1"},
            [5, 1],
            "ROCR_VISIBLE_DEVICES=5,1 HIP_VISIBLE_DEVICES=0,1",
        ),
        (  # as schedulers write them
            {"ROCR_VISIBLE_DEVICES": "5,1", "HIP_VISIBLE_DEVICES": "5,1"},
            [5, 1],
            "ROCR_VISIBLE_DEVICES=5,1 HIP_VISIBLE_DEVICES=0,1",
        ),
        (  # one within the other
            {"ROCR_VISIBLE_DEVICES": "5,1,3", "HIP_VISIBLE_DEVICES": "2,0"},
            [3, 5],
            "ROCR_VISIBLE_DEVICES=3,5 HIP_VISIBLE_DEVICES=0,1",
        ),
    ],
)
def test_amd_has_lists_within_lists(lists, left, line):
    seen = topology.visible_part(topology.read_topology("mi60-8"), lists)
    assert [device.index for device in seen.devices] == left
    assert order_line(seen, range(2)) == line


def test_a_mask_of_intel_chooses_and_does_not_order():
    tiles = topology.read_topology("aurora-12")
    seen = topology.visible_part(tiles, {"ZE_AFFINITY_MASK": "7,2"})
    assert [device.index for device in seen.devices] == [2, 7]
    assert (order_line(seen, (0, 1)) or "").endswith("ZE_AFFINITY_MASK=2,7")
    assert topology.visible_part(tiles, {"ZE_AFFINITY_MASK": ""}) is tiles


def test_devices_of_others_are_counted_in_a_placement_and_shown_to_no_rank(node):
    seen = topology.visible_part(node, {"CUDA_VISIBLE_DEVICES": "3,1,2"})
    seats = mapping.seat_ranks(seen, 2, (0, 1))
    assert [device.index for device in seats.devices_of_host[seen.hosts[0]]] == [0, 1, 2, 3]
    again = parse_placement(format_placement(seats))
    assert launch.rank_environment(again, 0, "permute")["CUDA_VISIBLE_DEVICES"] == "3,1"
    assert launch.rank_environment(again, 1, "rotate")["CUDA_VISIBLE_DEVICES"] == "1,2,3"


def test_the_machine_of_a_job_comes_back_from_its_file(node):
    seen = topology.visible_part(node, {"CUDA_VISIBLE_DEVICES": "3,1"})
    again = parse_topology(topology_text(seen), "machine.json")
    assert (again.devices, again.others) == (seen.devices, seen.others)
