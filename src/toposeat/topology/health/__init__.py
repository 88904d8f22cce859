"""Verdicts on a topology: how it is wired, and what looks wrong with it. Pure, no I/O."""

from toposeat.topology.health.checks import findings_of
from toposeat.topology.health.wiring import wiring_of

__all__ = ["findings_of", "wiring_of"]
