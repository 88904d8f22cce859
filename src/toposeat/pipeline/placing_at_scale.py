"""Placement files on a large machine: hosts on a network, or the shape of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toposeat import launch, mapping
from toposeat.errors import InputError
from toposeat.model.placement import Placement
from toposeat.model.scale_result import ScaleResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.pipeline.placing import nominal_ids


def placement_at_scale(
    result: ScaleResult,
    shape: mapping.Shape,
    traffic: Traffic,
    *,
    traffic_name: str,
    sources: Mapping[str, str],
    own: Sequence[Topology] = (),
) -> Placement:
    """Where each rank of a large job goes; with `shape.node` also CPUs, memory nodes and NICs.

    Args:
        result: of mapping this traffic onto this shape.
        shape: the machine.
        traffic: bytes between ranks.
        traffic_name: kept in the placement.
        sources: the machine as `compare` reads it again: `source`, `node` and `hosts`.
        own: what is inside each host of the shape, where each of them has said it.
    """
    metadata = {
        "topology": shape.text,
        **sources,
        **nominal_ids(shape.node),
        "traffic": traffic_name,
        "objective": result.objective,
        "solver": result.solver,
        "certificate": "heuristic",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    node = own[0] if own else shape.node
    placement = mapping.seat_slots(result, metadata=metadata, node=node, own=own)
    return launch.with_visibility(placement, traffic.device_choice)


def slots_of_placement(
    placement: Placement, shape: mapping.Shape, traffic: Traffic, path: Path
) -> NDArray[np.uint32]:
    """Slot of each rank: its host by name, its device by PCI bus id, else by index.

    Raises:
        InputError: another rank count, or a host or device that the machine does not have.
    """
    if placement.ranks != traffic.ranks:
        raise InputError(
            f"a placement for {placement.ranks} ranks; the traffic has {traffic.ranks}",
            path=path,
            hint="map this traffic again: toposeat map TRAFFIC -t NETWORK --node SRC -o F",
        )
    devices = shape.node.devices if shape.node is not None else ()
    by_pci = {device.pci_bus_id: at for at, device in enumerate(devices) if device.pci_bus_id}
    by_index = (
        {device.index: at for at, device in enumerate(devices)}
        if devices
        else {index: index for index in range(shape.slots_per_host)}
    )
    host_number = {name: at for at, name in enumerate(shape.hosts)}
    slots = np.empty(placement.ranks, np.uint32)
    for seat in placement.seats:
        host = host_number.get(seat.host)
        device = by_pci.get(seat.pci_bus_id) if seat.pci_bus_id is not None else None
        device = by_index.get(seat.index) if device is None else device
        if host is None or device is None:
            what = f"host {seat.host}" if host is None else f"device {seat.index}"
            raise InputError(
                f"rank {seat.rank}: {shape.text} has no {what}",
                path=path,
                hint="name the hosts of the placement with --hosts, and their node with --node",
            )
        slots[seat.rank] = host * shape.slots_per_host + device
    return slots


def assess_slots(
    shape: mapping.Shape, evaluator: mapping.SlotEvaluator, slots: NDArray[np.uint32]
) -> ScaleResult:
    """A given placement beside the default, in the form of a mapping result."""
    default = evaluator.default
    return ScaleResult(
        shape=shape.text,
        slots=shape.slots,
        slots_per_host=shape.slots_per_host,
        hosts=shape.hosts,
        slot_of_rank=slots,
        default=evaluator.evaluate(default, "default"),
        placed=evaluator.evaluate(slots, "given"),
        candidates=(),
        kept_default=bool((slots == default).all()),
        objective="time",
        solver="given",
        solve_seconds=0.0,
        peak_memory_bytes=0,
        seed=0,
        notes=shape.notes,
        stages=evaluator.stages,
    )
