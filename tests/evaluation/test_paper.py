"""Faraji et al. (2017), Fig. 7: congestion of the 16-GPU node, on the paper's own link graph."""

import pytest

from tests.evaluation.machines import congestion_of_level, paper_tree
from toposeat.evaluation import default_placement, evaluate
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.profile import pattern_traffic

# Highest congestion at levels 0..3 in the default order.
DEFAULT_ORDER = {
    "stencil2d:4x4": (179, 553, 1511, 800),
    "stencil2d:4x4,wrap": (179, 663, 1511, 1600),
    "stencil3d:2x2x4": (179, 553, 1511, 1600),
    "stencil3d:2x2x4,wrap": (134, 553, 1511, 1600),
    "stencil2d:4x4,weight=3": (119, 479, 1511, 800),
    "stencil3d:2x2x4,weight=3": (89, 330, 1004, 1600),
    "stencil3d:2x2x4,weight=3,wrap": (74, 329, 1004, 1600),
    "alltoall:4x2x2": (134, 663, 2266, 3200),
}


def normalised(traffic):
    """Volumes scaled to 0..100 and truncated, as the paper's figures have them."""
    volume = traffic.table().dense_bytes(traffic.ranks)
    return Traffic(
        ranks=traffic.ranks,
        origin=traffic.origin,
        tables={
            (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE): PairTable.from_dense(
                volume * 100 // volume.max()
            )
        },
    )


@pytest.mark.parametrize(("pattern", "expected"), DEFAULT_ORDER.items())
def test_default_order_has_the_published_congestion(pattern, expected):
    machine = paper_tree()
    result = evaluate(machine, normalised(pattern_traffic(pattern)), default_placement(16, machine))
    loads = [(load.link, load.congestion_s) for load in result.links]
    assert tuple(round(congestion_of_level(loads, level)) for level in range(4)) == expected
    assert result.max_congestion_s == pytest.approx(max(seconds for _, seconds in loads))


@pytest.mark.parametrize(
    ("make", "before", "after"), [(normalised, 1600, 264), (lambda traffic: traffic, 6, 1)]
)
def test_sixteen_hundred_to_264(make, before, after):
    """3-D weighted, with the heavy first dimension inside the sockets; a sixth if untruncated."""
    machine, traffic = paper_tree(), make(pattern_traffic("stencil3d:2x2x4,weight=3"))
    # Rank (a, b, c) to device: c's upper bit chooses the socket, so that no heavy pair crosses.
    placed = tuple(
        8 * (c // 2) + 4 * (c % 2) + 2 * b + a for a in range(2) for b in range(2) for c in range(4)
    )
    default, result = (
        evaluate(machine, traffic, order) for order in (default_placement(16, machine), placed)
    )
    across = [
        next(load for load in found.links if load.link == "L3-0") for found in (default, result)
    ]
    assert across[0].bytes * after == across[1].bytes * before
    assert [load.congestion_s for load in across] == [load.bytes for load in across]
    assert make is not normalised or across[0].bytes == before
    assert result.cost < default.cost
