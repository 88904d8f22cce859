"""How much of a predicted time is latency, and whose."""

from __future__ import annotations

from msgspec import Struct


class Latency(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much of the link time is latency: of what ends last, the share before a byte moves.

    It is that of `messages` from a rank to another, one after the other; without a `target` those
    of the rank's rounds with all its partners; without a `source` it is not told whose.
    """

    share: float
    source: int | None = None
    target: int | None = None
    messages: int = 0

    @property
    def is_much(self) -> bool:
        """Whether it is worth naming."""
        return self.share > _WORTH_NAMING


_WORTH_NAMING = 0.1  # share of the link time
