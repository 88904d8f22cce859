"""Messages in the order in which an algorithm or a program sends them."""

from __future__ import annotations

from msgspec import Struct

from toposeat.model.pair_table import PairTable

MAX_SCHEDULE_FLOWS = 1 << 22  # over all repeats; as the core has it


class Schedule(Struct, frozen=True, kw_only=True, eq=False):
    """Phases of messages between ranks, one after the other, `repeats` times.

    A phase holds bytes and messages of ordered pairs of ranks; a traffic matrix is their sum and
    knows no order. `origin` says where it is from: an algorithm's name, a pattern, a profile.
    """

    ranks: int
    origin: str
    phases: tuple[PairTable, ...]
    repeats: int = 1

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.repeats < 1:
            raise ValueError("a schedule has 1 rank or more, and is played once or more")
        for number, phase in enumerate(self.phases):
            if len(phase) and max(phase.source.max(), phase.target.max()) >= self.ranks:
                raise ValueError(f"phase {number} names a rank beyond {self.ranks - 1}")
        if self.flows * self.repeats > MAX_SCHEDULE_FLOWS:
            raise ValueError(f"more than {MAX_SCHEDULE_FLOWS} flows over all repeats")

    @property
    def flows(self) -> int:
        """Ordered pairs of ranks, summed over the phases of one repeat."""
        return sum(len(phase) for phase in self.phases)

    def table(self) -> PairTable:
        """Bytes and messages of all phases and repeats together."""
        total = PairTable.total(self.phases)
        return PairTable.from_pairs(
            total.source, total.target, total.bytes * self.repeats, total.messages * self.repeats
        )
