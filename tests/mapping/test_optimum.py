"""Every kind of machine, objective, metric and constraint against the checker and enumeration."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mapping.checker import Checker
from tests.mapping.clusters import cluster
from tests.mapping.enumeration import Enumeration
from tests.mapping.machines import (
    complete_mesh,
    measured_topology,
    random_topology,
    random_traffic,
    traffic_of,
    traffic_of_table,
)
from toposeat.evaluation import Evaluator
from toposeat.mapping import map_traffic
from toposeat.model.map_options import METRICS, OBJECTIVES, Constraints, MapOptions
from toposeat.model.traffic import PairTable
from toposeat.topology import read_topology

GOALS = [("time", "bandwidth"), ("congestion", "bandwidth")] + [("cost", m) for m in METRICS]
KINDS = [
    "tree",
    "mesh",
    "torus",
    "cube-mesh",
    "random",
    "measured",
    "sockets",
    "ring",
    "crossbar",
    "hosts",
]
RESTRICTIONS = ["none", "pins", "allowed", "slots", "seats", "excluded", "all"]
EXACT = 1e-9


def machine_of(kind, seed):
    rng = np.random.default_rng(seed)
    made = {"mesh": complete_mesh, "random": random_topology, "measured": measured_topology}
    if kind in made:
        return made[kind](rng, 6)
    if kind == "hosts":
        return cluster(1 + seed % 2, interleaved=seed % 3 == 0)
    named = {
        "tree": f"tree:2:3,bw=4/{rng.integers(1, 9)}",
        "torus": "torus:3x2",
        "cube-mesh": "dgx-1v",
        "sockets": "pcie:2:2:2",
        "ring": "ring:7",
        "crossbar": "nvswitch:6",
    }
    return read_topology(named[kind])


def uneven_traffic(seed, ranks, density=None):
    """Directed, with message counts of their own."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.2, 0.9) if density is None else density
    matrix = random_traffic(rng, ranks, share).mapped_table().dense_bytes(ranks)
    return traffic_of(matrix, rng.integers(1, 30, matrix.shape) * (matrix > 0))


def constraints_of(which, kind, seed):
    """For five ranks on six devices of the machine."""
    rng = np.random.default_rng(seed)
    devices = [5, 0, 4, 1, 2, 3]
    if kind in ("cube-mesh", "hosts", "sockets"):
        devices[-1] = 7
    sets = {rank: sorted(rng.choice(devices, 3, replace=False).tolist()) for rank in (0, 2)}
    kept = {
        "none": Constraints(devices=devices),
        "pins": Constraints(devices=devices, pins={1: 4, 3: 0}),
        "allowed": Constraints(devices=devices, allowed=sets),
        "slots": Constraints(devices=devices[:4], slots={5: 2, 0: 2, 4: 1, 1: 1}),
        "seats": Constraints(devices=devices[:4], slots=3),  # more than eight on few devices
        "excluded": Constraints(devices=devices, exclude=[4]),
        "all": Constraints(
            devices=devices,
            exclude=[devices[-1]],
            slots={5: 2, 0: 2, 4: 1},
            pins={3: 0},
            allowed={0: [0, 5, 2], 2: [4, 5, 1]},
        ),
    }
    return kept[which]


def check_valid(result, every):
    checker = every.checker
    assert every.permits(result.device_of_rank)
    goal = result.objective, result.metric
    placed, default = (
        checker.value(each.device_of_rank, *goal) for each in (result.placed, result.default)
    )
    assert result.certificate.value == pytest.approx(placed, rel=EXACT)
    assert placed <= default * (1 + EXACT)
    assert result.placed.predicted_s == pytest.approx(
        checker.time(result.device_of_rank), rel=EXACT
    )
    assert result.placed.predicted_s <= result.default.predicted_s * (1 + EXACT)
    assert result.placed.max_congestion_s == pytest.approx(
        checker.congestion(result.device_of_rank), rel=EXACT
    )
    assert result.placed.mean_congestion_s == pytest.approx(
        every.mean(result.device_of_rank), rel=EXACT
    )
    assert result.placed.cost == pytest.approx(
        checker.cost(result.device_of_rank, result.metric), rel=EXACT
    )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2)
