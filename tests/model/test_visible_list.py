"""The line to copy, by vendor."""

from __future__ import annotations

from dataclasses import replace

from toposeat.model.visible_list import visible_line
from toposeat.topology import read_topology


def test_nvidia_counts_by_pci_bus_id_and_not_by_index() -> None:
    devices = read_topology("dgx-1v").devices
    numbered = [replace(device, index=7 - at) for at, device in enumerate(devices)]
    line = visible_line(numbered, [numbered[3], numbered[1]])
    assert line == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3,1"


def test_without_bus_ids_the_index_is_all_there_is() -> None:
    devices = [replace(d, pci_bus_id=None) for d in read_topology("dgx-1v").devices]
    assert visible_line(devices, [devices[5]]).endswith("CUDA_VISIBLE_DEVICES=5")


def test_a_slice_goes_by_its_uuid() -> None:
    first = replace(read_topology("dgx-1v").devices[0], uuid="MIG-12")
    assert visible_line([first], [first]).endswith("CUDA_VISIBLE_DEVICES=MIG-12")


def test_other_vendors_have_other_variables() -> None:
    for name, start in (("mi60-8", "ROCR_VISIBLE_DEVICES="), ("max1100-2", "ZE_ENABLE_PCI_ID")):
        devices = read_topology(name).devices
        assert visible_line(devices, devices[:2]).startswith(start)
        assert visible_line(devices, devices[:2]).endswith("=0,1")
