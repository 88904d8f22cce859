"""From a machine and a traffic to a placement, and back from a placement file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from toposeat import evaluation, launch, mapping
from toposeat.errors import InputError
from toposeat.model.evaluation import Certificate, MappingResult
from toposeat.model.placement import Placement
from toposeat.model.topology import ANY_HOST, Topology
from toposeat.model.traffic import Traffic


def placement_of(
    result: MappingResult, machine: Topology, traffic: Traffic, *, traffic_name: str
) -> Placement:
    """The placement file's content for a mapping result."""
    metadata = {
        "topology": machine.name,
        "traffic": traffic_name,
        "objective": result.objective,
        "solver": result.solver,
        "certificate": result.certificate.word,
        "predicted_s_default": f"{result.default.predicted_s:.6g}",
        "predicted_s_placed": f"{result.placed.predicted_s:.6g}",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    placement = mapping.seat_ranks(machine, traffic.ranks, result.device_of_rank, metadata=metadata)
    return launch.with_visibility(placement, traffic.device_choice)


def device_positions(
    placement: Placement, machine: Topology, traffic: Traffic, path: Path
) -> tuple[int, ...]:
    """`device_of_rank` of a placement on this topology, found by PCI bus id, else host and index.

    Raises:
        InputError: another rank count, or a device that the topology does not have.
    """
    if placement.ranks != traffic.ranks:
        raise InputError(
            f"a placement for {placement.ranks} ranks; the traffic has {traffic.ranks}",
            path=path,
            hint="map this traffic again: toposeat map TRAFFIC -t SRC -o F",
        )
    # Nodes of one kind have the same bus ids: with several hosts, the host tells them apart.
    by_pci = {(d.host, d.pci_bus_id): at for at, d in enumerate(machine.devices) if d.pci_bus_id}
    by_index = {(d.host, d.index): at for at, d in enumerate(machine.devices)}
    only_host = machine.hosts[0] if len(machine.hosts) == 1 else None
    found = []
    for seat in placement.seats:
        host = only_host if only_host and ANY_HOST in (seat.host, only_host) else seat.host
        at = by_pci.get((only_host or seat.host, seat.pci_bus_id)) if seat.pci_bus_id else None
        at = by_index.get((host, seat.index)) if at is None else at
        if at is None:
            raise InputError(
                f"rank {seat.rank}: {machine.name} has no device {seat.pci_bus_id or seat.index}",
                path=path,
                hint="this placement was made for another machine",
            )
        found.append(at)
    return tuple(found)


def assess(machine: Topology, traffic: Traffic, devices: Sequence[int]) -> MappingResult:
    """A given placement beside the default, in the form of a mapping result without a proof."""
    evaluator = evaluation.Evaluator(machine, traffic)
    default = evaluator.evaluate(evaluation.default_placement(traffic.ranks, machine))
    placed = evaluator.evaluate(devices)
    return MappingResult(
        device_of_rank=tuple(devices),
        default=default,
        placed=placed,
        certificate=Certificate(
            objective="time",
            proved=False,
            value=placed.predicted_s,
            lower_bound=None,
            gap=None,
            reason="a placement that was given, not searched for",
        ),
        objective="time",
        metric="bandwidth",
        solver="given",
        solve_seconds=0.0,
        seed=0,
    )
