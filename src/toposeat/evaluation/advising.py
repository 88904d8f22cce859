"""What the settings of a stack are predicted to be worth for a placement and its traffic.

Everything is computed from the arguments: measured curves, traffic and the rules of a stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from toposeat.errors import InputError
from toposeat.evaluation.evaluation import Evaluator
from toposeat.evaluation.protocols import (
    measured_protocols,
    message_seconds,
    missing_protocols,
    protocol_route_for,
    protocol_routes,
    typical_bytes,
    under_envelope,
    under_rule,
)
from toposeat.model.protocol import PairNote, Prediction, ProtocolRule, Setting
from toposeat.model.topology import CopyProtocol, Route, Topology
from toposeat.model.traffic import Traffic

PRESENT = "present"
_PAIRS = 8


def predict_settings(
    machine: Topology,
    traffic: Traffic,
    device_of_rank: Sequence[int],
    present: ProtocolRule,
    settings: Sequence[Setting],
) -> tuple[Prediction, tuple[Prediction, ...]]:
    """Predict the present environment, and all settings, the fastest first.

    Args:
        machine: with protocols on its routes.
        traffic: whose messages and sizes count.
        device_of_rank: positions in `machine.devices`.
        present: what the stack does now.
        settings: what could be set.

    Raises:
        InputError: the machine has no curves by protocol.
    """
    if not measured_protocols(machine):
        raise InputError(
            f"{machine.name} has no curves by protocol",
            hint="measure them: toposeat measure -t this --protocols get,put,staged -o node.json",
        )
    now = Setting(name=PRESENT, variables={}, rule=present)
    base = _predicted(machine, traffic, device_of_rank, now, None)
    found = [
        _predicted(machine, traffic, device_of_rank, each, base.predicted_s) for each in settings
    ]
    known = sorted((p for p in found if p.predicted_s is not None), key=_time)
    return base, (*known, *(p for p in found if p.predicted_s is None))


def envelope_seconds(
    machine: Topology, traffic: Traffic, device_of_rank: Sequence[int]
) -> float | None:
    """Link time with the best protocol of every pair and size; None if a pair has no curves."""
    try:
        best = under_envelope(machine, typical_bytes(traffic))
    except InputError:
        return None
    return Evaluator(best, traffic).evaluate(device_of_rank).predicted_s


def crossing_bytes(
    machine: Topology, traffic: Traffic, device_of_rank: Sequence[int]
) -> int | None:
    """Message size from which on reading directly beats staging, for the bytes of this placement.

    Returns:
        The least measured size from which on no larger one is faster staged; None if that is all
        sizes or none, or if one of the two was not measured.
    """
    known = measured_protocols(machine)
    if not {CopyProtocol.GET, CopyProtocol.STAGED} <= known:
        return None
    options = [
        (
            weight,
            protocol_route_for(machine, route, CopyProtocol.GET),
            protocol_route_for(machine, route, CopyProtocol.STAGED),
        )
        for route, weight in _routes_in_use(machine, traffic, device_of_rank)
        if route.protocols
    ]
    sizes = sorted(
        {p.message_bytes for _, *pair in options for option in pair for p in option.curve.points}
    )
    least = None
    for size in reversed(sizes):
        direct = sum(weight * message_seconds(get, size) for weight, get, _ in options)
        staged = sum(weight * message_seconds(other, size) for weight, _, other in options)
        if direct >= staged:
            break
        least = size
    return None if least is None or least == sizes[0] else least


def unmeasured_pairs(machine: Topology, traffic: Traffic, device_of_rank: Sequence[int]) -> int:
    """How many pairs of devices that the placement uses have no curves by protocol."""
    used = _routes_in_use(machine, traffic, device_of_rank)
    return sum(not route.protocols for route, _ in used)


def pair_notes(
    machine: Topology, traffic: Traffic, device_of_rank: Sequence[int], present: ProtocolRule
) -> tuple[PairNote, ...]:
    """What one message takes by each protocol, for the pairs of ranks with most bytes."""
    table = traffic.mapped_table()
    notes = []
    for at in np.argsort(-table.bytes, kind="stable"):
        source, target = int(table.source[at]), int(table.target[at])
        route = _route(machine, device_of_rank[source], device_of_rank[target])
        messages = int(table.messages[at])
        if route is None or not route.protocols or not messages:
            continue
        size = int(table.bytes[at]) // messages
        notes.append(
            PairNote(
                source=source,
                target=target,
                bytes=int(table.bytes[at]),
                message_bytes=size,
                seconds=_seconds(machine, route, size),
                present=protocol_route_for(
                    machine, route, present.protocol_of(size)
                ).protocol.value,
            )
        )
        if len(notes) == _PAIRS:
            break
    return tuple(notes)


def _seconds(machine: Topology, route: Route, size: int) -> Mapping[str, float]:
    return {
        option.protocol.value: message_seconds(option, size)
        for option in protocol_routes(machine, route)
    }


def _predicted(
    machine: Topology,
    traffic: Traffic,
    device_of_rank: Sequence[int],
    setting: Setting,
    base_s: float | None,
) -> Prediction:
    devices = tuple(device_of_rank)
    missing = missing_protocols(machine, setting.rule)
    if missing:
        names = ", ".join(each.value for each in missing)
        return Prediction(
            setting=setting, device_of_rank=devices, lacking=f"not measured here: {names}"
        )
    variant = under_rule(machine, setting.rule, typical_bytes(traffic))
    seconds = Evaluator(variant, traffic).evaluate(devices).predicted_s
    gain = 1 - seconds / base_s if base_s else None
    return Prediction(setting=setting, device_of_rank=devices, predicted_s=seconds, gain=gain)


def _time(prediction: Prediction) -> float:
    assert prediction.predicted_s is not None
    return prediction.predicted_s


def _routes_in_use(
    machine: Topology, traffic: Traffic, device_of_rank: Sequence[int]
) -> list[tuple[Route, float]]:
    table = traffic.mapped_table()
    found: dict[tuple[int, int], float] = {}
    for source, target, count in zip(table.source, table.target, table.bytes, strict=True):
        pair = (device_of_rank[int(source)], device_of_rank[int(target)])
        found[pair] = found.get(pair, 0.0) + float(count)
    routes = [(_route(machine, *pair), weight) for pair, weight in found.items()]
    return [(route, weight) for route, weight in routes if route is not None]


def _route(machine: Topology, source: int, target: int) -> Route | None:
    devices = machine.devices
    return machine.route_of_pair.get((devices[source].id, devices[target].id))
