"""Machines under a rule of protocols: by hand, and against the curves themselves."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat import pipeline
from toposeat.errors import InputError
from toposeat.evaluation import (
    Evaluator,
    crossing_bytes,
    envelope_seconds,
    message_seconds,
    missing_protocols,
    pair_notes,
    predict_settings,
    typical_bytes,
    under_envelope,
    under_rule,
)
from toposeat.launch import named_stack
from toposeat.model.map_options import MapOptions
from toposeat.model.protocol import ProtocolRule, Setting, rule_of
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
    best = min(seconds(under_rule(node(), rule_of(p), MIB), load) for p in (GET, STAGED))
    assert envelope_seconds(node(), load, (0, 1, 2, 3)) == pytest.approx(best, rel=1e-9)


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
    expected = message_seconds(ways[rule.protocol_of(size)], size)
    assert latency_s + size / bytes_per_s == pytest.approx(expected, rel=1e-9)
    best = under_envelope(node(), size).route_of_pair["g0", f"g{target}"]
    assert best.curve is not None
    wait, rate = best.curve.at(size)
    # between two measured sizes the envelope is interpolated
    assert wait + size / rate <= max(message_seconds(w, size) for w in ways.values()) * (1 + 1e-9)


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
    assert missing_protocols(machine, rule_of(PUT)) == (PUT,)
    with pytest.raises(InputError, match="no curves of put"):
        under_rule(machine, rule_of(PUT), MIB)
    bare = replace(machine, routes=tuple(replace(r, protocols=None) for r in machine.routes))
    with pytest.raises(InputError, match="no curves by protocol"):
        under_envelope(bare, MIB)
    with pytest.raises(InputError, match="no curves by protocol"):
        predict_settings(bare, load, (0, 1, 2, 3), rule_of(GET), ())


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


def test_settings_are_sorted_and_what_is_missing_comes_last() -> None:
    settings = [
        Setting(name=p.value, variables={"X": p.value}, rule=rule_of(p)) for p in (PUT, STAGED, GET)
    ]
    load = traffic((0, 3, MIB, 1), (3, 0, MIB, 1))
    base, found = predict_settings(node(), load, (0, 1, 2, 3), rule_of(GET), settings)
    assert [each.setting.name for each in found] == ["staged", "get", "put"]
    assert found[0].gain == pytest.approx(1 - (30e-6 + MIB / 4e9) / (10e-6 + MIB / 2e9))
    assert found[1].gain == 0
    assert base.predicted_s == found[1].predicted_s
    assert found[2].predicted_s is None
    assert "put" in found[2].lacking
    (first, second) = pair_notes(node(), load, (0, 1, 2, 3), rule_of(GET))
    assert {(first.source, first.target), (second.source, second.target)} == {(0, 3), (3, 0)}
    assert first.seconds["staged"] < first.seconds["get"]
    assert first.present == "get"


def test_the_crossing_is_where_direct_begins_to_win() -> None:
    machine = node()
    slow_start = tuple(
        replace(
            r,
            protocols=(
                ProtocolRoute(protocol=GET, curve=line(60e-6, 10e9)),
                (r.protocols or ())[1],
            ),
        )
        for r in machine.routes
    )
    # 60 us + M / 10 GB/s = 30 us + M / 4 GB/s at M = 200 kB: the next measured size is 1 MiB
    load = traffic((0, 1, MIB, 1))
    assert crossing_bytes(replace(machine, routes=slow_start), load, (0, 1, 2, 3)) == MIB
    assert crossing_bytes(machine, load, (0, 1, 2, 3)) is None  # direct always wins
    assert crossing_bytes(machine, traffic((0, 3, MIB, 1)), (0, 1, 2, 3)) is None  # never for large


def all_times(machine: Topology, load: Traffic, rule: ProtocolRule) -> float:
    """Least time over every placement of 4 ranks, by trying them all."""
    variant = under_rule(machine, rule, typical_bytes(load))
    return min(seconds(variant, load, devices) for devices in permutations(range(4)))


@pytest.mark.parametrize("near", [2, 3, 4])
def test_placement_and_protocol_chosen_together_are_the_best_of_all(near: int) -> None:
    load = traffic(
        (0, 1, 8 * MIB, 8),
        (1, 2, 2 * MIB, 2),
        (2, 3, 8 * MIB, 8),
        (0, 3, 4 * MIB, 4),
        (3, 1, 99, 1),
    )
    machine = node(near)
    options = MapOptions(seed=1)
    choice = pipeline.map_with_protocols(machine, load, options, "openmpi-ucx", environment={})
    named = {each.setting.name: each for each in choice.options}
    assert named["sender writes"].lacking == "not measured here: put"
    assert named["present"].setting.rule == named_stack("openmpi-ucx", {}).rule
    best = min(all_times(machine, load, rule_of(p)) for p in (GET, STAGED))
    assert choice.taken[0].placed.predicted_s == pytest.approx(best, rel=1e-6)
    each_pair = pipeline.map_with_protocols(machine, load, options, "per-pair", environment={})
    assert each_pair.taken[0].placed.predicted_s <= best * (1 + 1e-6)
