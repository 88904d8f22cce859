"""From a mapping result to what a placement file holds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toposeat import launch, mapping, topology
from toposeat.model.nic_roles import nics_left_out

if TYPE_CHECKING:  # `run` names a node, and needs none of them
    from toposeat.model.evaluation import MappingResult
    from toposeat.model.map_options import MapOptions
    from toposeat.model.placement import Placement
    from toposeat.model.premise import Premises
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
    machine: Topology,
    traffic: Traffic,
    *,
    traffic_name: str = "",
    machine_source: str = "",
    stack: str = "",
) -> Placement:
    """Where each rank goes: device, CPUs, memory node and NIC.

    Args:
        result: of mapping this traffic onto this machine.
        machine: the machine.
        traffic: bytes between ranks.
        traffic_name: kept in the placement; the traffic's origin if empty.
        machine_source: where the machine was read from, as `-t` takes it; kept in the placement.
        stack: name of the stack that the predictions are for; "" if it is not known.
    """
    metadata = {
        "topology": machine.name,
        **({"source": machine_source} if machine_source not in ("", machine.name) else {}),
        **nominal_ids(machine),
        "traffic": traffic_name or traffic.origin,
        "objective": result.objective,
        "solver": result.solver,
        "certificate": result.certificate.word,
        **({"stack": stack} if stack else {}),
        "predicted_s_default": f"{result.default.predicted_s:.6g}",
        "predicted_s_placed": f"{result.placed.predicted_s:.6g}",
        **_range_of(result.premises),
        **_nics_left_out(machine),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    placement = mapping.seat_ranks(machine, traffic.ranks, result.device_of_rank, metadata=metadata)
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
