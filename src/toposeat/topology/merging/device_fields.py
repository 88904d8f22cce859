"""Merges the fields of devices: each is from the most trusted source that states it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.topology import Device, PcieState, Vendor
from toposeat.topology import products

# What NCCL and RCCL know of a product: its instruction set.
_NO_NAME = re.compile(r"(sm_\d+|gfx[0-9a-f]+)?", re.ASCII)

_SHOWN = 3  # devices named in one sentence


@dataclass(frozen=True, slots=True)
class Told:
    """A device as one source tells of it."""

    origin: str
    label: str
    device: Device

    def teller(self, field: str) -> str:
        """The source that told a field first, which a merged machine passes on."""
        return (self.device.told_by or {}).get(field, self.origin)


_PCIE = {
    f"pcie_{member}": member for member in ("generation", "width", "max_generation", "max_width")
}
_FIELDS = (
    *("index", "vendor", "pci_bus_id", "uuid", "numa_node", "cpus", "memory_bytes", "forwards"),
    *("inactive_lanes", "parent", "copy_bytes_per_s", "copy_latency_s", *_PCIE),
)


def _value(device: Device, field: str) -> object:
    """What a source states; None for what it does not."""
    if field in _PCIE:
        return None if device.pcie is None else getattr(device.pcie, _PCIE[field])
    value = getattr(device, field)
    return None if value in (Vendor.UNKNOWN, "") else value


def merged_device(told: Sequence[Told], contradictions: Contradictions) -> Device:
    """One device from all that sources tell of it, the most trusted first.

    Args:
        told: by at least one source; the first names its host.
        contradictions: takes what sources disagree on.
    """
    first = told[0].device
    named = [t for t in told if not _NO_NAME.fullmatch(t.device.name)] or [told[0]]
    values: dict[str, Any] = {}
    told_by = {"name": named[0].teller("name")} if named[0].device.name else {}
    _note_names(told, contradictions)
    for field in _FIELDS:
        tellers = [t for t in told if _value(t.device, field) is not None]
        if not tellers:
            continue
        stated = [(t.origin, _value(t.device, field)) for t in tellers]
        values[field] = stated[0][1]
        if not field.startswith("copy"):  # a number that carries its own source
            told_by[field] = tellers[0].teller(field)
        for other in stated[1:]:
            if _disagree(field, stated[0][1], other[1]):
                contradictions.add(field, told[0].label, stated[0], other)
    state = {member: values.pop(field) for field, member in _PCIE.items() if field in values}
    return replace(
        first,
        name=named[0].device.name,
        pcie=PcieState(**state) if state else None,
        told_by=told_by if len({t.origin for t in told}) > 1 else first.told_by,
        **values,
    )


def _note_names(told: Sequence[Told], contradictions: Contradictions) -> None:
    """Tools spell one product in many ways: names contradict where they mean other NVLinks."""
    named = [(t.origin, t.device.name) for t in told if products.lane_named(t.device.name)]
    for origin, name in named[1:]:
        if products.lane_named(name) is not products.lane_named(named[0][1]):
            contradictions.add("name", told[0].label, named[0], (origin, name))


def _disagree(field: str, taken: object, other: object) -> bool:
    if field == "cpus":  # a job's mask shows some of the near CPUs
        mine, theirs = (set(parse_cpu_list(str(text))) for text in (taken, other))
        return not (mine <= theirs or theirs <= mine)
    if field == "uuid":
        return str(taken).lower() != str(other).lower()
    if field in ("pcie_generation", "parent", "memory_bytes", "inactive_lanes") or "copy" in field:
        return False  # idle links slow down, tools name parents and round sizes in their own way
    return taken != other


class Contradictions:
    """What sources disagree on, by field: one sentence each, whatever the number of devices."""

    _WORDS: ClassVar[Mapping[str, str]] = {
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

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], list[str]] = {}

    def add(
        self, field: str, label: str, taken: tuple[str, object], other: tuple[str, object]
    ) -> None:
        """Note that two sources, each with the value it states, disagree on a field."""
        words = self._WORDS.get(field, field)
        key = (words, taken[0], other[0])
        self._found.setdefault(key, []).append(f"{label}: {taken[1]}, not {other[1]}")

    def sentences(self) -> list[str]:
        """One for each field and two sources."""
        return [
            f"{taken} and {other} disagree on {words} of {len(cases)} devices; {taken} is believed"
            f" ({'; '.join(cases[:_SHOWN])}{'; ...' if len(cases) > _SHOWN else ''})"
            for (words, taken, other), cases in self._found.items()
        ]
