"""The orders of a pattern and what is predicted of them: the published gains of the 16-GPU node."""

import pytest

from toposeat import pipeline, topology
from toposeat.errors import ToposeatError, UsageError
from toposeat.launch import MicrobenchOptions
from toposeat.model.map_options import MapOptions

SIZES = (1, 1024, 16384, 65536, 2**20, 2**22, 2**24)


def planned(pattern, machine="k80-16", *, sizes=SIZES, algorithm=None):
    return pipeline.plan_pattern(
        pattern,
        topology.read_topology(machine),
        MicrobenchOptions(sizes=sizes),
        options=MapOptions(min_gain=0),
        randoms=4,
        algorithm=algorithm,
    )


# Gains at 1 MiB and above that SimGrid, running the patterns under the optimum of the pairwise
# cost, showed for the link model of the catalogue's `k80-16` (percent). Our placements are chosen
# by predicted time, so they may be better by a little, never worse; the times are of one phase,
# SimGrid's of ten iterations without a barrier, up to 3 points apart.
PUBLISHED = {
    "stencil2d:4x4": (26, 3),
    "stencil2d:4x4,wrap": (0, 0),
    "stencil2d:4x4,weight=3": (66, 3),
    "stencil2d:4x4,weight=3,wrap": (51, 3),
    "stencil3d:2x2x4,weight=3,wrap": (68, 3),
    "alltoall:4x2x2": (61, 3),
}


@pytest.mark.parametrize(("pattern", "expected"), PUBLISHED.items())
def test_gains_of_the_k80_node(pattern, expected):
    gain, tolerance = expected
    plan = planned(pattern)
    times = zip(SIZES, plan.predicted(plan.default), plan.predicted(plan.placed), strict=True)
    for size, default, placed in times:
        percent = 100 * (1 - placed / default)
        assert percent >= -1e-6, "never a loss, at any size"
        if size >= 2**20:
            assert abs(percent - gain) <= tolerance + 1e-6


@pytest.mark.parametrize("pattern", ["stencil2d:4x4", "stencil3d:2x2x4,weight=3"])
def test_random_orders_are_below_the_default(pattern):
    """The two patterns for which the paper shows it, and its four random orders."""
    plan = planned(pattern, sizes=(65536, 2**20, 2**24))
    randoms = [plan.predicted(order) for order in plan.randoms]
    assert len(randoms) == 4
    for at, default in enumerate(plan.predicted(plan.default)):
        assert sum(each[at] for each in randoms) / 4 > default


def test_the_algorithm_decides_the_predicted_time():
    """Eight ranks on a crossbar: every step is alone on its links, latency + bytes / bandwidth."""
    times = {}
    for algorithm in ("ring", "recursive-doubling"):
        plan = planned("allreduce:8x1", "dgx-2", sizes=(1, 2**24), algorithm=algorithm)
        times[algorithm] = plan.predicted(plan.default)
    latency, whole = (each / 3 for each in times["recursive-doubling"])  # log2 8 steps
    assert times["ring"] == pytest.approx(  # 2 (n - 1) steps of an n-th each
        [14 * latency, 14 * (latency + (whole - latency) / 8)], rel=1e-3
    )


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(UsageError, match="ring is no collective"):
        planned("ring:4", "tree:2:2", algorithm="ring")
    with pytest.raises(UsageError, match="no algorithm 'ring'") as raised:
        planned("alltoall:4", "tree:2:2", algorithm="ring")
    assert "linear, pairwise, bruck" in raised.value.hint
    with pytest.raises(ToposeatError, match="16 ranks"):
        planned("ring:16", "tree:2:2")
