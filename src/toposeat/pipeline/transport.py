"""What direct copies would give to GPUs whose copies are, or may be, staged in host memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, permutations

from toposeat import evaluation, topology
from toposeat.model.processor import is_amd
from toposeat.model.topology import Route, Topology, Vendor
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
    """What a group of NCCL would gain if its members copied to each other directly.

    Args:
        machine: one node.
        devices: the members, as positions in `machine.devices`; None: all.
        environment: of the job, where the machine is this one; else None.
        traffic: of the job; what NCCL does plays no part where no group exchanges anything.

    Returns:
        None where nothing is staged, or what is makes no difference.
    """
    members = tuple(sorted({*range(len(machine.devices))} if devices is None else {*devices}))
    ids = [machine.devices[at].id for at in members]
    vendors = {machine.devices[at].vendor for at in members}
    if len(members) < 2 or len(machine.hosts) > 1 or vendors != {Vendor.NVIDIA}:
        return None
    routes = [r for ends in permutations(ids, 2) if (r := machine.route_of_pair.get(ends))]
    stageable = [route for route in routes if route.ring_bytes_per_s is not None]
    staging, setting = _why(machine, stageable, len(members), environment or {})
    of_nccl = staging in (Staging.NCCL, Staging.SET)
    if staging is None or (of_nccl and traffic is not None and not traffic.groups):
        return None
    rings = evaluation.CompiledMachine(machine).rates.of(members).rings
    hops = {(a, b) for ring in rings for a, b in pairwise((*ring, ring[0]))}
    places = {machine.devices[at].id: at for at in members}
    if hops.isdisjoint((places[r.source], places[r.target]) for r in stageable):
        return None  # device links carry all of it
    fast, slow = (
        evaluation.CompiledMachine(topology.with_peer_access(machine, peer_access=on)).rates
        for on in (True, False)
    )
    fast_rate, slow_rate = fast.of(members).bytes_per_s, slow.of(members).bytes_per_s
    slow_low, slow_high = slow.range_of(members)
    nominal = fast_rate / slow_rate
    if nominal < _WORTH_SAYING:
        return None
    return Transport(
        staging=staging,
        devices=members,
        low=max(1.0, fast_rate / slow_high),
        nominal=nominal,
        high=max(nominal, fast.range_of(members)[1] / slow_low),
        setting=setting,
    )


def _why(
    machine: Topology, routes: Sequence[Route], size: int, environment: Mapping[str, str]
) -> tuple[Staging | None, str]:
    """Why some of these routes are staged, and the variable that says so."""
    if any(route.peer_access is False for route in routes):
        return Staging.TOLD, ""
    if any(route.staged for route in routes):
        return Staging.PRODUCT, ""
    if not routes:
        return None, ""
    setting = nccl_setting(environment)
    if setting is not None:
        refused = any(route.path_class not in setting.direct for route in routes)
        return (Staging.SET, setting.text) if refused else (None, "")
    if size == 2 and is_amd(machine):
        return None, ""
    return Staging.NCCL, ""
