"""From a mapping result to what a placement file holds."""

from __future__ import annotations

from datetime import UTC, datetime

from toposeat import launch, mapping
from toposeat.model.evaluation import MappingResult
from toposeat.model.placement import Placement
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic


def placement_of(
    result: MappingResult,
    machine: Topology,
    traffic: Traffic,
    *,
    traffic_name: str = "",
    stack: str = "",
) -> Placement:
    """Where each rank goes: device, CPUs, memory node and NIC.

    Args:
        result: of mapping this traffic onto this machine.
        machine: the machine.
        traffic: bytes between ranks.
        traffic_name: kept in the placement; the traffic's origin if empty.
        stack: whose path the predictions are for; "" where nothing tells it.
    """
    metadata = {
        "topology": machine.name,
        "traffic": traffic_name or traffic.origin,
        "objective": result.objective,
        "solver": result.solver,
        "certificate": result.certificate.word,
        **({"stack": stack} if stack else {}),
        "predicted_s_default": f"{result.default.predicted_s:.6g}",
        "predicted_s_placed": f"{result.placed.predicted_s:.6g}",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    placement = mapping.seat_ranks(machine, traffic.ranks, result.device_of_rank, metadata=metadata)
    return launch.with_visibility(placement, traffic.device_choice)
