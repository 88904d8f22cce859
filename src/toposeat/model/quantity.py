"""A number together with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Where a number comes from. A prediction is never a `Quantity`."""

    NOMINAL = "nominal"  # from the kind of a link: a data sheet or a table of constants
    MEASURED = "measured"  # by a benchmark on this machine, or published for this very machine
    USER = "user"  # stated by the user
    ASSUMED = "assumed"  # stated by nobody: a default with an interval (`model.premise`)

    @property
    def is_of_this_machine(self) -> bool:
        """Whether somebody measured or stated it for this very machine."""
        return self in (Source.MEASURED, Source.USER)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A non-negative number and its source; the unit is in the name of the field that holds it.

    `premises` names what an assumed number is proportional to: premises of its topology.
    """

    value: float
    source: Source = Source.NOMINAL
    premises: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.value < float("inf"):
            raise ValueError(f"expected a finite number >= 0, got {self.value}")


def nominal(value: float) -> Quantity:
    """`value`, known only from the kind of the thing."""
    return Quantity(value, Source.NOMINAL)
