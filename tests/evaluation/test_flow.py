"""The core's flow time against an independent exact model, and the laws both must obey."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evaluation.machines import device, link, paper_tree, two_switches
from tests.evaluation.max_min_reference import reference_finish
from toposeat import _core
from toposeat.evaluation import compile_network, compile_traffic, default_placement, evaluate
from toposeat.model.quantity import nominal
from toposeat.model.topology import (
    Component,
    ComponentKind,
    CurvePoint,
    Route,
    RouteCurve,
    Topology,
)
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.profile import pattern_traffic

CAPACITIES = st.sampled_from([1.0, 3.0, 10.0, 10.0, 25.0, 40.0, 77.0])
COMBINED = st.none() | CAPACITIES
LIMITS = st.none() | CAPACITIES.map(nominal)
LATENCIES = st.none() | st.sampled_from([0.0, 1.0, 3.0]).map(nominal)
CURVES = st.none() | st.builds(
    lambda sizes, latencies, rates: RouteCurve(
        points=tuple(
            CurvePoint(message_bytes=size, latency_s=latency, bytes_per_s=rate)
            for size, latency, rate in zip(sorted(sizes), latencies, rates, strict=False)
        )
    ),
    st.sets(st.integers(1, 100), min_size=1, max_size=4),
    st.lists(st.sampled_from([0.0, 0.25, 1.0, 2.0]), min_size=4, max_size=4),
    st.lists(CAPACITIES, min_size=4, max_size=4),
)


def traffic_of(ranks, flows):
    """Of flows (source, target, bytes, messages)."""
    columns = list(zip(*flows, strict=True)) or [(), (), (), ()]
    return Traffic(
        ranks=ranks,
        origin="test",
        tables={(TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE): PairTable.from_pairs(*columns)},
    )


@st.composite
def machines(draw):
    """Random trees of switches, every number random, with routes of all sorts."""
    devices = draw(st.integers(2, 6))
    switches = draw(st.integers(1, 4))
    parents = [draw(st.integers(0, k - 1)) for k in range(1, switches)]
    homes = [draw(st.integers(0, switches - 1)) for _ in range(devices)]
    edges = [(f"s{k + 1}", f"s{parent}") for k, parent in enumerate(parents)]
    edges += [(f"g{i}", f"s{home}") for i, home in enumerate(homes)]
    links = [
        link(
            f"l{k}",
            ends if draw(st.booleans()) else (ends[1], ends[0]),
            draw(CAPACITIES),
            draw(CAPACITIES),
            combined=draw(COMBINED),
            latency=draw(st.sampled_from([0.0, 0.0, 0.5, 2.0])),
        )
        for k, ends in enumerate(edges)
    ]
    routes = []
    for i in range(devices):
        for j in range(devices):
            if i != j:
                routes.append(route_between(draw, links, f"g{i}", f"g{j}"))
    return Topology(
        name="random tree",
        origin="test",
        devices=tuple(device(i) for i in range(devices)),
        components=tuple(Component(id=f"s{k}", kind=ComponentKind.SWITCH) for k in range(switches)),
        links=tuple(links),
        routes=tuple(routes),
    )


def route_between(draw, links, source, target):
    """The way through the tree, or up to the root and down again, with limits of its own."""
    staged = draw(st.booleans())
    way = _path(links, source, target)
    if staged:
        way = _path(links, source, "s0") + _path(links, "s0", target)
    return Route(
        source=source,
        target=target,
        links=way,
        staged=staged,
        cap_bytes_per_s=draw(LIMITS),
        combined_bytes_per_s=draw(LIMITS),
        latency_s=draw(LATENCIES),
        curve=draw(CURVES),
    )


def _path(links, here, target, came=""):
    if here == target:
        return ()
    for each in links:
        if here in each.ends and each.id != came:
            there = each.ends[1] if each.ends[0] == here else each.ends[0]
            if there == target:
                return (each.id,)
            rest = _path(links, there, target, each.id)
            if rest:
                return (each.id, *rest)
    return ()


@st.composite
def cases(draw):
    """A machine, ranks, flows and a placement that may leave devices free."""
    machine = draw(machines())
    ranks = draw(st.integers(2, len(machine.devices)))
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1, max_size=12))
    flows = [(*pair, draw(st.integers(0, 200)), draw(st.integers(1, 3))) for pair in sorted(chosen)]
    order = draw(st.permutations(range(len(machine.devices))))
    return machine, ranks, flows, list(order[:ranks])


@settings(max_examples=150, deadline=None)
@given(cases())
def test_equals_the_exact_reference(case):
    machine, ranks, flows, placement = case
    expected = [float(each) for each in reference_finish(machine, flows, placement)]
    network, traffic = compile_network(machine), compile_traffic(traffic_of(ranks, flows))
    times = _core.flow_times(network, traffic, placement)
    np.testing.assert_allclose(times.finish_s, expected, rtol=1e-9)
    assert times.seconds == pytest.approx(max(expected), rel=1e-9)
    assert _core.flow_time(network, traffic, placement) == times.seconds


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(2, 1000))
def test_laws(case, factor):
    """Congestion is linear in bytes, and M times bytes and messages take M times as long."""
    machine, ranks, flows, placement = case
    once = evaluate(machine, traffic_of(ranks, flows), placement, metric="distance")
    many = [(a, b, size * factor, messages * factor) for a, b, size, messages in flows]
    result = evaluate(machine, traffic_of(ranks, many), placement, metric="distance")
    for name in ("max_congestion_s", "mean_congestion_s", "cost", "hop_bytes", "predicted_s"):
        assert getattr(result, name) == pytest.approx(factor * getattr(once, name), rel=1e-9)
    assert once.predicted_s >= once.max_congestion_s * (1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(cases(), st.data())
def test_names_of_ranks_and_devices_do_not_matter(case, data):
    machine, ranks, flows, placement = case
    rank_names = data.draw(st.permutations(range(ranks)))
    device_names = data.draw(st.permutations(range(len(machine.devices))))
    devices = list(machine.devices)
    for old, new in enumerate(device_names):
        devices[new] = machine.devices[old]
    renamed_machine = dataclasses.replace(machine, devices=tuple(devices))
    renamed_flows = [(rank_names[a], rank_names[b], size, n) for a, b, size, n in flows]
    renamed_placement = [0] * ranks
    for rank, old_device in enumerate(placement):
        renamed_placement[rank_names[rank]] = device_names[old_device]
    before = evaluate(machine, traffic_of(ranks, flows), placement)
    after = evaluate(renamed_machine, traffic_of(ranks, renamed_flows), renamed_placement)
    for name in ("max_congestion_s", "mean_congestion_s", "cost", "hop_bytes", "predicted_s"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), rel=1e-9)
    assert {(load.link, load.bytes) for load in after.links} == {
        (load.link, load.bytes) for load in before.links
    }


def test_last_flow_and_bottleneck_are_named():
    machine = two_switches(uplink=50, latency=0.0)
    network = compile_network(machine)
    flows = compile_traffic(traffic_of(4, [(0, 1, 10, 1), (0, 2, 200, 1), (1, 3, 400, 1)]))
    times = _core.flow_times(network, flows, [0, 1, 2, 3])
    # The uplink gives 25 to each far flow, port 0 its other 75 to the near one; from 8 on 50.
    assert times.finish_s.tolist() == pytest.approx([10 / 75, 8.0, 12.0])
    assert (times.last_flow, times.bottleneck) == (2, 4)
    capped = compile_network(two_switches(uplink=50, far_cap=10, latency=0.0))
    assert _core.flow_times(capped, flows, [0, 1, 2, 3]).bottleneck is None
    nothing = compile_traffic(traffic_of(4, []))
    assert _core.flow_times(network, nothing, [0, 1, 2, 3]).last_flow is None


def test_a_large_phase_agrees_with_the_reference():
    """All 48 flows of an open 4x4 stencil on 16 devices."""
    machine, traffic = paper_tree(), pattern_traffic("stencil2d:4x4,weight=3,bytes=100")
    table = traffic.mapped_table()
    flows = [
        (int(a), int(b), int(size), int(messages))
        for a, b, size, messages in zip(
            table.source, table.target, table.bytes, table.messages, strict=True
        )
    ]
    expected = reference_finish(machine, flows, range(16))
    result = evaluate(machine, traffic, default_placement(16, machine))
    assert result.predicted_s == pytest.approx(float(max(expected)), rel=1e-9)
