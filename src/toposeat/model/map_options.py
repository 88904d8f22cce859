"""How to choose a placement: what to minimise, how to search, and what to keep to."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from toposeat.errors import UsageError
from toposeat.model.noun import Noun

# time: seconds until the last transfer ends, by the flow model.
# congestion: seconds of the busiest link, then the mean over links.
# cost: sum of bytes x relative cost of the pair; with the hybrid metric, of seconds.
OBJECTIVES = ("time", "congestion", "cost")

METRICS = ("latency", "bandwidth", "distance", "hybrid")  # of the pairwise cost

# auto: exact where that is quick, else search, then a proof as far as the budget goes.
# exact: spend the whole budget on a proof.
# search: local search only; bounds still give a gap.
# default: rank i on the i-th device.
# random: a random placement (for comparisons: may be slower than the default).
SOLVERS = ("auto", "exact", "search", "default", "random")

MIN_GAIN = 0.01  # share of the default's value: numbers of links are hardly known better


@dataclass(frozen=True, kw_only=True, repr=False)
class Constraints(Noun):
    """What a placement must keep to. Devices are positions in `Topology.devices`.

    Attributes:
        devices: that may be used, in default order; None: all.
        exclude: that may not be used.
        slots: how many ranks each device takes, or by device (others: 1); None: one. Ranks share a
            device only where this allows it.
        pins: device by rank, for ranks that must not move.
        allowed: devices by rank, for ranks that may use only some.
        cpu_ranks: that need no device: they share the first one, beside the rank that has it.
    """

    devices: Sequence[int] | None = None
    exclude: Collection[int] = ()
    slots: int | Mapping[int, int] | None = None
    pins: Mapping[int, int] = field(default_factory=dict)
    allowed: Mapping[int, Collection[int]] = field(default_factory=dict)
    cpu_ranks: Collection[int] = ()

    def __post_init__(self) -> None:
        for name in ("devices", "exclude", "cpu_ranks"):
            value = getattr(self, name)
            if value is not None and not _are_whole(value):
                raise _wrong(name, _FORMS.get(name, _FORMS["devices"]), value)
        for name in ("pins", "slots", "allowed"):
            value = getattr(self, name)
            if name == "slots" and (value is None or _is_whole(value)):
                continue
            is_mapping = isinstance(value, Mapping) and _are_whole(value)
            values = value.values() if is_mapping else ()
            if not is_mapping or not all(
                map(_are_whole if name == "allowed" else _is_whole, values)
            ):
                raise _wrong(name, _FORMS[name], value)


@dataclass(frozen=True, kw_only=True, repr=False)
class MapOptions(Noun):
    """What is asked of a mapper, from the command line down to the core.

    Attributes:
        objective: what to minimise, one of `OBJECTIVES`.
        metric: of the pairwise cost, one of `METRICS`; see `evaluation.pair_costs`.
        solver: one of `SOLVERS`.
        budget_s: seconds after which the best placement so far is returned; None: 1 s, and 10 s for
            the shape of a large machine.
        seed: same seed, same answer, unless the budget cuts a search short.
        min_gain: keep the default if less than this share of its objective's value is saved.
        constraints: which device may take which ranks, and how many.
        explained: also say why, in the result's `explanation`.
    """

    objective: str = "time"
    metric: str = "bandwidth"
    solver: str = "auto"
    budget_s: float | None = None
    seed: int = 1
    min_gain: float = MIN_GAIN
    constraints: Constraints = field(default_factory=Constraints)
    explained: bool = False

    def __post_init__(self) -> None:
        for what, name, known in (
            ("objective", self.objective, OBJECTIVES),
            ("metric", self.metric, METRICS),
            ("solver", self.solver, SOLVERS),
        ):
            if not isinstance(name, str) or name not in known:
                hint = f"choose one of {', '.join(known)}"
                raise UsageError(f"unknown {what} {name!r}", hint=hint)
        if not _is_whole(self.seed) or not 0 <= self.seed < 2**64:
            raise UsageError(f"seed {self.seed} is out of range", hint="use a whole number >= 0")
        if not isinstance(self.constraints, Constraints):
            raise _wrong("constraints", "Constraints(...)", self.constraints)
        for name, number in (("budget_s", self.budget_s or 0), ("min_gain", self.min_gain)):
            if not hasattr(number, "__float__"):
                raise _wrong(name, "a number", number)
        if self.budget_s is not None and not 0 <= self.budget_s < inf:  # NaN is neither
            raise UsageError(f"budget of {self.budget_s} seconds", hint="use a finite number >= 0")
        if not 0 <= self.min_gain <= 1:
            raise UsageError(
                f"least gain of {self.min_gain}",
                hint="use a share of the default's time, from 0 to 1",
            )

    @property
    def is_fixed(self) -> bool:
        """Whether the solver has one placement only, which is returned even where it is slower."""
        return self.solver in ("default", "random")


_FORMS = {
    "devices": "positions in the topology's devices, such as [0, 3]",
    "cpu_ranks": "ranks, such as [0]",
    "pins": "a device by rank, such as {0: 3}",
    "slots": "how many ranks a device takes, or that by device, such as {0: 2}",
    "allowed": "devices by rank, such as {0: [2, 3]}",
}


def _wrong(name: str, form: str, value: object) -> UsageError:
    return UsageError(f"{name} cannot be {value!r:.60}", hint=f"give {form}")


def _are_whole(numbers: object) -> bool:
    return isinstance(numbers, Iterable) and all(map(_is_whole, numbers))


def _is_whole(number: object) -> bool:
    try:
        operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True
