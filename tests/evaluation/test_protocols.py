"""Machines under a rule of protocols: by hand, and against the curves themselves."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.errors import InputError
from toposeat.evaluation import (
    Evaluator,
    typical_bytes,
    under_rule,
)
from toposeat.model.protocol import ProtocolRule, rule_of
from toposeat.model.quantity import Source, nominal
from toposeat.model.topology import (
    Component,
    ComponentKind,
    CopyProtocol,
    CurvePoint,
    Device,
    Link,
    LinkKind,
    ProtocolRoute,
    Route,
    RouteCurve,
    Topology,
)
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind

GET, PUT, STAGED = CopyProtocol.GET, CopyProtocol.PUT, CopyProtocol.STAGED
MIB = 1 << 20


def line(latency_s: float, bytes_per_s: float) -> RouteCurve:
    sizes = (1, 1024, 64 << 10, MIB, 16 * MIB)
    return RouteCurve(
        points=tuple(
            CurvePoint(message_bytes=s, latency_s=latency_s, bytes_per_s=bytes_per_s) for s in sizes
        ),
        source=Source.MEASURED,
    )


def node(near: int = 2) -> Topology:
    """Four GPUs, each with its own link to the host.

    g0  g1   g2  g3     a pair is near if its numbers differ by less than `near`:
     \\   \\   /   /      near: get 10 GB/s, staged 4; far: get 2, staged 4,
      -- host --        staged takes 20 us more to begin
    """
    links = tuple(
        Link(
            id=f"l{i}",
            kind=LinkKind.PCIE,
            ends=(f"g{i}", "host"),
            forward_bytes_per_s=nominal(20e9),
            backward_bytes_per_s=nominal(20e9),
            latency_s=nominal(1e-6),
        )
        for i in range(4)
    )
    routes = []
    for a, b in permutations(range(4), 2):
        direct = line(10e-6, 10e9 if abs(a - b) < near else 2e9)
        ways = (
            ProtocolRoute(protocol=GET, curve=direct),
            ProtocolRoute(protocol=STAGED, curve=line(30e-6, 4e9), links=(f"l{a}", f"l{b}")),
        )
        route = Route(source=f"g{a}", target=f"g{b}", links=(f"l{a}", f"l{b}"), protocols=ways)
        routes.append(route)
    return Topology(
        name="node",
        origin="test",
        devices=tuple(Device(id=f"g{i}", index=i) for i in range(4)),
        components=(Component(id="host", kind=ComponentKind.NUMA),),
        links=links,
        routes=tuple(routes),
    )


def traffic(*pairs: tuple[int, int, int, int], ranks: int = 4) -> Traffic:
    """Pairs of (source, target, bytes, messages)."""
    table = PairTable.from_pairs(*map(list, zip(*pairs, strict=True)))
    return Traffic(
        ranks=ranks,
        origin="test",
        tables={(TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE): table},
    )


def seconds(machine: Topology, load: Traffic, devices: tuple[int, ...] = (0, 1, 2, 3)) -> float:
    return Evaluator(machine, load).evaluate(devices).predicted_s


@pytest.mark.parametrize(
    ("protocol", "target", "expected_s"),
    [
        (GET, 1, 10e-6 + MIB / 10e9),
        (STAGED, 1, 30e-6 + MIB / 4e9),
        (GET, 3, 10e-6 + MIB / 2e9),
        (STAGED, 3, 30e-6 + MIB / 4e9),
    ],
)
def test_one_message_takes_what_the_curve_says(
    protocol: CopyProtocol, target: int, expected_s: float
) -> None:
    load = traffic((0, target, MIB, 1))
    machine = under_rule(node(), rule_of(protocol), typical_bytes(load))
    assert seconds(machine, load) == pytest.approx(expected_s, rel=1e-9)


@given(
    st.integers(1, 16 * MIB),
    st.integers(2, 8 * MIB),
    st.sampled_from([1, 3]),
    st.sampled_from([(GET, STAGED), (STAGED, GET)]),
)
def test_a_threshold_decides_by_message_size(
    size: int, threshold: int, target: int, protocols: tuple[CopyProtocol, CopyProtocol]
) -> None:
    rule = ProtocolRule(pieces=((0, protocols[0]), (threshold, protocols[1])))
    route = under_rule(node(), rule, size).route_of_pair["g0", f"g{target}"]
    assert route.curve is not None
    ways = {w.protocol: w for w in node().route_of_pair["g0", f"g{target}"].protocols or ()}
    latency_s, bytes_per_s = route.curve.at(size)
    wait, rate = ways[rule.protocol_of(size)].curve.at(size)
    assert latency_s + size / bytes_per_s == pytest.approx(wait + size / rate, rel=1e-9)


def test_a_pair_that_cannot_is_staged_and_what_was_not_measured_is_said() -> None:
    machine = node()
    refused = replace(
        machine,
        routes=tuple(
            replace(r, protocols=(r.protocols or ())[1:]) if r.source == "g0" else r
            for r in machine.routes
        ),
    )
    load = traffic((0, 1, MIB, 1))
    assert seconds(under_rule(refused, rule_of(GET), MIB), load) == pytest.approx(
        30e-6 + MIB / 4e9, rel=1e-9
    )
    with pytest.raises(InputError, match="no curves of put"):
        under_rule(machine, rule_of(PUT), MIB)


def test_directions_that_hinder_each_other_share_what_both_reach() -> None:
    machine = node()
    limited = tuple(
        replace(
            r,
            protocols=(
                (r.protocols or ())[0],
                replace((r.protocols or ())[1], combined_bytes_per_s=nominal(5e9)),
            ),
        )
        for r in machine.routes
    )
    machine = replace(machine, routes=limited)
    both = traffic((0, 1, MIB, 1), (1, 0, MIB, 1))
    staged = under_rule(machine, rule_of(STAGED), MIB)
    assert seconds(staged, both) == pytest.approx(30e-6 + MIB / 2.5e9, rel=1e-9)
    assert seconds(staged, traffic((0, 1, MIB, 1))) == pytest.approx(30e-6 + MIB / 4e9, rel=1e-9)
    direct = under_rule(machine, rule_of(GET), MIB)
    assert seconds(direct, both) == pytest.approx(10e-6 + MIB / 10e9, rel=1e-9)
