"""From a mapping result to what a placement file holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toposeat import evaluation, launch, mapping, topology
from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.nics import nics_left_out
from toposeat.model.rank_info import CPU_RANKS
from toposeat.model.shell_words import sources_in

if TYPE_CHECKING:  # `run` names a node, and needs none of them
    from pathlib import Path

    from toposeat.mapping import Machine
    from toposeat.model.evaluation import MappingResult
    from toposeat.model.map_options import MapOptions
    from toposeat.model.placement import Placement
    from toposeat.model.topology import Topology
    from toposeat.model.traffic import Traffic

NOMINAL_KEY = "nominal"  # metadata of a placement: the catalogue machine whose ids it has


def open_machine(machine: Topology) -> evaluation.OpenMachine:
    """A machine with what its sources leave open."""
    return evaluation.OpenMachine(
        machine,
        topology.facts_of(machine),
        untold_pairs=topology.untold_pairs(machine),
        kinds=[topology.kind_of(device) for device in machine.devices],
    )


def map_traffic(
    machine: Topology, traffic: Traffic, options: MapOptions | None = None
) -> MappingResult:
    """Choose a device for every rank, for all machines that the sources of this one allow.

    See `mapping.map_traffic`, to which this gives what the sources leave open.
    """
    return mapping.map_traffic(machine, traffic, options, machine=open_machine(machine))


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
    from toposeat.pipeline.answer import answer_lines  # noqa: PLC0415 - `run` needs none of it

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
        **({CPU_RANKS: format_cpu_list(result.cpu_ranks)} if result.cpu_ranks else {}),
        "predicted_s_default": f"{result.default.predicted_s:.6g}",
        "predicted_s_placed": f"{result.placed.predicted_s:.6g}",
        **answer_lines(result, machine.topology if result.is_listed else None),
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


def positions_in(
    machine: Machine, placement: Placement, traffic: Traffic, path: Path
) -> tuple[int, ...]:
    """`device_of_rank` of a placement on this machine: slots of a network, host after host."""
    shape = machine.shape
    if shape is None:
        assert machine.topology is not None, "a machine has one form or both"
        return evaluation.device_positions(placement, machine.topology, traffic.ranks, path)
    of_host: list[tuple[str | None, int | None]] = [
        (None, at) for at in range(shape.slots_per_host)
    ]
    if shape.node is not None:
        of_host = [(device.pci_bus_id, device.index) for device in shape.node.devices]
    places = [(host, *each) for host in shape.hosts for each in of_host]
    return evaluation.positions_among(places, placement, traffic.ranks, shape.text, path)
