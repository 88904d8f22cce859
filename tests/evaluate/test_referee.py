"""Flow time against SimGrid, which shares the fluid model but no code.

With equal latencies everywhere: SimGrid weights flows by 1/latency, we do not.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.evaluate.machines import mixed_tree, two_switches
from tests.evaluate.smpi import Flow, Referee, why_not
from tests.evaluate.test_flow import traffic_of
from toposeat.evaluate import evaluate
from toposeat.model.topology import Topology
from toposeat.profile.pattern.patterns import pattern_traffic

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

TOLERANCE = 2.5e-4  # the largest difference seen with equal latencies is 0.024 %


def check(machine: Topology, referee: Referee, flows: list[Flow], placement: list[int]) -> float:
    mine = evaluate(
        machine, traffic_of(len(placement), [(a, b, size, 1) for a, b, size in flows]), placement
    )
    theirs = referee.seconds(flows, placement)
    # SimGrid 3.32 can let flows exceed a link: a referee that does so is no referee.
    assert theirs >= mine.max_congestion_s
    assert mine.predicted_s == pytest.approx(theirs, rel=TOLERANCE)
    return theirs


@pytest.mark.parametrize("pattern", ["stencil2d:4x4", "stencil2d:4x4,weight=3,wrap"])
@pytest.mark.parametrize("size", ["64KiB", "1MiB"])
def test_a_stencil_phase_on_the_16_gpu_node(pattern: str, size: str, tmp_path: Path) -> None:
    machine = mixed_tree(bandwidth=10e9, latency=20e-6)
    table = pattern_traffic(f"{pattern},bytes={size}").table()
    flows = [
        (int(a), int(b), int(n))
        for a, b, n in zip(table.source, table.target, table.bytes, strict=True)
    ]
    referee = Referee(machine, tmp_path)
    in_order = list(range(16))
    shuffled = random.Random(1).sample(in_order, 16)
    times = [check(machine, referee, flows, placement) for placement in (in_order, shuffled)]
    assert times[0] != times[1]  # the referee sees the placement


def test_combined_capacity_caps_and_uneven_volumes(tmp_path: Path) -> None:
    # Large volumes: SimGrid adds a header of 16 bytes to each message.
    machine = two_switches(
        uplink=50, combined=70, far_cap=30, latency=1e-5, uplink_latency=0, unit=1e8
    )
    volumes = {(0, 2): 30, (1, 3): 50, (3, 1): 40, (2, 0): 5, (0, 1): 60, (2, 3): 1}
    flows = [(a, b, megabytes * 10**6) for (a, b), megabytes in volumes.items()]
    check(machine, Referee(machine, tmp_path), flows, [0, 1, 2, 3])
