"""Flow time against SimGrid, which shares the fluid model but no code.

With equal latencies everywhere: SimGrid weights flows by 1/latency, we do not.
`python -m benchmarks.referee` is the same over all patterns, machines and sizes.
"""

import dataclasses
import random

import pytest
from benchmarks.referee.simgrid import why_no_smpi
from benchmarks.referee.simulator import Referee, check_simulated

from tests.evaluation.machines import mixed_tree, two_switches
from tests.evaluation.test_flow import traffic_of
from tests.model.test_route import curve, staged_pair
from toposeat.errors import InputError, ToposeatError
from toposeat.evaluation import ScheduleEvaluator, evaluate
from toposeat.model.pair_table import Schedule
from toposeat.model.quantity import nominal
from toposeat.profile import collective_schedule, pattern_traffic

pytestmark = pytest.mark.skipif(why_no_smpi() is not None, reason=str(why_no_smpi()))

TOLERANCE = 2.5e-4  # SMPI adds a header of 16 bytes to each message: 0.024 % of 64 KiB
LATENCY_S = 2e-5


@pytest.fixture(scope="module")
def referee():
    with Referee() as compiled:
        yield compiled


def one_phase(traffic, *, repeats=1):
    phases = (traffic.mapped_table(),)
    return Schedule(ranks=traffic.ranks, origin=traffic.origin, phases=phases, repeats=repeats)


def check(referee, machine, flows, placement):
    """One phase; returns the simulated seconds."""
    traffic = traffic_of(len(placement), flows)
    mine = evaluate(machine, traffic, placement)
    theirs = referee.seconds(machine, one_phase(traffic), placement)
    assert theirs >= mine.max_congestion_s
    assert mine.predicted_s == pytest.approx(theirs, rel=TOLERANCE)
    return theirs


@pytest.mark.parametrize("pattern", ["stencil2d:4x4", "stencil2d:4x4,weight=3,wrap"])
@pytest.mark.parametrize("size", ["64KiB", "4MiB"])
def test_three_iterations_of_a_stencil(referee, pattern, size):
    machine = mixed_tree(bandwidth=10e9, latency=LATENCY_S)
    traffic = pattern_traffic(f"{pattern},bytes={size}")
    schedule = one_phase(traffic, repeats=3)
    times = []
    for placement in (list(range(16)), random.Random(1).sample(range(16), 16)):
        mine = ScheduleEvaluator(machine, schedule).time(placement).seconds
        times.append(referee.seconds(machine, schedule, placement))
        assert mine == pytest.approx(times[-1], rel=TOLERANCE)
    assert times[0] != times[1]  # the referee sees the placement


@pytest.mark.parametrize("algorithm", ["linear", "pairwise", "bruck"])
def test_algorithms_of_a_collective(referee, algorithm):
    machine = mixed_tree(bandwidth=10e9, latency=LATENCY_S)
    groups = [list(range(k, 16, 4)) for k in range(4)]
    schedule = collective_schedule("alltoall", algorithm, groups, 1 << 20)
    placement = random.Random(2).sample(range(16), 16)
    mine = ScheduleEvaluator(machine, schedule).time(placement).seconds
    assert mine == pytest.approx(referee.seconds(machine, schedule, placement), rel=TOLERANCE)


def test_combined_capacity_caps_and_uneven_volumes(referee):
    machine = two_switches(
        uplink=50, combined=70, far_cap=30, latency=1e-5, uplink_latency=0, unit=1e8
    )
    volumes = {(0, 2): 30, (1, 3): 50, (3, 1): 40, (2, 0): 5, (0, 1): 60, (2, 3): 1}
    flows = [(a, b, megabytes * 10**6, 1) for (a, b), megabytes in volumes.items()]
    check(referee, machine, flows, [0, 1, 2, 3])


def test_staged_routes_and_limits_of_a_pair(referee):
    machine = staged_pair()
    out = dataclasses.replace(
        machine.routes[0], curve=None, cap_bytes_per_s=None, combined_bytes_per_s=nominal(8e9)
    )
    back = dataclasses.replace(
        machine.routes[1],
        staged=True,
        links=("l1", "up", "up", "l0"),
        latency_s=out.latency_s,
    )
    machine = dataclasses.replace(machine, routes=(out, back))
    both = [(0, 1, 10**8, 1), (1, 0, 10**8, 1)]
    seconds = check(referee, machine, both, [0, 1])
    assert seconds == pytest.approx(19e-6 + 2e8 / 8e9, rel=1e-5)  # the pair's limit
    free = tuple(dataclasses.replace(r, combined_bytes_per_s=None) for r in machine.routes)
    machine = dataclasses.replace(machine, routes=free)
    # Both copies go up and down the one uplink: half of it in each direction.
    assert check(referee, machine, both, [0, 1]) == pytest.approx(19e-6 + 1e8 / 5e9, rel=1e-5)
    narrow = tuple(
        dataclasses.replace(link, combined_bytes_per_s=nominal(12e9)) if link.id == "up" else link
        for link in machine.links
    )
    machine = dataclasses.replace(machine, links=narrow)
    # Each byte uses the uplink's 12 GB/s twice, and there are two copies.
    assert check(referee, machine, both, [0, 1]) == pytest.approx(19e-6 + 4e8 / 12e9, rel=1e-5)


def test_curves_are_taken_at_the_message_size(referee):
    machine = staged_pair()
    slow = dataclasses.replace(
        machine.routes[0], curve=curve((1024, 5e-6, 1e9), (1 << 20, 25e-6, 9e9))
    )
    machine = dataclasses.replace(machine, routes=(slow, machine.routes[1]))
    for size in (1 << 15, 1 << 22):
        traffic = traffic_of(2, [(0, 1, size, 1)])
        theirs = referee.seconds(machine, one_phase(traffic), [0, 1], message_bytes=size)
        mine = evaluate(machine, traffic, [0, 1]).predicted_s
        assert mine == pytest.approx(theirs, rel=5e-4)


def test_ranks_that_share_a_device(referee):
    machine = two_switches(uplink=50, latency=1e-5, uplink_latency=0, unit=1e8)
    shared = dataclasses.replace(
        machine.devices[0], copy_bytes_per_s=nominal(20e8), copy_latency_s=nominal(1e-5)
    )
    machine = dataclasses.replace(machine, devices=(shared, *machine.devices[1:]))
    check(referee, machine, [(0, 1, 10**8, 1), (1, 2, 10**8, 1)], [0, 0, 2])


def test_a_referee_that_exceeds_a_link_is_refused():
    machine = two_switches(uplink=50, latency=0.0)
    schedule = one_phase(traffic_of(4, [(0, 2, 100, 1), (1, 3, 100, 1)]))
    check_simulated(machine, schedule, [0, 1, 2, 3], 4.0)
    with pytest.raises(ToposeatError, match=r"less than the 4 s that link 'up' needs"):
        check_simulated(machine, schedule, [0, 1, 2, 3], 3.9)


def test_messages_that_mpi_cannot_count_are_refused(referee):
    traffic = traffic_of(2, [(0, 1, 2**31, 1)])
    with pytest.raises(InputError, match="more than MPI can count"):
        referee.seconds(staged_pair(), one_phase(traffic), [0, 1])


def test_a_schedule_without_messages_takes_no_time(referee):
    machine = two_switches(uplink=50, latency=1e-5, unit=1e8)
    schedule = Schedule(ranks=1, origin="test", phases=())
    assert referee.seconds(machine, schedule, [3]) == pytest.approx(0, abs=1e-9)
