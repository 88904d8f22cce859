"""Whether the ranks of a job start: all of them when all can be seated, else none."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

_MAX_NAMELESS = 64
# After the first rank that cannot be seated the others may still say the same, for one message.
_GATHERING_S = 0.3
# Ranks that never connect: their nodes cannot reach this host, or the job is smaller than its plan.
PATIENCE_S = 20.0
_STRICT_PATIENCE_S = 8.0


class Decision(Enum):
    """Whether the ranks of a job were told to start."""

    OPEN = "open"
    GO = "go"
    STOP = "stop"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdicts:
    """What the ranks of a job said before it started.

    `reports` are the seat reports by rank, those of `unseated` ranks included; `nameless` are
    reports of processes that do not know their rank.
    """

    reports: Mapping[int, str]
    unseated: frozenset[int]
    nameless: tuple[str, ...]


class StartDecision:
    """Hears ranks, and decides at `due`, a time of `time.monotonic`; None: not yet.

    Args:
        ranks: how many have to be heard; None starts nobody.
        strict: refuse a job of which not every rank was heard.
    """

    def __init__(self, ranks: int | None, *, strict: bool) -> None:
        self._ranks, self._strict = ranks, strict
        self._reports: dict[int, str] = {}
        self._unseated: set[int] = set()
        self._nameless: list[str] = []
        self.decision = Decision.OPEN
        self.due: float | None = None

    @property
    def verdicts(self) -> Verdicts:
        """What was heard so far."""
        return Verdicts(
            reports=dict(self._reports),
            unseated=frozenset(self._unseated),
            nameless=tuple(self._nameless),
        )

    def knows(self, rank: int) -> bool:
        """Whether it is a rank of this job."""
        return self._ranks is not None and rank < self._ranks

    def hear(self, rank: int, report: str, *, seated: bool) -> None:
        """Take the report of a process, and set when to decide."""
        if rank in self._reports and seated:
            pass  # it is started anew; what it said first stays
        elif self.knows(rank) and rank not in self._reports:
            self._reports[rank] = report
            if not seated:
                self._unseated.add(rank)
        elif len(self._nameless) < _MAX_NAMELESS:
            self._nameless.append(report)
        if self.decision is not Decision.OPEN:
            return
        now = time.monotonic()
        if len(self._reports) == self._ranks:
            self.due = now
        elif self._unseated or self._nameless:
            soon = now + _GATHERING_S
            self.due = soon if self.due is None else min(self.due, soon)
        else:
            self.due = now + (_STRICT_PATIENCE_S if self._strict else PATIENCE_S)

    def decide(self) -> Decision:
        """What to tell the ranks; once."""
        self.due = None
        missing = len(self._reports) != self._ranks
        refused = bool(self._unseated or self._nameless) or (missing and self._strict)
        self.decision = Decision.STOP if refused else Decision.GO
        return self.decision