@given(seed=st.integers(0, 10_000), solver=st.sampled_from(["auto", "exact", "search"]))
def test_enumeration_agrees(kind, seed, solver):
    """Every objective, every restriction: values, bounds and proofs."""
    machine, traffic = machine_of(kind, seed), uneven_traffic(seed, 5)
    for which in RESTRICTIONS:
        constraints = constraints_of(which, kind, seed)
        every = Enumeration(machine, traffic, constraints)
        for objective, metric in GOALS:
            result = map_traffic(
                machine,
                traffic,
                MapOptions(
                    objective=objective,
                    metric=metric,
                    solver=solver,
                    constraints=constraints,
                    budget_s=10,
                ),
            )
            check_valid(result, every)
            optimum = every.least(objective, metric)
            assert result.certificate.lower_bound is not None
            assert result.certificate.lower_bound <= optimum * (1 + EXACT)
            if result.certificate.proved:
                assert result.certificate.value == pytest.approx(optimum, rel=EXACT)
            if solver != "search":
                assert result.certificate.lower_bound == pytest.approx(optimum, rel=EXACT)


@pytest.mark.parametrize("kind", ["torus:3x3", "mesh:3x3", "torus:4x3", "ring:9", "random"])
@settings(max_examples=2)
@given(seed=st.integers(0, 10_000))
def test_limits_agree_with_enumeration(kind, seed):
    """Above eight devices congestion and time are proved by limits."""
    rng = np.random.default_rng(seed)
    machine = random_topology(rng, 9) if kind == "random" else read_topology(kind)
    traffic = uneven_traffic(seed, 4)
    pins = {1: int(rng.integers(0, 9))} if seed % 3 == 0 else {}
    constraints = Constraints(pins=pins)
    every = Enumeration(machine, traffic, constraints)
    for objective in ("congestion", "time"):
        result = map_traffic(
            machine, traffic, MapOptions(objective=objective, constraints=constraints, budget_s=10)
        )
        check_valid(result, every)
        optimum = every.least(objective, "bandwidth")
        assert result.certificate.lower_bound == pytest.approx(optimum, rel=EXACT)
        if result.certificate.proved:
            assert result.certificate.value == pytest.approx(optimum, rel=EXACT)


def test_solvers_that_prove_nothing_state_what_they_found():
    """Values and bounds of the placement that they answer, against the same judges."""
    machine, traffic = machine_of("mesh", 7), uneven_traffic(7, 5)
    every = Enumeration(machine, traffic, Constraints())
    for solver, (objective, metric) in itertools.product(["default", "random"], GOALS):
        result = map_traffic(
            machine, traffic, MapOptions(objective=objective, metric=metric, solver=solver)
        )
        checked = result
        if solver == "random":  # the only one that may be worse than the default
            checked = dataclasses.replace(result, default=result.placed)
        check_valid(checked, every)
        optimum = every.least(objective, metric)
        certificate = result.certificate
        assert certificate.lower_bound is None or certificate.lower_bound <= optimum * (1 + EXACT)
        assert not certificate.proved or certificate.value <= optimum * (1 + EXACT)


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(KINDS))
def test_of_the_least_congested_the_mean_is_least(seed, kind):
    """Also where the maximum is that of the default; proofs by limits do not promise it."""
    machine, traffic = machine_of(kind, seed), uneven_traffic(seed, 5)
    constraints = constraints_of("pins", kind, seed)
    every = Enumeration(machine, traffic, constraints)
    result = map_traffic(
        machine, traffic, MapOptions(objective="congestion", constraints=constraints)
    )
    default_s = result.default.predicted_s
    assert default_s is not None
    slower = any("slower" in note for note in result.notes)  # all of the least maximum are
    promised = result.certificate.proved and "limits" not in result.solver
    if promised and not slower and not result.kept_default:
        assert result.placed.mean_congestion_s == pytest.approx(
            every.least_mean(default_s), rel=EXACT
        )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(KINDS), goal=st.sampled_from(GOALS))
