"""Merges the fields of devices: each is from the most trusted source that states it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.topology import Device, PcieState, Vendor
from toposeat.topology import products

# What NCCL and RCCL know of a product: its instruction set.
_NO_NAME = re.compile(r"(sm_\d+|gfx[0-9a-f]+)?", re.ASCII)
_PCIE = {
    f"pcie_{member}": member for member in ("generation", "width", "max_generation", "max_width")
}
_FIELDS = (
    *("index", "vendor", "pci_bus_id", "uuid", "numa_node", "cpus", "memory_bytes", "forwards"),
    *("inactive_lanes", "parent", "copy_bytes_per_s", "copy_latency_s", *_PCIE),
)
# Idle links slow down; tools name parents and round sizes in their own way.
_VARIED = {
    *("pcie_generation", "parent", "memory_bytes", "inactive_lanes"),
    *("copy_bytes_per_s", "copy_latency_s"),
}
_WORDS = {
    "name": "the name",
    "index": "the index",
    "pci_bus_id": "the PCI bus id",
    "uuid": "the UUID",
    "numa_node": "the NUMA node",
    "forwards": "relaying",
    "cpus": "the near CPUs",
    "pcie_width": "the PCIe width",
    "pcie_max_generation": "the greatest PCIe generation",
    "pcie_max_width": "the greatest PCIe width",
}
_SHOWN = 3  # devices named in one sentence

Told = tuple[str, Device]  # the origin of a source, and a device as it tells of it
Apart = dict[tuple[str, str, str], list[str]]  # cases by field, source believed, and the other


def _value(device: Device, field: str) -> object:
    """What a source states; None for what it does not."""
    if field in _PCIE:
        return None if device.pcie is None else getattr(device.pcie, _PCIE[field])
    value = getattr(device, field)
    return None if value in (Vendor.UNKNOWN, "") else value


def merged_device(told: Sequence[Told], label: str, apart: Apart) -> Device:
    """One device from all that sources tell of it, the most trusted first, which names its host.

    `label` is what sentences call it, `apart` takes what sources disagree on.
    """
    first = told[0][1]
    named = next((t for t in told if not _NO_NAME.fullmatch(t[1].name)), told[0])
    values: dict[str, Any] = {"name": named[1].name}
    tellers = {"name": named} if named[1].name else {}
    lanes = [(o, d.name, lane) for o, d in told if (lane := products.lane_named(d.name))]
    for origin, name, lane in lanes[1:]:  # one product has many spellings, but one kind of link
        if lane is not lanes[0][2]:
            _note(apart, "name", label, lanes[0][:2], (origin, name))
    for field in _FIELDS:
        stated = [(o, d, value) for o, d in told if (value := _value(d, field)) is not None]
        if not stated:
            continue
        values[field] = stated[0][2]
        if not field.startswith("copy"):  # a number that carries its own source
            tellers[field] = stated[0][:2]
        for origin, _, value in stated[1:]:
            if _disagree(field, stated[0][2], value):
                _note(apart, field, label, (stated[0][0], stated[0][2]), (origin, value))
    state = {member: values.pop(field) for field, member in _PCIE.items() if field in values}
    told_by = {
        field: (d.told_by or {}).get(field, origin) for field, (origin, d) in tellers.items()
    }
    return replace(
        first,
        pcie=PcieState(**state) if state else None,
        told_by=told_by if len({origin for origin, _ in told}) > 1 else first.told_by,
        **values,
    )


def _disagree(field: str, taken: object, other: object) -> bool:
    if field == "cpus":  # a job's mask shows some of the near CPUs
        mine, theirs = (set(parse_cpu_list(str(text))) for text in (taken, other))
        return not (mine <= theirs or theirs <= mine)
    if field == "uuid":
        return str(taken).lower() != str(other).lower()
    return field not in _VARIED and taken != other


def _note(
    apart: Apart, field: str, label: str, taken: tuple[str, object], other: tuple[str, object]
) -> None:
    cases = apart.setdefault((_WORDS.get(field, field), taken[0], other[0]), [])
    cases.append(f"{label}: {taken[1]}, not {other[1]}")


def sentences(apart: Apart) -> list[str]:
    """One for each field and two sources, whatever the number of devices."""
    return [
        f"{taken} and {other} disagree on {words} of {len(cases)} devices; {taken} is believed"
        f" ({'; '.join(cases[:_SHOWN])}{'; ...' if len(cases) > _SHOWN else ''})"
        for (words, taken, other), cases in apart.items()
    ]
