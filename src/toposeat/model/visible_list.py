"""The variables that give a process some GPUs of a node, in an order: one line to copy."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.topology import Device, Vendor

_VARIABLE = {Vendor.AMD: "ROCR_VISIBLE_DEVICES"}


def visible_line(present: Sequence[Device], chosen: Sequence[Device]) -> str:
    """`CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3,1`, or the same for other vendors.

    Args:
        present: all devices of the node.
        chosen: some of them, in the order in which local ranks are to see them.
    """
    words = ",".join(_number(present, device) for device in chosen)
    vendor = chosen[0].vendor
    if vendor is Vendor.INTEL:
        return f"ZE_ENABLE_PCI_ID_DEVICE_ORDER=1 ZE_AFFINITY_MASK={words}"
    if vendor in _VARIABLE:
        return f"{_VARIABLE[vendor]}={words}"
    return f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={words}"


def _number(present: Sequence[Device], device: Device) -> str:
    """The place by PCI bus id, which the runtimes count by; the UUID of a slice of a GPU."""
    if device.uuid is not None and device.uuid.startswith("MIG-"):
        return device.uuid
    alike = [other.pci_bus_id for other in present if other.vendor is device.vendor]
    if device.pci_bus_id is None or None in alike or len(set(alike)) < len(alike):
        return str(device.index)
    return str(sorted(map(str, alike)).index(device.pci_bus_id))
