"""One published figure beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """What an agreement is worth."""

    EXACT = "exact"  # follows from definitions: must be equal
    CALIBRATED = "calibrated-on"  # the model was fitted to this very number: no evidence
    HELD_OUT = "held-out"  # nothing was fitted to it: evidence
    NOT_REPRODUCIBLE = "not reproducible"  # why is in the note


@dataclass(frozen=True, kw_only=True)
class Row:
    """Texts of one line. Numbers of different origin are in columns of their own.

    `holds` is None where there is nothing to compare.
    """

    figure: str
    quantity: str
    published: str
    status: Status
    predicted: str = ""  # by our evaluator or flow model
    simulated: str = ""  # by SimGrid's SMPI, which runs the microbenchmark program
    measured: str = ""  # on the machine this ran on
    holds: bool | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if (self.holds is None) != (self.status is Status.NOT_REPRODUCIBLE):
            raise ValueError(f"{self.figure}, {self.quantity}: a verdict for what is compared only")
        if self.status is Status.NOT_REPRODUCIBLE and not self.note:
            raise ValueError(f"{self.figure}, {self.quantity}: say why")


@dataclass(frozen=True, kw_only=True)
class Paper:
    """One source and its lines."""

    title: str
    machine: str  # the model of it
    rows: tuple[Row, ...]


def percent(share: float) -> str:
    return f"{100 * share + 0.0:.1f} %".replace("-0.0", "0.0")


def spread(values: list[float], scale: float = 1, digits: int = 1) -> str:
    low, high = min(values) * scale, max(values) * scale
    return f"{low:.{digits}f} to {high:.{digits}f}".replace("-0.0 ", "0.0 ")
