"""Which level of a large machine each of its links is at: devices, hosts, switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toposeat.model.topology import LinkKind


@dataclass(frozen=True, kw_only=True)
class Level:
    """Links that are alike: their name, what they are made of, and whether a route counts them.

    What the two directions of a link share is a link of the machine, but no hop.
    """

    name: str
    kind: LinkKind = LinkKind.NETWORK
    is_hop: bool = True


@dataclass(frozen=True, eq=False)
class LinkLevels:
    """`levels[level_of_link[k]]` is that of link k; levels in no order of meaning."""

    levels: tuple[Level, ...]
    level_of_link: NDArray[np.uint16]

    @staticmethod
    def of_runs(runs: Sequence[tuple[Sequence[Level], int]]) -> LinkLevels:
        """From the machine's order of links: a row of levels, and how often it is repeated."""
        number: dict[Level, int] = {}
        parts = [
            np.tile(
                np.array([number.setdefault(level, len(number)) for level in row], np.uint16), times
            )
            for row, times in runs
        ]
        return LinkLevels(tuple(number), np.concatenate(parts))

    @property
    def names(self) -> tuple[str, ...]:
        """The different names of the levels, in the order of their first link."""
        return tuple(dict.fromkeys(level.name for level in self.levels))
