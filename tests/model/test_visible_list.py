"""The line to copy, by vendor."""

from dataclasses import replace

from toposeat.model.visible_list import order_line, visible_line
from toposeat.topology import read_topology


def test_nvidia_counts_by_pci_bus_id_and_not_by_index():
    machine = read_topology("dgx-1v")
    numbered = [replace(device, index=7 - at) for at, device in enumerate(machine.devices)]
    line = visible_line(replace(machine, devices=tuple(numbered)), (3, 1))
    assert line == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3,1"


def test_without_bus_ids_the_index_is_all_there_is():
    machine = read_topology("dgx-1v")
    devices = tuple(replace(device, pci_bus_id=None) for device in machine.devices)
    assert visible_line(replace(machine, devices=devices), [5]).endswith("CUDA_VISIBLE_DEVICES=5")


def test_a_slice_goes_by_its_uuid():
    machine = read_topology("dgx-1v")
    first = replace(machine.devices[0], uuid="MIG-12")
    assert visible_line(replace(machine, devices=(first,)), [0]).endswith(
        "CUDA_VISIBLE_DEVICES=MIG-12"
    )


def test_other_vendors_have_other_variables():
    for name, start in (("mi60-8", "ROCR_VISIBLE_DEVICES="), ("max1100-2", "ZE_ENABLE_PCI_ID")):
        line = visible_line(read_topology(name), (0, 1))
        assert line.startswith(start)
        assert line.endswith("=0,1")


def test_a_placement_is_one_line_where_one_line_seats_it():
    bridged = read_topology("rtx-4-crossed-bridges")
    line = order_line(bridged, (3, 1, 2, 0))
    assert line == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3,1,2,0"
    assert order_line(bridged, (3, 3, 2, 0)) is None  # two ranks share a device
    assert order_line(read_topology("mi60-8"), (1, 0)) == "ROCR_VISIBLE_DEVICES=1,0"


def test_level_zero_chooses_and_does_not_order():
    tiles = read_topology("aurora-12")
    assert (order_line(tiles, (0, 3)) or "").endswith("ZE_AFFINITY_MASK=0,3")
    assert order_line(tiles, (3, 0)) is None


def test_nobody_knows_the_variable_of_an_unknown_vendor():
    assert order_line(read_topology("tree:2:2"), (1, 0, 2, 3)) is None


def test_hosts_share_a_line_only_with_the_same_order():
    node = read_topology("rtx-4-crossed-bridges")
    both = replace(
        node,
        devices=tuple(
            replace(device, id=f"{host}/{device.id}", host=host)
            for host in ("a", "b")
            for device in node.devices
        ),
        links=(),
        routes=(),
        components=(),
        nics=(),
    )
    assert (order_line(both, (2, 0, 6, 4)) or "").endswith("=2,0")
    assert order_line(both, (2, 0, 4, 6)) is None
