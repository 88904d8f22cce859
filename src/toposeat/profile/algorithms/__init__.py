"""Collective algorithms as lists of messages, and the MPIs' rules that choose among them."""

from __future__ import annotations

from toposeat.model.pair_table import Messages
from toposeat.profile.algorithms.messages import Algorithm, Call

__all__ = ["Algorithm", "Call", "Messages"]
