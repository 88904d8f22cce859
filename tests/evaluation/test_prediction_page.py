"""The worked examples of docs/explanation/prediction.md, recomputed by the product."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.machines import two_switches
from tests.evaluation.test_flow import traffic_of
from tests.evaluation.test_schedule import schedule_of
from tests.model.test_route import curve
from toposeat.evaluation import ScheduleEvaluator, evaluate
from toposeat.model.quantity import nominal
from toposeat.model.topology import Component, ComponentKind, Link, LinkKind
from toposeat.model.traffic import MemorySpace, TrafficKind
from toposeat.profile import collective_schedule

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "prediction.md"


def stated():
    """Times that the page gives for each example."""
    rows = re.findall(r"^\| (\d+) \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    return {int(number): re.findall(r"(?<=\| )([\d.]+ s)(?= )", row) for number, row in rows}


def shown(seconds):
    return f"{round(seconds, 3):g} s"


def machine(combined=None, far_cap=None):
    return two_switches(
        uplink=50, combined=combined, far_cap=far_cap, latency=0.5, uplink_latency=0.5
    )


def phase(topology, *flows):
    return shown(evaluate(topology, traffic_of(4, flows), range(4)).predicted_s)


def of_route(topology, pair, **changes):
    routes = tuple(
        dataclasses.replace(r, **changes) if (r.source, r.target) == pair else r  # type: ignore[arg-type]
        for r in topology.routes
    )
    return dataclasses.replace(topology, routes=routes)


def staged(combined):
    """g0 and g1 reach each other through a memory node beyond an uplink."""
    near = machine()
    up = Link(
        id="memory",
        kind=LinkKind.PCIE,
        ends=("s", "m"),
        forward_bytes_per_s=nominal(50),
        backward_bytes_per_s=nominal(50),
        combined_bytes_per_s=None if combined is None else nominal(combined),
        latency_s=nominal(0.5),
    )
    near = dataclasses.replace(
        near,
        components=(*near.components, Component(id="m", kind=ComponentKind.NUMA)),
        links=(*near.links, up),
    )
    for a, b in (("0", "1"), ("1", "0")):
        near = of_route(
            near,
            (f"g{a}", f"g{b}"),
            links=(f"p{a}", "memory", "memory", f"p{b}"),
            staged=True,
            latency_s=nominal(2),
        )
    return near


def test_every_example_has_a_test():
    assert sorted(stated()) == list(range(1, 25))


@pytest.mark.parametrize(
    ("example", "topology", "flows"),
    [
        (1, machine(), [(0, 1, 100, 1)]),
        (2, machine(), [(0, 2, 100, 1)]),
        (3, machine(), [(0, 2, 100, 1), (1, 3, 100, 1)]),
        (4, machine(far_cap=20), [(0, 2, 100, 1), (1, 3, 100, 1)]),
        (5, machine(), [(0, 2, 100, 1), (1, 3, 200, 1)]),
        (6, machine(), [(0, 2, 100, 4)]),
        (7, machine(), [(0, 2, 100, 1), (3, 1, 100, 1)]),
        (8, machine(combined=50), [(0, 2, 100, 1), (3, 1, 100, 1)]),
        (9, machine(combined=80), [(0, 2, 100, 1), (3, 1, 100, 1)]),
        (12, staged(None), [(0, 1, 100, 1)]),
        (13, staged(None), [(0, 1, 100, 1), (1, 0, 100, 1)]),
        (14, staged(80), [(0, 1, 100, 1), (1, 0, 100, 1)]),
    ],
)
def test_a_phase(example, topology, flows):
    assert stated()[example] == [phase(topology, *flows)]


def test_limits_of_a_pair():
    limited = of_route(machine(), ("g0", "g2"), combined_bytes_per_s=nominal(60))
    assert stated()[10] == [phase(limited, (0, 2, 100, 1), (2, 0, 100, 1))]
    assert stated()[11] == [phase(limited, (2, 0, 100, 1))]


def test_message_sizes():
    bent = of_route(machine(), ("g0", "g1"), curve=curve((12, 1.0, 6.0), (192, 3.0, 64.0)))
    assert stated()[15] == [phase(bent, (0, 1, 12, 1))]
    assert stated()[16] == [phase(bent, (0, 1, 48, 1))]
    histogram = np.zeros(65, np.int64)
    histogram[4], histogram[8] = 9, 1
    traffic = dataclasses.replace(
        traffic_of(4, [(0, 1, 300, 10)]),
        histograms={(TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE): histogram},
    )
    assert stated()[17] == [shown(evaluate(bent, traffic, range(4)).predicted_s)]


def test_rounds():
    flows = [(0, 1, 0, 2), (0, 2, 0, 1), (0, 3, 0, 3)]
    rounds = {MemorySpace.DEVICE: traffic_of(4, flows).table()}
    for example, nbytes in ((23, 0), (24, 300)):
        flows[1] = (0, 2, nbytes, 1)
        traffic = dataclasses.replace(traffic_of(4, flows), rounds=rounds)
        found = evaluate(machine(), traffic, range(4))
        assert stated()[example] == [shown(found.predicted_s)]
        assert found.latency is not None
        assert (found.latency.share, found.latency.source) == (1.0 if example == 23 else 1 / 7, 0)
        assert (found.latency.target, found.latency.messages) in ((None, 6), (2, 1))


@pytest.mark.parametrize(("example", "second"), [(18, (2, 0, 100, 1)), (19, (2, 3, 300, 1))])
def test_phases(example, second):
    schedule = schedule_of(4, [(0, 1, 100, 1)], [second])
    times = [
        ScheduleEvaluator(machine(), schedule).time(range(4), barrier=barrier).seconds
        for barrier in (True, False)
    ]
    assert stated()[example] == [shown(seconds) for seconds in times]


@pytest.mark.parametrize(
    ("example", "algorithm"), [(20, "linear"), (21, "pairwise"), (22, "bruck")]
)
def test_algorithms(example, algorithm):
    schedule = collective_schedule("alltoall", algorithm, [[0, 1, 2, 3]], 100)
    seconds = ScheduleEvaluator(machine(), schedule).time(range(4)).seconds
    assert stated()[example] == [shown(seconds)]
