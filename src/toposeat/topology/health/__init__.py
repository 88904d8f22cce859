"""Verdicts on a topology: how it is wired, and what looks wrong with it. Pure, no I/O."""
