"""From a mapping result to what a placement file holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toposeat import evaluation, launch, mapping, topology
from toposeat.errors import InputError
from toposeat.model.map_options import MapOptions
from toposeat.model.nics import nics_left_out
from toposeat.model.shell_words import sources_in

if TYPE_CHECKING:  # `run` names a node, and needs none of them
    from pathlib import Path

    from toposeat.mapping import Machine
    from toposeat.model.evaluation import MappingResult
    from toposeat.model.placement import Placement
    from toposeat.model.quantity import Premises
    from toposeat.model.topology import Topology
    from toposeat.model.traffic import Traffic

NOMINAL_KEY = "nominal"  # metadata of a placement: the catalogue machine whose ids it has


def untold_of(machine: Topology) -> mapping.Untold:
    """What the sources of a machine leave open, apart from numbers."""
    pairs = topology.untold_pairs(machine)
    return mapping.Untold(readings=topology.readings_of(machine), pairs=pairs)


def map_traffic(
    machine: Topology, traffic: Traffic, options: MapOptions | None = None
) -> MappingResult:
    """Choose a device for every rank, for all machines that the sources of this one allow.

    See `mapping.map_traffic`, to which this gives the other readings of the sources.
    """
    return mapping.map_traffic(machine, traffic, options, untold=untold_of(machine))


def nominal_ids(node: Topology | None) -> dict[str, str]:
    """Metadata for a placement onto this kind of node: the name of a machine of the catalogue."""
    return {NOMINAL_KEY: node.name} if node is not None and node.origin == "catalogue" else {}


def placement_of(
    result: MappingResult,
    machine: Topology | Machine,
    traffic: Traffic,
    *,
    traffic_name: str = "",
    machine_source: str | Mapping[str, str] = "",
    stack: str = "",
    own: Sequence[Topology] = (),
) -> Placement:
    """Where each rank goes: device, and as far as is known CPUs, memory node and NIC.

    Args:
        result: of mapping this traffic onto this machine.
        machine: the machine.
        traffic: bytes between ranks.
        traffic_name: kept in the placement; the traffic's origin if empty.
        machine_source: where the machine was read from, as `-t` takes it, or `source`, `node` and
            `hosts`, as `compare` reads them again; kept in the placement.
        stack: name of the stack that the predictions are for; "" if it is not known.
        own: what is inside each host of a network, where each of them has said it.
    """
    if not isinstance(machine, mapping.Machine):
        machine = mapping.Machine.of(machine)
    shape = machine.shape
    node = machine.topology if shape is None else shape.node
    source = machine_source
    if isinstance(source, str):
        source = {} if source in ("", machine.name) else {"source": source}
    # Standard input cannot be read again.
    source = {name: text for name, text in source.items() if "-" not in sources_in(text)}
    metadata = {
        "topology": machine.name,
        **source,
        **nominal_ids(node),
        "traffic": traffic_name or traffic.origin,
        "objective": result.objective,
        "solver": result.solver,
        "certificate": result.certificate.word,
        **({"stack": stack} if stack else {}),
        "predicted_s_default": f"{result.default.predicted_s:.6g}",
        "predicted_s_placed": f"{result.placed.predicted_s:.6g}",
        **_range_of(result.premises),
        **({} if node is None else _nics_left_out(node)),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if shape is not None:
        seated = own[0] if own else shape.node
        placement = mapping.seat_slots(result, metadata=metadata, node=seated, own=own)
    else:
        assert machine.topology is not None, "a machine has one form or both"
        placement = mapping.seat_ranks(
            machine.topology, traffic.ranks, result.device_of_rank, metadata=metadata
        )
    return launch.with_visibility(placement, traffic.device_choice)


def _nics_left_out(machine: Topology) -> dict[str, str]:
    """Metadata of the placement about NICs that no rank is told to use."""
    left_out = nics_left_out(machine)
    named = [
        f"{nic.name or nic.id} ({left_out[nic.id].why})"
        for nic in machine.nics
        if nic.id in left_out
    ]
    return {"nics_left_out": ", ".join(named)} if named else {}


def _range_of(premises: Premises | None) -> dict[str, str]:
    """Metadata of the placement about a gain that depends on what is assumed."""
    if premises is None or not premises.is_open:
        return {}
    low, high = premises.gain_range
    decided_by = ["overlap of phases"] if premises.of_phases else []
    decided_by += [each.what for each in premises.deciding]
    if premises.untold_pairs:
        decided_by.append("untold device links")
    return {
        "gain_range": f"{low:.3f} to {high:.3f} of the default's time",
        "gain_depends_on": ", ".join(decided_by) or "assumed numbers",
    }


def slots_of_placement(
    placement: Placement, shape: mapping.Shape, traffic: Traffic, path: Path
) -> NDArray[np.uint32]:
    """Slot of each rank: its host by name, its device by PCI bus id, else by index."""
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


def positions_in(
    machine: Machine, placement: Placement, traffic: Traffic, path: Path
) -> tuple[int, ...]:
    """`device_of_rank` of a placement on this machine."""
    if machine.shape is not None:
        return tuple(slots_of_placement(placement, machine.shape, traffic, path).tolist())
    assert machine.topology is not None, "a machine has one form or both"
    return evaluation.device_positions(placement, machine.topology, traffic.ranks, path)


def assess(machine: Machine, traffic: Traffic, device_of_rank: Sequence[int]) -> MappingResult:
    """A given placement beside the default, in the form of a mapping result without a proof."""
    topology = machine.listed()
    if topology is not None:
        result = evaluation.assess(topology, traffic, device_of_rank)
        return (
            result if machine.shape is None else mapping.with_hosts(machine.shape, traffic, result)
        )
    assert machine.shape is not None, "a machine has one form or both"
    evaluator = mapping.SlotEvaluator(machine.shape, traffic)
    both = (evaluator.evaluate(evaluator.default), evaluator.evaluate(device_of_rank))
    return mapping.result_on(
        machine.shape, evaluator, both, MapOptions(), solver="given", notes=machine.shape.notes
    )
