"""No proof contradicts the wiring that `doctor` prints, and none a placement that is faster.

Placements drawn at random and evaluated one by one are the oracle.
"""

import random

import numpy as np
import pytest

from tests.mapping.machines import traffic_of
from tests.support.catalogue import CATALOGUE
from toposeat import pipeline, topology
from toposeat.errors import ToposeatError
from toposeat.evaluation import Evaluator
from toposeat.model.health import Shape
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology

MOST_DEVICES = 16
PLACEMENTS = 60
SAME_FOR_ALL = (Shape.SINGLE, Shape.UNIFORM, Shape.UNKNOWN)


def traffics(ranks, seed):
    """A few heavy pairs, a ring, and groups."""
    draw = random.Random(seed)
    sent = np.zeros((ranks, ranks), np.int64)
    for _ in range(ranks):
        a, b = draw.sample(range(ranks), 2)
        sent[a, b] += draw.randint(1, 9) * 10**8
    found = [traffic_of(sent), pattern_traffic(f"ring:{ranks}")]
    if ranks % 2 == 0 and ranks > 2:
        found.append(pattern_traffic(f"llm:tp=2,dp={ranks // 2}"))
    return found


def check(machine, seed):
    count = len(machine.devices)
    if not 2 <= count <= MOST_DEVICES or len(machine.hosts) > 1 or not machine.routes:
        return
    shape = topology.wiring_of(machine).shape
    for traffic in traffics(count, seed):
        result = pipeline.map_traffic(machine, traffic)
        if result.uniform:
            assert shape in SAME_FOR_ALL, f"{machine.name}: interchangeable, and {shape.value}"
        if shape is Shape.UNIFORM:
            times = (result.placed.predicted_s, result.default.predicted_s)
            assert times[0] == pytest.approx(times[1], rel=1e-3)  # two boards: another switch
        none_is_faster(machine, traffic, result, seed)


def none_is_faster(machine, traffic, result, seed):
    """Than a bound that the certificate states, at nominal numbers."""
    bound = result.certificate.lower_bound
    if bound is None:
        return
    evaluator, draw = Evaluator(machine, traffic), random.Random(seed)
    for _ in range(PLACEMENTS):
        row = draw.sample(range(len(machine.devices)), traffic.ranks)
        assert evaluator.evaluate(row).predicted_s >= bound * (1 - 1e-9)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_of_the_catalogue(name):
    check(read_topology(name), seed=len(name))


@pytest.mark.parametrize("slow", [0, 1, 2, 3])
def test_of_measured_machines(tmp_path, slow):
    """Pairs that are alike, but for some that were measured to be slow."""
    for seed in range(5):
        draw = random.Random(seed)
        rates = np.full((4, 4), 20.0)
        np.fill_diagonal(rates, 900.0)
        for _ in range(slow):
            a, b = draw.sample(range(4), 2)
            rates[a, b] = rates[b, a] = 5.0
        rows = (f"{at:6} " + " ".join(f"{x:6.2f}" for x in row) for at, row in enumerate(rates))
        path = tmp_path / f"{seed}.txt"
        path.write_text(
            "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n"
            "   D\\D     0      1      2      3\n" + "\n".join(rows) + "\n"
        )
        check(read_topology(path), seed)


def test_of_recorded_machines(shared_dir):
    checked = 0
    for path in sorted((shared_dir / "machines" / "nvidia-smi-topo").glob("*.txt"))[:25]:
        try:
            machine = read_topology(path)
        except ToposeatError:
            continue
        check(machine, seed=checked)
        checked += 1
    assert checked > 10
