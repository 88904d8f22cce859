"""The variables that give a process some GPUs of a node, in an order: one line to copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toposeat.model.few import few
from toposeat.model.topology import Device, Topology, Vendor

# By vendor the variables that list devices. AMD's later ones count within ROCR's, of which all
# runtimes see the rest; schedulers write one absolute list into all of them.
VARIABLES_OF_VENDOR: Mapping[Vendor, tuple[str, ...]] = {
    Vendor.NVIDIA: ("CUDA_VISIBLE_DEVICES",),
    Vendor.AMD: (
        *("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
        "CUDA_VISIBLE_DEVICES",
    ),
    Vendor.INTEL: ("ZE_AFFINITY_MASK",),
}
DEVICE_VARIABLES = tuple(dict.fromkeys(n for own in VARIABLES_OF_VENDOR.values() for n in own))
# Metadata of a machine: the variables that count within AMD's first list and are set, by words.
SECOND_LISTS = "second lists"
_BENCHMARKS = ("p2pBandwidthLatencyTest", "nvbandwidth")  # origins that number as CUDA does
_BY_PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
# Level Zero lists devices in its own order, whatever the order of its mask (specification, section
# on ZE_AFFINITY_MASK): the variable can choose devices, not order them.
_LEVEL_ZERO = {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}


def ordering_variable(vendor: str) -> str | None:
    """The variable that orders the devices of a vendor; None where none does."""
    ordered = vendor in (Vendor.NVIDIA, Vendor.AMD)
    return VARIABLES_OF_VENDOR[Vendor(vendor)][0] if ordered else None


def visible_variables(vendor: str, numbers: Sequence[str]) -> dict[str, str]:
    """What shows a process these devices; empty for a vendor without such a variable.

    Args:
        vendor: one of `Vendor`.
        numbers: places by PCI bus id, or UUIDs of slices, in the order of local ranks. Intel's
            variable does not keep the order (`keeps_order`).
    """
    listed = ",".join(numbers)
    if vendor == Vendor.INTEL:
        return {**_LEVEL_ZERO, "ZE_AFFINITY_MASK": listed}
    variable = ordering_variable(vendor)
    if variable is None:
        return {}
    return {**(_BY_PCI if vendor == Vendor.NVIDIA else {}), variable: listed}


def keeps_order(vendor: str, numbers: Sequence[str]) -> bool:
    """Whether the variables of a vendor make local rank i see the i-th of `numbers`."""
    if ordering_variable(vendor) is not None:
        return True
    return vendor == Vendor.INTEL and list(numbers) == sorted(numbers, key=int)


def visible_line(machine: Topology, chosen: Sequence[int]) -> str:
    """`CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3,1`, or the same for other vendors.

    Args:
        machine: one node.
        chosen: positions of devices, in the order in which local ranks are to see them. Where
            nobody tells their vendor, the line is that for NVIDIA.
    """
    present = (*machine.devices, *machine.others)
    vendor = machine.devices[chosen[0]].vendor
    numbers = [visible_number(present, machine.devices[at]) for at in chosen]
    known = Vendor.NVIDIA if vendor is Vendor.UNKNOWN else vendor
    return _line(machine, visible_variables(known, numbers), len(chosen))


def numbering_note(machine: Topology) -> str:
    """Which number a list has for each device that its source numbers otherwise; "" for none."""
    numbers = {d.number: visible_number(machine.devices, d) for d in machine.devices}
    moved = [f"D{own} is {listed}" for own, listed in numbers.items() if str(own) != listed]
    if not moved or not machine.origin.startswith(_BENCHMARKS):
        return ""
    return f"Numbers D0, D1, ... are CUDA's in this table; lists count by PCI bus id: {few(moved)}"


def order_line(topology: Topology, device_of_rank: Sequence[int]) -> str | None:
    """The line that seats local rank i of every host on its device.

    Returns:
        None where no line does it: ranks share a device, hosts have different orders, devices are
        of several vendors, or of one that has no variable for this order.
    """
    seats: dict[str, list[Device]] = {}
    for position in device_of_rank:
        device = topology.devices[position]
        seats.setdefault(device.host, []).append(device)
    present: dict[str, list[Device]] = {host: [] for host in seats}
    for device in (*topology.devices, *topology.others):
        if device.host in present:
            present[device.host].append(device)
    orders = {
        tuple(visible_number(present[host], device) for device in chosen)
        for host, chosen in seats.items()
    }
    vendors = {device.vendor for chosen in seats.values() for device in chosen}
    if len(orders) != 1 or len(vendors) != 1 or len(set(device_of_rank)) < len(device_of_rank):
        return None
    (numbers,), (vendor,) = orders, vendors
    if not keeps_order(vendor, numbers):
        return None
    return _line(topology, visible_variables(vendor, numbers), len(numbers))


def _line(machine: Topology, variables: Mapping[str, str], count: int) -> str:
    """Variables as a shell takes them; lists within the first one then name all that it leaves."""
    every = ",".join(map(str, range(count)))
    second = dict.fromkeys(machine.metadata.get(SECOND_LISTS, "").split(), every)
    return " ".join(f"{name}={value}" for name, value in ({**variables, **second}).items())


def visible_number(present: Sequence[Device], device: Device) -> str:
    """What a list calls a device: the place by PCI bus id, which the runtimes count by.

    A slice of a GPU goes by its UUID.
    """
    if device.uuid is not None and device.uuid.startswith("MIG-"):
        return device.uuid
    alike = [other.pci_bus_id for other in present if other.vendor is device.vendor]
    if device.pci_bus_id is None or None in alike or len(set(alike)) < len(alike):
        return str(device.index)
    return str(sorted(map(str, alike)).index(device.pci_bus_id))
