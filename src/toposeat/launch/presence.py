"""Whether every rank of a job can be reordered, before any is (`reorder/src/presence.h`)."""

from __future__ import annotations

import re
import time

from toposeat.launch.start_decision import Decision

MAX_WORLD_BYTES = 600
_WORLD = re.compile(rb"([0-9]{1,9}) .*", re.ASCII | re.DOTALL)
_PATIENCE_S = 10.0  # after the last rank: MPI_Init returns at about the same time everywhere
_LONGEST_S = 60.0  # after the first one; nodes wait for twice as long


class Presence:
    """Hears the ranks of one MPI_COMM_WORLD, and decides at `due`; see `StartDecision`.

    Attributes:
        decision: GO once all ranks were heard; never later than nodes wait for it.
        missing: how many ranks were not; None where ranks are there that are too many.
    """

    def __init__(self) -> None:
        self._world = b""
        self._heard: set[int] = set()
        self._end = 0.0
        self.missing: int | None = 0
        self.decision = Decision.OPEN
        self.due: float | None = None

    def hear(self, rank: int, world: bytes, *, may_speak: bool) -> bool:
        """Take one rank in, and set when to decide; whether it is one of this world.

        Args:
            rank: its number, of which each is heard once.
            world: the number of ranks, a blank, and what the world is called.
            may_speak: it comes from where that rank is.

        Raises:
            ValueError: `world` is something else.
        """
        size = _WORLD.fullmatch(world)
        if size is None:
            raise ValueError
        if self.decision is not Decision.OPEN or (self._world and world != self._world):
            return False
        now = time.monotonic()
        if not self._world:
            self._world, self._end = world, now + _LONGEST_S
        if not may_speak or rank in self._heard or rank >= int(size[1]):
            self.missing = None
        self._heard.add(rank)
        if self.missing is not None:
            self.missing = int(size[1]) - len(self._heard)
        self.due = min(now + _PATIENCE_S, self._end) if self.missing else now
        return True

    def decide(self) -> None:
        """Make up one's mind."""
        self.due = None
        self.decision = Decision.GO if self.missing == 0 else Decision.STOP
