"""xGMI links from AMD's weights: 15 a link of its own, 13 inside a package, 41 between packages.

Partitions of one package talk over its fabric, two packages over the one link that all their
partitions share. Facts hold links between devices only: that link is drawn between the first
partitions, which relay for the others inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toposeat.model.topology import Bond, LinkKind
from toposeat.topology import constants as k

DIRECT_WEIGHT = 15
PACKAGE_WEIGHT = 13
BETWEEN_PACKAGES_WEIGHT = DIRECT_WEIGHT + 2 * PACKAGE_WEIGHT
_MOST_LANES = 16

Pair = tuple[int, int]
Ranges = Mapping[Pair, tuple[float, float]]  # least and most bytes/s


def packages(count: int, weights: Mapping[Pair, int], stated: Sequence[str | None]) -> list[int]:
    """For each device the first device of its package; most are packages of their own.

    Args:
        count: of devices.
        weights: by pair.
        stated: what the PCI bus id says of a device's package; equal texts are one package.
    """
    first = list(range(count))
    for j in range(count):
        for i in range(j):
            together = stated[i] is not None and stated[i] == stated[j]
            if first[j] == j and (together or weights.get((i, j)) == PACKAGE_WEIGHT):
                first[j] = first[i]
    return first


def xgmi_links(
    pairs: Sequence[Pair], weights: Mapping[Pair, int], ranges: Ranges, package: Sequence[int]
) -> tuple[dict[Pair, Bond], list[Pair]]:
    """Direct bonds, and the pairs that have none.

    Args:
        pairs: that xGMI reaches, (i, j) with i < j.
        weights: of pairs; without one a pair is taken to have a link.
        ranges: of bandwidths, where stated.
        package: see `packages`.
    """
    links: dict[Pair, Bond] = {}
    far: list[Pair] = []
    joined: set[Pair] = set()
    for pair in pairs:
        ends = package[pair[0]], package[pair[1]]
        weight = weights.get(pair, DIRECT_WEIGHT)
        if weight == BETWEEN_PACKAGES_WEIGHT and _partitioned(ends, package):
            if ends not in joined:
                joined.add(ends)
                links |= _link(ends, ranges, pair, k.XGMI_MI300.data_sheet)
        elif weight > DIRECT_WEIGHT:
            far.append(pair)
        else:
            inside = ends[0] == ends[1]
            links |= _link(pair, ranges, pair, k.XGMI_IN_PACKAGE if inside else None)
    return links, far


def _partitioned(ends: Pair, package: Sequence[int]) -> bool:
    return ends[0] != ends[1] and all(package.count(end) > 1 for end in ends)


def _link(ends: Pair, ranges: Ranges, pair: Pair, default: float | None) -> dict[Pair, Bond]:
    least, most = ranges.get(pair, (0.0, 0.0))
    back = ranges.get((pair[1], pair[0]), (0.0, 0.0))[1]
    count = max(1, min(_MOST_LANES, round(most / least))) if least else 1
    return {
        ends: Bond(kind=LinkKind.XGMI, count=count, bytes_per_s=most or default),
        (ends[1], ends[0]): Bond(kind=LinkKind.XGMI, count=count, bytes_per_s=back or default),
    }
