"""What is assumed of a machine because no source states it: one variable, with its interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from toposeat.model.quantity import Quantity, Source

WORTH_SAYING = 0.01  # share of the default's time: a gain range below it is not in doubt
PORT_PREMISE = "rate of a network port"
UPLINK_PREMISE = "uplinks of a switch"


@dataclass(frozen=True, kw_only=True, slots=True)
class Premise:
    """One variable for all numbers of its kind on a machine: they name it (`Quantity.premises`).

    Where the variable is v, every quantity that names it is v / `nominal` times its value.
    `source` is one sentence that says where `low` and `high` come from.
    """

    what: str
    low: float
    nominal: float
    high: float
    unit: str
    source: str

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.nominal <= self.high < float("inf"):
            raise ValueError(
                f"{self.what}: expected 0 < low <= nominal <= high,"
                f" got {self.low}, {self.nominal}, {self.high}"
            )

    def joined_with(self, other: Premise) -> Premise:
        """One variable for two of the same kind: it may be as far from nominal as either."""
        low = min(self.low / self.nominal, other.low / other.nominal)
        high = max(self.high / self.nominal, other.high / other.nominal)
        if (low * self.nominal, high * self.nominal) == (self.low, self.high):
            return self
        return Premise(
            what=self.what,
            low=low * self.nominal,
            nominal=self.nominal,
            high=high * self.nominal,
            unit=self.unit,
            source=self.source if self.source == other.source else f"{self.source} {other.source}",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumed(Premise):
    """A premise of a predicted gain; `decides`: whether its interval alone moves the gain."""

    decides: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Premises:
    """What the predicted gain of a placement depends on.

    `gain_range` is the least and the largest share of the default's time that it saves on any
    machine that the sources allow. `untold_pairs` are pairs of device ids of which no source tells
    whether device links join them. Each premise in `assumed` says whether it `decides` the gain;
    where the default was kept, this is the gain of the placement that was not taken.
    `of_phases`: how far phases overlap is a part of the range too, which has all of them one after
    the other and the slowest alone.
    """

    untold_pairs: tuple[tuple[str, str], ...] = ()
    assumed: tuple[Assumed, ...] = ()
    gain_range: tuple[float, float]
    of_phases: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether the gain range is wider than 1 % of the default's time."""
        low, high = self.gain_range
        return high - low > WORTH_SAYING

    @property
    def is_open(self) -> bool:
        """Whether the gain is in doubt, or device links that it may depend on are untold."""
        return self.is_doubtful or bool(self.untold_pairs)

    @property
    def deciding(self) -> tuple[Assumed, ...]:
        """The premises that move the gain."""
        return tuple(each for each in self.assumed if each.decides)


def assumed(value: float, *premises: Premise, of: Quantity | None = None) -> Quantity:
    """A number that is proportional to premises, and to those of the number it is made from."""
    made_from = of.premises if of else ()
    return Quantity(
        value,
        Source.ASSUMED,
        premises=tuple(dict.fromkeys([*made_from, *(p.what for p in premises)])),
    )


def joined(premises: Iterable[Premise]) -> tuple[Premise, ...]:
    """One premise of each kind."""
    found: dict[str, Premise] = {}
    for each in premises:
        found[each.what] = found[each.what].joined_with(each) if each.what in found else each
    return tuple(found.values())


_FIELDS: dict[type, tuple[str, ...]] = {}


def quantity_fields(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a dataclass that hold a quantity, or may."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f.name for f in fields(kind) if "Quantity" in str(f.type))
    return _FIELDS[kind]
