"""The GPUs of a node that a process may use: the visibility variables that it inherited."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from toposeat.model.topology import Device, Topology, Vendor

_VARIABLES = {
    Vendor.NVIDIA: ("CUDA_VISIBLE_DEVICES",),
    Vendor.AMD: ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}


def without_devices(machine: Topology, gone: Set[str]) -> Topology:
    """The machine without some devices, by id, and without what was told of them."""
    return replace(
        machine,
        devices=tuple(d for d in machine.devices if d.id not in gone),
        links=tuple(x for x in machine.links if gone.isdisjoint(x.ends)),
        pairs=tuple(p for p in machine.pairs if gone.isdisjoint((p.source, p.target))),
        routes=tuple(r for r in machine.routes if gone.isdisjoint((r.source, r.target))),
    )


def visible_part(machine: Topology, environment: Mapping[str, str]) -> Topology:
    """The node with the devices that the first variable of their vendor leaves; others are hidden.

    A list is read as the vendor's runtime reads it: numbers or the beginnings of UUIDs, up to the
    first that is no device. A list of what is no whole device (MIG slices) is left to the runtime.
    """
    gone = set()
    for vendor, names in _VARIABLES.items():
        own = [device for device in machine.devices if device.vendor is vendor]
        text = next((environment[name] for name in names if name in environment), None)
        if text is not None and own and not text.startswith("MIG-"):
            left = _listed(text, own)
            gone |= {device.id for device in own if device.id not in left}
    if not gone:
        return machine
    hidden = (d.pci_bus_id for d in machine.devices if d.id in gone and d.pci_bus_id)
    return replace(
        without_devices(machine, frozenset(gone)),
        hidden=tuple(dict.fromkeys([*machine.hidden, *hidden])),
    )


def _listed(text: str, devices: list[Device]) -> set[str]:
    by_index = {str(device.index): device.id for device in devices}
    found: set[str] = set()
    for word in map(str.strip, text.split(",")):
        named = [d.id for d in devices if word and (d.uuid or "").lower().startswith(word.lower())]
        id = by_index.get(word) or (named[0] if len(named) == 1 else None)
        if id is None:
            break
        found.add(id)
    return found
