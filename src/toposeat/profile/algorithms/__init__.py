"""Collective algorithms as lists of messages, and the MPIs' rules that choose among them."""

from __future__ import annotations

from toposeat.profile.algorithms.messages import Algorithm, Call, Messages

__all__ = ["Algorithm", "Call", "Messages"]
