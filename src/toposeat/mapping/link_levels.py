"""Which level of a large machine each of its links is at: devices, hosts, switches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toposeat.model.record import Record
from toposeat.model.topology import LinkKind


class Level(Record, frozen=True, kw_only=True):
    """Links of one level: their name, their kind, and whether a route counts them as hops.

    A combined capacity is a link of the machine of its own, but no hop.
    """

    name: str
    kind: LinkKind = LinkKind.NETWORK
    is_hop: bool = True


class LinkLevels(Record, frozen=True, eq=False):
    """The level of link k is `levels[level_of_link[k]]`; the order of `levels` means nothing."""

    levels: tuple[Level, ...]
    level_of_link: NDArray[np.uint16]

    @staticmethod
    def of_runs(runs: Sequence[tuple[Sequence[Level], int]]) -> LinkLevels:
        """Build from runs in the order of links: levels, and how often they are repeated."""
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
