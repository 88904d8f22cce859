"""Mappings of the 16-GPU node in Faraji et al. (2017), with its own link ratios and volumes."""

import numpy as np
import pytest

from tests.mapping.machines import traffic_of, tree_topology
from toposeat.mapping import map_traffic
from toposeat.model.map_options import MapOptions
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology

# Bandwidths relative to the cross-socket link, from the boards up.
RATIOS = (4.47, 4.47 / 2.47, 4.47 / 4.22, 1.0)


def levels(evaluation):
    """Largest congestion of each level, truncated as the paper prints it."""
    worst = [0.0] * len(RATIOS)
    for link in evaluation.links:
        level = int(link.link[1])
        worst[level] = max(worst[level], link.congestion_s)
    return [int(value + 1e-6) for value in worst]


def volumes(pattern):
    """Traffic normalised to 0..100 and truncated to integers."""
    matrix = pattern_traffic(pattern).mapped_table().dense_bytes(16)
    return (matrix * 100 // matrix.max()).astype(np.int64)


# (default, optimum of the sum); None where several optima differ in that level.
TABLE = {
    "stencil2d:4x4": ([178, 552, 1510, 800], [178, 552, 755, 800]),
    "stencil2d:4x4,wrap": ([178, 663, 1510, 1600], [178, 663, 1510, 1600]),
    "stencil3d:2x2x4": ([178, 552, 1510, 1600], [178, None, None, 800]),
    "stencil3d:2x2x4,wrap": ([134, 552, 1510, 1600], [134, 442, 755, 800]),
    "stencil2d:4x4,weight=3": ([119, 478, 1510, 800], [119, 256, 498, 264]),
    "stencil3d:2x2x4,weight=3": ([89, 330, 1004, 1600], [89, 218, None, 264]),
    "stencil3d:2x2x4,weight=3,wrap": ([73, 329, 1004, 1600], [73, 143, 241, 256]),
    "alltoall:4x2x2": ([134, 663, 2265, 3200], [134, 442, 0, 0]),
}


@pytest.mark.parametrize("pattern", TABLE)
def test_congestion_by_level(pattern):
    machine = tree_topology([2, 2, 2, 2], RATIOS, RATIOS)
    result = map_traffic(machine, traffic_of(volumes(pattern)), MapOptions(objective="cost"))
    default, optimum = TABLE[pattern]
    assert result.certificate.proved
    assert levels(result.default) == default
    found = levels(result.placed)
    assert [b for a, b in zip(optimum, found, strict=True) if a is not None] == [
        a for a in optimum if a is not None
    ]


@pytest.mark.parametrize("objective", ["cost", "congestion"])
def test_wrapped_plane_is_kept_where_it_is(objective):
    result = map_traffic(
        read_topology("k80-16"),
        pattern_traffic("stencil2d:4x4,wrap"),
        MapOptions(objective=objective),
    )
    assert result.certificate.proved
    assert result.device_of_rank == tuple(range(16))
    assert result.notes == ("default is already optimal",)