def test_names_of_devices_do_not_matter(seed, kind, goal):
    machine, traffic = machine_of(kind, seed), uneven_traffic(seed, 6)
    order = np.random.default_rng(seed).permutation(len(machine.devices))
    renamed = dataclasses.replace(machine, devices=tuple(machine.devices[i] for i in order))
    first, second = (
        map_traffic(each, traffic, MapOptions(objective=goal[0], metric=goal[1], budget_s=20))
        for each in (machine, renamed)
    )
    assert first.certificate.lower_bound == pytest.approx(second.certificate.lower_bound, rel=EXACT)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(KINDS), goal=st.sampled_from(GOALS))
def test_names_of_ranks_do_not_matter(seed, kind, goal):
    machine, traffic = machine_of(kind, seed), uneven_traffic(seed, 6)
    order = np.random.default_rng(seed).permutation(6)
    table = traffic.mapped_table()
    moved = order[table.source], order[table.target], table.bytes, table.messages
    renamed = traffic_of_table(6, PairTable.from_pairs(*moved))
    first, second = (
        map_traffic(machine, each, MapOptions(objective=goal[0], metric=goal[1], budget_s=20))
        for each in (traffic, renamed)
    )
    assert first.certificate.lower_bound == pytest.approx(second.certificate.lower_bound, rel=EXACT)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    "machine", ["k80-16", "k80-16-faraji", "dgx-1v", "power9-4", "mi250x-8", "tree:2:2:2:2"]
)
def test_values_and_bounds_of_larger_machines(machine, objective):
    """Where enumeration ends: values are recomputed, and no exchange beats what was found by time,
    or proved."""
    topology = read_topology(machine)
    ranks = len(topology.devices)
    traffic = uneven_traffic(5, ranks, 0.1)
    result = map_traffic(topology, traffic, MapOptions(objective=objective))
    checker = Checker(topology, traffic)
    value = checker.value(result.device_of_rank, objective, "bandwidth")
    assert result.certificate.value == pytest.approx(value, rel=EXACT)
    assert result.certificate.lower_bound is not None
    if not result.certificate.proved and objective != "time":
        return
    of_time = Evaluator(
        topology, traffic
    ).predicted_s  # as the checker, in a thousandth of its time
    placed = list(result.device_of_rank)
    for r in range(ranks):
        for s in range(r):
            placed[r], placed[s] = placed[s], placed[r]
            if objective == "time":
                assert of_time(placed) >= value * (1 - EXACT)
            else:
                assert checker.value(placed, objective, "bandwidth") >= value * (1 - EXACT)
            placed[r], placed[s] = placed[s], placed[r]


def test_directions_cost_what_they_cost():
    """A machine whose way back is slow, and traffic one way: only the right direction is cheap."""
    machine = complete_mesh(np.random.default_rng(3), 4)
    links = tuple(
        dataclasses.replace(
            link,
            backward_bytes_per_s=dataclasses.replace(
                link.forward_bytes_per_s, value=link.forward_bytes_per_s.value / 50
            ),
        )
        for link in machine.links
    )
    machine = dataclasses.replace(machine, links=links)
    matrix = np.zeros((4, 4), np.int64)
    matrix[3, 2] = matrix[2, 1] = matrix[1, 0] = 10**9  # against the fast direction by default
    traffic = traffic_of(matrix)
    checker = Checker(machine, traffic)
    for goal in GOALS:
        if goal in {("cost", "latency"), ("cost", "distance")}:
            continue
        result = map_traffic(machine, traffic, MapOptions(objective=goal[0], metric=goal[1]))
        assert result.certificate.proved
        assert result.certificate.value == pytest.approx(
            Enumeration(machine, traffic, Constraints()).least(*goal), rel=EXACT
        )
        assert result.certificate.value < 0.1 * checker.value((0, 1, 2, 3), *goal)
        for source, target in ((3, 2), (2, 1), (1, 0)):
            assert result.device_of_rank[source] < result.device_of_rank[target]
