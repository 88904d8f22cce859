"""Phases and iterations: worked by hand, and against an exact simulation that shares no code."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evaluation.machines import two_switches
from tests.evaluation.max_min_reference import reference_finish, reference_schedule
from tests.evaluation.test_flow import machines
from toposeat.errors import InputError
from toposeat.evaluation import ScheduleEvaluator
from toposeat.model.pair_table import Schedule
from toposeat.model.traffic import PairTable


def schedule_of(ranks, *phases, repeats=1):
    tables = tuple(PairTable.from_pairs(*(zip(*phase, strict=True))) for phase in phases)
    return Schedule(ranks=ranks, origin="test", phases=tables, repeats=repeats)


@st.composite
def cases(draw):
    """A machine, phases and a placement of distinct devices."""
    machine = draw(machines())
    ranks = draw(st.integers(2, len(machine.devices)))
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    phases = [
        [
            (*pair, draw(st.integers(0, 200)), draw(st.integers(1, 3)))
            for pair in sorted(
                draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1, max_size=5))
            )
        ]
        for _ in range(draw(st.integers(1, 4)))
    ]
    order = draw(st.permutations(range(len(machine.devices))))
    return machine, phases, list(order[:ranks])


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 2))
def test_equals_the_exact_reference(case, repeats):
    machine, phases, placement = case
    schedule = schedule_of(len(placement), *phases, repeats=repeats)
    expected = reference_schedule(machine, phases * repeats, placement)
    result = ScheduleEvaluator(machine, schedule).time(placement)
    assert result.seconds == pytest.approx(float(expected), rel=1e-9)
    assert max(result.phase_end_s) == result.seconds
    each = [max(reference_finish(machine, phase, placement)) for phase in phases]
    barrier = ScheduleEvaluator(machine, schedule).time(placement, barrier=True)
    assert barrier.seconds == pytest.approx(repeats * float(sum(each)), rel=1e-9)
    assert len(barrier.phase_end_s) == len(result.phase_end_s) == repeats * len(phases)


def test_a_phase_without_messages_ends_with_the_one_before():
    machine = two_switches(uplink=50, latency=0.5)
    phases = (PairTable.from_pairs([0], [1], [100], [1]), PairTable.empty())
    schedule = Schedule(ranks=2, origin="test", phases=phases)
    for barrier in (True, False):
        result = ScheduleEvaluator(machine, schedule).time([0, 1], barrier=barrier)
        assert result.phase_end_s == (1.5, 1.5)
    nothing = Schedule(ranks=2, origin="test", phases=())
    assert ScheduleEvaluator(machine, nothing).time([0, 1]).seconds == 0


def test_messages_to_oneself_take_no_time():
    machine = two_switches(uplink=50, latency=0.5)
    schedule = schedule_of(2, [(0, 0, 10**9, 5), (0, 1, 100, 1)])
    assert ScheduleEvaluator(machine, schedule).time([0, 1]).seconds == 1.5


def test_what_does_not_fit_is_refused():
    machine = two_switches(uplink=50, latency=0.5)
    with pytest.raises(InputError, match="rank 1: device 9 does not exist"):
        ScheduleEvaluator(machine, schedule_of(2, [(0, 1, 1, 1)])).time([0, 9])
    with pytest.raises(ValueError, match="more than 4194304 flows"):
        schedule_of(2, [(0, 1, 1, 1)], repeats=1 << 23)
