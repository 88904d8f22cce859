"""Numbers with where they come from, what is assumed, what is told, and ranges to be within."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any

from toposeat.model.record import Record
from toposeat.model.scenario import Barred, ScenarioGain, Settling, Worth


class Source(StrEnum):
    """Where a number comes from. A prediction is never a `Quantity`."""

    NOMINAL = "nominal"  # from the kind of a link: a data sheet or a table of constants
    MEASURED = "measured"  # by a benchmark on this machine, or published for this very machine
    USER = "user"  # stated by the user
    ASSUMED = "assumed"  # stated by nobody: a default with an interval (`Premise`)

    @property
    def is_of_this_machine(self) -> bool:
        """Whether somebody measured or stated it for this very machine."""
        return self in (Source.MEASURED, Source.USER)


class Quantity(Record, frozen=True):
    """A non-negative number and its source; the unit is in the name of the field that holds it.

    `premises` names what an assumed number is proportional to: premises of its topology.
    """

    value: float
    source: Source = Source.NOMINAL
    premises: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.value < float("inf"):
            raise ValueError(f"expected a finite number >= 0, got {self.value}")


def is_of_this_machine(quantity: Quantity | None) -> bool:
    """Whether there is a number, and somebody measured or stated it for this very machine."""
    return quantity is not None and quantity.source.is_of_this_machine


def median(values: Iterable[float]) -> float:
    """Between the two middle ones of an even number; `statistics` takes 9 ms to import."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def nominal(value: float) -> Quantity:
    """`value`, known only from the kind of the thing."""
    return Quantity(value, Source.NOMINAL)


WORTH_SAYING = 0.01  # share of the default's time: a gain range below it is not in doubt
PORT_PREMISE = "rate of a network port"
UPLINK_PREMISE = "uplinks of a switch"


class Premise(Record, frozen=True, kw_only=True):
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

    def numbers(self, *values: float) -> str:
        """`9 to 100`, to stand before the unit; `40 % to 92 %` where that begins with "of"."""
        share = self.unit.startswith("of ")
        return " to ".join(f"{100 * v:.4g} %" if share else f"{v:.4g}" for v in values)

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.nominal <= self.high < float("inf"):
            raise ValueError(
                f"{self.what}: expected 0 < low <= nominal <= high,"
                f" got {self.low}, {self.nominal}, {self.high}"
            )

    def joined_with(self, other: Premise) -> Premise:
        """One variable for two of the same kind: it may be as far from nominal as either."""
        if self == other:
            return self
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


class Assumed(Premise, frozen=True, kw_only=True):
    """A premise of a predicted gain; `decides`: whether its interval alone moves the gain."""

    decides: bool


class Premises(Record, frozen=True, kw_only=True):
    """The verdict on an order, and what its predicted gain depends on.

    `gain_range` is the least and the largest share of the default's time that it saves on any
    machine that the sources allow, and `against` what it saves where it is slower, the worst first;
    `depends_on` names what moves the gain, `settles` the facts that decide. `scenarios` counts the
    machines and ways of working that were compared. `untold_pairs` are pairs of device ids of which
    no source tells whether device links join them. Each premise in `assumed` says whether it
    `decides` the gain. Where the default was kept, `open_gain` is the most that another order saves
    in a scenario, and `barred` an order that is better nominally and costs too much elsewhere.
    `of_phases`: how far phases overlap is a part of the range too. Where no processor is told and
    it matters, nominal numbers are of no machine: `between` has the ends of the values of the
    default and of the order, else it is None.
    """

    untold_pairs: tuple[tuple[str, str], ...] = ()
    assumed: tuple[Assumed, ...] = ()
    gain_range: tuple[float, float]
    of_phases: bool = False
    verdict: Worth = Worth.NONE
    scenarios: int = 1
    depends_on: tuple[str, ...] = ()
    against: tuple[ScenarioGain, ...] = ()
    settles: tuple[Settling, ...] = ()
    open_gain: ScenarioGain | None = None
    barred: Barred | None = None
    between: tuple[tuple[float, float], tuple[float, float]] | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether the gain range is wider than 1 % of the default's time."""
        low, high = self.gain_range
        return high - low > WORTH_SAYING


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


class Knowledge(Record, frozen=True, kw_only=True):
    """How it is known whether device links join the GPUs of each pair on one host.

    `pairs` counts all pairs, `inferred` those that follow from a product, by its name ("no links":
    products that have none). `untold_pairs` lists (by id) those that nothing tells; the rest is
    told. `untold_affinities` are GPUs whose near CPUs and memory node no source tells, of hosts
    with several memory nodes.
    """

    pairs: int
    inferred: Mapping[str, int]
    untold_pairs: tuple[tuple[str, str], ...]
    untold_affinities: tuple[str, ...]

    @property
    def told(self) -> int:
        """How many pairs a source tells."""
        return self.pairs - sum(self.inferred.values()) - len(self.untold_pairs)


# Ranges that every link of a machine is within. Numbers beyond are typing errors, and their
# quotients would overflow in the evaluators.
BANDWIDTH_RANGE_BYTES_PER_S = (1e-3, 1e30)
MAX_LATENCY_S = 3600.0

# Ranges that every pair, device memory and bond is within: HBM4 carries 20 TB/s, and light goes
# 0.3 mm in a picosecond.
PAIR_RANGES = {"bandwidth": (1e-3, 1e14), "latency": (1e-12, MAX_LATENCY_S)}

MAX_INDEX = 999_999_999  # what placement files and the launcher can hold
MAX_MEMORY_BYTES = 1 << 60


def check_number(what: str, value: float | None, most: float, least: float = 0) -> None:
    """Raise ValueError unless `value` is None, NaN or within a range."""
    if value is not None and (value < least or value > most):
        raise ValueError(f"{what} is not within {least:.10g} to {most:.10g}: {str(value)[:30]}")


def check_pair_number(what: str, value: float | None) -> None:
    """Raise ValueError on a bandwidth (bytes/s) or latency (s) that no pair has.

    None and NaN stand for "not known", 0 for a zero that a tool printed.
    """
    if what not in PAIR_RANGES:
        raise ValueError(f"numbers are bandwidth or latency, not {what!r}")
    if value:
        least, most = PAIR_RANGES[what]
        check_number(
            f"the {what} of a pair ({'bytes/s' if what == 'bandwidth' else 's'})",
            value,
            most,
            least,
        )


def check_bandwidth(quantity: Quantity | None) -> None:
    """Raise ValueError on bytes/s that no link has; 0 stands for "not known"."""
    if quantity is not None and quantity.value:
        least, most = BANDWIDTH_RANGE_BYTES_PER_S
        check_number("a bandwidth (bytes/s)", quantity.value, most, least)


def check_latency(quantity: Quantity | None) -> None:
    """Raise ValueError on seconds that no link has."""
    if quantity is not None:
        check_number("a latency (s)", quantity.value, MAX_LATENCY_S)
