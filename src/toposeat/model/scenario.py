"""The verdict on an order, and its parts.

A *scenario* is a whole machine and a way of working that the sources allow: one choice of each open
fact (`model.open_fact`).
"""

from __future__ import annotations

from enum import StrEnum

from toposeat.model.record import Record


class Worth(StrEnum):
    """What an order is worth."""

    GAIN = "gain"  # nominally, and slower in no scenario
    POSSIBLE = "possible gain"  # nominally, and slower in some; or equal, and faster in some
    NONE = "no gain"


class ScenarioGain(Record, frozen=True):
    """The share of the default's time that an order saves in a scenario; negative: it costs."""

    scenario: str
    share: float


class Settling(Record, frozen=True):
    """A fact that decides, and the command that tells it."""

    what: str
    command: str


class Barred(Record, frozen=True, kw_only=True):
    """An order that saves `share` nominally and is not taken: it costs too much in a scenario."""

    device_of_rank: tuple[int, ...]
    share: float
    worst: ScenarioGain
