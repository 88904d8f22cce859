"""Fields of devices from several sources: the best that knows one states it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.topology import Device, PcieState, Vendor
from toposeat.topology import constants as k
from toposeat.topology.facts import DeviceFact

# What NCCL and RCCL know of a product: its instruction set.
_NO_NAME = re.compile(r"(sm_\d+|gfx[0-9a-f]+)?", re.ASCII)

_SHOWN = 3  # devices named in one sentence


@dataclass(frozen=True, slots=True)
class Told:
    """A device as one source tells of it."""

    origin: str
    device: DeviceFact


def merged_device(told: Sequence[Told], contradictions: Contradictions) -> DeviceFact:
    """One device from all that sources tell of it, the most trusted first.

    Args:
        told: by at least one source; the first names the label.
        contradictions: takes what sources disagree on.
    """
    first = told[0].device
    names = [t.device.name for t in told if not _NO_NAME.fullmatch(t.device.name)]
    values: dict[str, object] = {"label": first.label, "name": (names or [first.name])[0]}
    _note_names(told, contradictions)
    for field in fields(DeviceFact):
        if field.name in ("label", "name"):
            continue
        stated = [
            (t.origin, value)
            for t in told
            if (value := getattr(t.device, field.name)) not in (None, Vendor.UNKNOWN)
        ]
        if not stated:
            continue
        values[field.name] = stated[0][1]
        for origin, value in stated[1:]:
            if _disagree(field.name, stated[0][1], value):
                contradictions.add(field.name, first.label, stated[0], (origin, value))
    return DeviceFact(**values)  # type: ignore[arg-type]


def _note_names(told: Sequence[Told], contradictions: Contradictions) -> None:
    """Tools spell one product in many ways: names contradict where they mean other NVLinks."""
    named = [(t.origin, t.device.name) for t in told if k.nvlink_of_device(t.device.name)]
    for origin, name in named[1:]:
        if k.nvlink_of_device(name) is not k.nvlink_of_device(named[0][1]):
            contradictions.add("name", told[0].device.label, named[0], (origin, name))


def _disagree(field: str, taken: object, other: object) -> bool:
    if field == "cpus":  # a job's mask shows some of the near CPUs
        mine, theirs = (set(parse_cpu_list(str(text))) for text in (taken, other))
        return not (mine <= theirs or theirs <= mine)
    if field == "uuid":
        return str(taken).lower() != str(other).lower()
    if field in ("pcie_generation", "parent", "memory_bytes"):
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


def overlaid(device: Device, fact: DeviceFact) -> Device:
    """A device with the merged fields; its id and index stay those of the graph."""
    state = PcieState(
        generation=fact.pcie_generation,
        width=fact.pcie_width,
        max_generation=fact.pcie_max_generation,
        max_width=fact.pcie_max_width,
    )
    return replace(
        device,
        vendor=fact.vendor,
        name=fact.name,
        pci_bus_id=fact.pci_bus_id,
        uuid=fact.uuid,
        numa_node=fact.numa_node,
        cpus=fact.cpus,
        memory_bytes=fact.memory_bytes,
        pcie=state if state != PcieState() else device.pcie,
        parent=fact.parent or device.parent,
        forwards=device.forwards if fact.forwards is None else fact.forwards,
    )


def device_of_fact(fact: DeviceFact, *, index: int, host: str) -> Device:
    """A device of the topology from facts alone."""
    bare = Device(id=f"gpu{index}", index=index, host=host)
    return overlaid(bare, fact)
