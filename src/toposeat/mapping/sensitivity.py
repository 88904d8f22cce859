"""Whether a placement stays the best when the numbers it was chosen by move by their spread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from toposeat.model.explanation import Sensitivity

DRAWS = 100
TOLERANCE = 1e-9  # of values computed in another order

_Row = TypeVar("_Row")
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Spreads:
    """By how much numbers were moved: see `model.explanation.Sensitivity`."""

    stated: float
    recorded: tuple[float, float] | None
    is_any_assumed: bool


def without_ties(rows: Sequence[_Row], values: Floats) -> list[_Row]:
    """Row 0, the placement, row 1, the default, and the other candidates that are not as good.

    That one of those that are as good (mirror images, mostly) wins when numbers move says nothing
    about the choice. Better ones stay: there are some where the solver looks at one placement only,
    or a gain was too small to be taken.
    """
    differs = np.abs(values - values[0]) > values[0] * TOLERANCE
    return [row for at, row in enumerate(rows) if at < 2 or differs[at]]


def weigh(nominal: Floats, drawn: Iterable[Floats], spreads: Spreads, *, count: int) -> Sensitivity:
    """Count on how many machines the placement stays the best.

    Args:
        nominal: value of each candidate by the numbers as they stand; the placement first, then the
            default, which may be the same.
        drawn: the same on each machine that was drawn.
        spreads: of the draws.
        count: how many different candidates there are.
    """
    draws = best = not_worse = 0
    worst_loss = 0.0
    for values in drawn:
        draws += 1
        least = float(values.min())
        best += bool(values[0] <= least * (1 + TOLERANCE))
        not_worse += bool(values[0] <= values[1] * (1 + TOLERANCE))
        if least > 0:
            worst_loss = max(worst_loss, float(values[0]) / least - 1)
    return Sensitivity(
        draws=draws,
        candidates=count,
        better=int((nominal < nominal[0] * (1 - TOLERANCE)).sum()),
        best=best,
        not_worse=not_worse,
        worst_loss=worst_loss,
        stated_spread=spreads.stated,
        recorded_spread=spreads.recorded,
        is_any_assumed=spreads.is_any_assumed,
    )
