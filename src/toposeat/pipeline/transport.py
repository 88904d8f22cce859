"""What direct copies would give to GPUs whose copies are, or may be, staged in host memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, permutations

from toposeat import evaluation, topology
from toposeat.model.processor import is_amd
from toposeat.model.quantity import quantity_fields
from toposeat.model.topology import Link, Route, Topology, Vendor
from toposeat.model.traffic import Traffic
from toposeat.model.transport import NcclSetting, Staging, Transport, nccl_setting

_WORTH_SAYING = 1.1  # times as fast


def as_nccl_is_set(machine: Topology, setting: NcclSetting | None) -> Topology:
    """The machine as NCCL uses it where a variable says which pairs copy directly."""
    if setting is None or {device.vendor for device in machine.devices} != {Vendor.NVIDIA}:
        return machine
    return topology.with_nccl_copies(machine, setting.direct)


def transport_of(
    machine: Topology,
    devices: Sequence[int] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    traffic: Traffic | None = None,
) -> Transport | None:
    """What a staged group of NCCL would gain by direct copies; None where that is nothing.

    Args:
        machine: one node.
        devices: the members, as positions in `machine.devices`; None: all.
        environment: of the job, where the machine is this one; else None.
        traffic: of the job; what NCCL does plays no part where no group exchanges anything.
    """
    members = tuple(sorted({*(range(len(machine.devices)) if devices is None else devices)}))
    names = {machine.devices[at].id: at for at in members}
    vendors = {machine.devices[at].vendor for at in members}
    if len(members) < 2 or len(machine.hosts) > 1 or vendors != {Vendor.NVIDIA}:
        return None
    routes = [r for ends in permutations(names, 2) if (r := machine.route_of_pair.get(ends))]
    stageable = [route for route in routes if route.ring_bytes_per_s is not None]
    staging, setting = _why(machine, stageable, len(members), environment or {})
    of_nccl = staging in (Staging.NCCL, Staging.SET)
    if staging is None or (of_nccl and traffic is not None and not traffic.groups):
        return None
    rings = evaluation.CompiledMachine(machine).rates.of(members).rings
    hops = {(a, b) for ring in rings for a, b in pairwise((*ring, ring[0]))}
    if hops.isdisjoint((names[route.source], names[route.target]) for route in stageable):
        return None  # device links carry all of it
    direct, staged = (
        evaluation.CompiledMachine(topology.with_peer_access(machine, peer_access=on)).rates
        for on in (True, False)
    )
    both = [(r.cap_bytes_per_s, r.staged_bytes_per_s) for r in stageable]
    measured = [cap.value / way.value for cap, way in both if cap and way]
    nominal = min([direct.of(members).bytes_per_s / staged.of(members).bytes_per_s, *measured])
    if nominal < _WORTH_SAYING:
        return None
    # What links carry is alike in both ways.
    numbers = [getattr(link, name) for link in machine.links for name in quantity_fields(Link)]
    still = frozenset(what for number in numbers if number for what in number.premises)
    still |= {evaluation.KERNELS}
    (slowest, fastest), (least, most) = (each.range_of(members, still) for each in (direct, staged))
    return Transport(
        staging=staging,
        devices=members,
        low=min(slowest / most, nominal),
        nominal=nominal,
        high=fastest / least,
        setting=setting,
        is_told=all(route.peer_access for route in stageable),
    )


def _why(
    machine: Topology, routes: Sequence[Route], size: int, environment: Mapping[str, str]
) -> tuple[Staging | None, str]:
    """Why some of these routes are staged, and the variable that says so."""
    if any(route.peer_access is False for route in routes):
        return Staging.TOLD, ""
    if any(route.staged for route in routes):
        return Staging.PRODUCT, ""
    if routes and (setting := nccl_setting(environment)):
        is_staged = any(route.path_class not in setting.direct for route in routes)
        return (Staging.SET, setting.text) if is_staged else (None, "")
    return (Staging.NCCL if routes and not (size == 2 and is_amd(machine)) else None), ""
