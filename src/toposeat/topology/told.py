"""What tables tell, as a partial topology: rows and columns become ids here, and nowhere else.

A reader of `nvidia-smi nvlink -s` or of a measured matrix knows a few true things and no graph.
It states exactly those: None, NaN and missing pairs are untold and stay so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toposeat.model.pair import BANDWIDTH
from toposeat.model.topology import (
    Bond,
    Device,
    FactKind,
    HostNumbers,
    LaneState,
    Nic,
    Pair,
    PairNumbers,
    PathClass,
    Topology,
)

if TYPE_CHECKING:  # of those who give it: `map` on a whole machine needs none
    from toposeat.topology.relation import Relation

CUT_LISTS = "cut_cpu_lists"  # metadata: lists of near CPUs that a tool cut, and are not used
FOUND = "found in "  # begins the remark that says what a text held, and what of it was not used
Ends = tuple[str, str]
Place = tuple[int, int]  # row and column of a table


def told_pairs(told: Mapping[str, Mapping[Ends, Any]]) -> tuple[Pair, ...]:
    """One record for each ordered pair that something is told of.

    `told` holds values by (source id, target id), by the member of `Pair` that they are.
    """
    ends = dict.fromkeys(pair for values in told.values() for pair in values)
    return tuple(
        Pair(
            source=source,
            target=target,
            **{
                member: values[source, target]
                for member, values in told.items()
                if (source, target) in values
            },
        )
        for source, target in ends
    )


def told_machine(
    *,
    origin: str,
    devices: Sequence[Device],
    nics: Sequence[Nic] = (),
    relations: Mapping[Place, Relation] | None = None,
    pcie_relations: Mapping[Place, Relation] | None = None,
    peer_access: Mapping[Place, bool] | None = None,
    bonds: Mapping[Place, Bond] | None = None,
    numbers: Sequence[PairNumbers] = (),
    host_copies: Sequence[HostNumbers] = (),
    lanes: Sequence[LaneState] = (),
    tells: Collection[FactKind] = (),
    metadata: Mapping[str, str] | None = None,
    report: Sequence[str] = (),
) -> Topology:
    """What a source of tables tells of one machine.

    Devices and NICs are in the order of the source, with ids of its own. `relations` (the best
    connections) and `pcie_relations` are by rows and columns of devices and, behind them, NICs;
    each pair once, and both ways alike. Peer access and bonds are by the row of the source and the
    column of the target, numbers in the order of devices.
    """
    if not devices:
        raise ValueError("a machine without any device")
    ids = [*(device.id for device in devices), *(nic.id for nic in nics)]
    best = _mirrored(relations or {})
    paths = _mirrored(pcie_relations or {})
    found: dict[str, Mapping[Place, Any]] = {
        "path_class": {at: each.path_class for at, each in best.items()},
        "lanes": {at: each.lanes for at, each in best.items() if each.lanes},
        "pcie_class": {at: each.path_class for at, each in paths.items()},
        "bond": bonds or {},
        "peer_access": peer_access or {},
    }
    own = tuple(device.id for device in devices)
    machine = Topology(
        origin=origin,
        devices=tuple(devices),
        nics=tuple(nics),
        pairs=told_pairs(
            {
                member: {(ids[i], ids[j]): value for (i, j), value in values.items()}
                for member, values in found.items()
            }
        ),
        numbers=tuple(replace(each, devices=own) for each in numbers),
        host_copies=tuple(host_copies),
        lanes=tuple(lanes),
        tells=tuple(sorted(tells)),
        metadata=metadata or {},
        report=tuple(report),
    )
    machine.check()
    uuids = [device.uuid for device in devices if device.uuid is not None]
    for number, uuid in enumerate(uuids):
        if uuid in uuids[:number]:
            raise ValueError(f"UUID {uuid!r} appears twice")
    return machine


def _mirrored(relations: Mapping[Place, Relation]) -> dict[Place, Relation]:
    return {at: each for (i, j), each in relations.items() for at in ((i, j), (j, i))}


def tells_paths(topology: Topology) -> bool:
    """Whether a source states how near devices are to each other: enough for a PCIe tree.

    One that lists all device links and has none states that all of them are joined by PCIe.
    """
    if FactKind.PCIE_PATHS in topology.tells or any(map(path_of, topology.pairs)):
        return True
    return FactKind.DEVICE_LINKS in topology.tells and not tells_bonds(topology)


def path_of(pair: Pair) -> PathClass | None:
    """The best connection of a pair, or its PCIe path where only that is told."""
    return pair.path_class or pair.pcie_class


def is_whole(topology: Topology) -> bool:
    """Whether a source drew its links; else it is a table, which has no name of its own either."""
    drew = topology.name or topology.links or topology.components
    return bool(drew and topology.devices)


def makes_machine(topology: Topology) -> bool:
    """Whether a source alone says how devices are connected."""
    return (
        is_whole(topology) or tells_paths(topology) or tells_bonds(topology) or _measures(topology)
    )


def tells_bonds(topology: Topology) -> bool:
    """Whether a source lists direct device links."""
    return any(pair.bond is not None for pair in topology.pairs)


def _measures(topology: Topology) -> bool:
    return any(
        each.what == BANDWIDTH and not each.both_ways and (each.values > 0).any()
        for each in topology.numbers
    )
