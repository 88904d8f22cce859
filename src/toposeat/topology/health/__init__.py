"""Verdicts on a topology: how it is wired, and what looks wrong with it. Pure, no I/O."""

from __future__ import annotations

from toposeat.topology.health.findings import findings_of
from toposeat.topology.health.wiring import wiring_of

__all__ = ["findings_of", "wiring_of"]
