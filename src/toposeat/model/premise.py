"""What is assumed of a machine because no source states it: one variable, with its interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Premise:
    """One variable for all numbers of its kind on a machine: they name it (`Quantity.premises`).

    In a machine where it is v every quantity that names it is v / `nominal` times its value.
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
        """One variable for two of the same kind: as far from nominal as either may be."""
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
