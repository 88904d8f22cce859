"""Several partial topologies folded into one: each fact from the most trusted source that tells it.

Nothing is drawn here and nothing is derived: what is missing in all sources is missing in the fold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from toposeat.model.cpu_list import cpus_of
from toposeat.model.few import first_few
from toposeat.model.topology import Device, Nic, Pair, PcieState, Topology, Vendor
from toposeat.topology import products
from toposeat.topology.merging.join import join_devices, renamed
from toposeat.topology.merging.nics import join_nics, merged_nic
from toposeat.topology.told import Ends

MEMBERS = tuple(
    each.name for each in fields(Pair) if each.name not in ("source", "target", "told_by")
)


def identified(
    base: Topology, others: Sequence[Topology], report: list[str]
) -> tuple[Topology, list[Topology]]:
    """The sources with common ids: of devices those of the base.

    Sources that give each device an identity are joined before those that do not; the report takes
    joins that no identity proves.
    """
    nics = join_nics([base, *others])
    first = renamed(base, nics[0])
    told = {device.id: [(base.origin, device)] for device in base.devices}
    nics_of = {id(part): of_part for part, of_part in zip(others, nics[1:], strict=True)}
    joined: dict[int, Topology] = {}
    for part in sorted(others, key=lambda each: not _has_identities(each)):
        known = [replace(merged_device(each, "", {}), id=key) for key, each in told.items()]
        id_of = join_devices(known, base.origin, part, report)
        joined[id(part)] = renamed(part, id_of | nics_of[id(part)])
        for device in part.devices:
            told[id_of[device.id]].append((part.origin, device))
    return first, [joined[id(part)] for part in others]


def _has_identities(part: Topology) -> bool:
    return all(d.pci_bus_id or d.uuid for d in part.devices)


def fold(parts: Sequence[Topology]) -> Topology:
    """All that several sources with common ids tell of one machine.

    A device, pair or number that only some tell is in the fold; of what several tell, the first
    counts, and the report says what the others tell otherwise. The fold is complete in a kind of
    fact where one of its sources is, and knows all its devices. The first part is the most
    trusted.
    """
    told: dict[str, list[Told]] = {}
    for part in parts:
        for device in part.devices:
            told.setdefault(device.id, []).append((part.origin, device))
    apart: Apart = {}
    devices = tuple(merged_device(each, id, apart) for id, each in told.items())
    report = sentences(apart)
    whole = (part for part in parts if len(part.devices) == len(devices))
    return replace(
        parts[0],
        devices=devices,
        nics=_folded_nics(parts),
        pairs=_folded_pairs(parts, report),
        numbers=tuple(each for part in parts for each in part.numbers),
        host_copies=tuple(each for part in parts for each in part.host_copies),
        lanes=tuple(each for part in parts for each in part.lanes),
        tells=tuple(sorted({kind for part in whole for kind in part.tells})),
        report=tuple(report),
    )


def _folded_nics(parts: Sequence[Topology]) -> tuple[Nic, ...]:
    told: dict[str, list[tuple[str, Nic]]] = {}
    for part in parts:
        for nic in part.nics:
            told.setdefault(nic.id, []).append((part.origin, nic))
    return tuple(
        replace(
            merged_nic([nic for _, nic in each]),
            told_by={"id": _teller(each[0][1], "id", each[0][0])},
        )
        for each in told.values()
    )


def _teller(told: Nic | Pair, member: str, origin: str) -> str:
    return (told.told_by or {}).get(member, origin)


def _folded_pairs(parts: Sequence[Topology], report: list[str]) -> tuple[Pair, ...]:
    several = len({part.origin for part in parts}) > 1 or any(p.told_by for p in parts[0].pairs)
    found: dict[Ends, dict[str, tuple[str, object]]] = {}
    apart: dict[tuple[str, str], int] = {}
    for part in parts:
        for ends, pair in part.pair_of_ends.items():
            known = found.setdefault(ends, {})
            for member in MEMBERS:
                value = getattr(pair, member)
                if value is None:
                    continue
                origin = _teller(pair, member, part.origin)
                teller, first = known.setdefault(member, (origin, value))
                if member == "peer_access" and first is not value:
                    apart[teller, part.origin] = apart.get((teller, part.origin), 0) + 1
    report += [
        f"{one} and {other} disagree on peer access of {count} pairs; {one} is believed"
        for (one, other), count in apart.items()
    ]
    return tuple(
        Pair(
            source=source,
            target=target,
            told_by={member: teller for member, (teller, _) in known.items()} if several else None,
            **{member: value for member, (_, value) in known.items()},  # type: ignore[arg-type]
        )
        for (source, target), known in found.items()
    )


# ---- one device


# What NCCL and RCCL know of a product, its instruction set; what nvidia-smi's table has room for.
_NO_NAME = re.compile(r"(sm_\d+|gfx[0-9a-f]+|.*\.\.\.)?", re.ASCII)
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
    named = min(told, key=lambda t: (not t[1].name, bool(_NO_NAME.fullmatch(t[1].name))))
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
        mine, theirs = (cpus_of(str(text)) for text in (taken, other))
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
        f" ({first_few(cases, _SHOWN, '; ')})"
        for (words, taken, other), cases in apart.items()
    ]
