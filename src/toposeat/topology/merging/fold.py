"""Several partial topologies folded into one: each fact from the most trusted source that tells it.

Nothing is drawn here and nothing is derived: what is missing in all sources is missing in the fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from toposeat.model.topology import Nic, Pair, Topology
from toposeat.topology.merging.device_fields import Apart, Told, merged_device, sentences
from toposeat.topology.merging.join import identity_of, join_devices
from toposeat.topology.merging.nics import join_nics, merged_nic
from toposeat.topology.merging.renamed import renamed
from toposeat.topology.told import Ends

MEMBERS = tuple(
    each.name for each in fields(Pair) if each.name not in ("source", "target", "told_by")
)


def identified(
    base: Topology, others: Sequence[Topology], report: list[str]
) -> tuple[Topology, list[Topology]]:
    """The sources with common ids: bus ids or UUIDs, else the id in the first source.

    Sources that give each device an identity are joined before those that do not; the report takes
    joins that no identity proves.
    """
    nics = join_nics([base, *others])
    ids = {device.id: identity_of(device, base.origin) for device in base.devices}
    first = renamed(base, ids | nics[0])
    told = {ids[device.id]: [(base.origin, device)] for device in base.devices}
    nics_of = {id(part): of_part for part, of_part in zip(others, nics[1:], strict=True)}
    joined: dict[int, Topology] = {}
    for part in sorted(others, key=lambda each: not _has_identities(each)):
        known = [replace(merged_device(each, "", {}), id=key) for key, each in told.items()]
        id_of = join_devices(known, base.origin, part, report)
        joined[id(part)] = renamed(part, id_of | nics_of[id(part)])
        for device in part.devices:
            told.setdefault(id_of[device.id], []).append((part.origin, device))
    return first, [joined[id(part)] for part in others]


def _has_identities(part: Topology) -> bool:
    return all(d.pci_bus_id or d.uuid for d in part.devices)


def fold(parts: Sequence[Topology], labels: Iterable[tuple[str, str]] = ()) -> Topology:
    """All that several sources with common ids tell of one machine.

    A device, pair or number that only some tell is in the fold; of what several tell, the first
    counts, and the report says what the others tell otherwise. The fold is complete in a kind of
    fact where one of its sources is, and knows all its devices. The first part is the most
    trusted; `labels` are what sentences call a device, by its id.
    """
    names = dict(labels)
    told: dict[str, list[Told]] = {}
    for part in parts:
        for device in part.devices:
            told.setdefault(device.id, []).append((part.origin, device))
    apart: Apart = {}
    devices = tuple(merged_device(each, names.get(id, id), apart) for id, each in told.items())
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
