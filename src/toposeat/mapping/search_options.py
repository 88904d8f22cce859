"""Options that every mapper has, checked: solver, seed, budget, the least gain worth taking."""

from __future__ import annotations

import operator
from math import inf

from toposeat import _core
from toposeat.errors import UnavailableError, UsageError


def check_search_options(seed: int, budget_s: float, min_gain: float) -> None:
    """Refuse what no search can make sense of, NaN included.

    Raises:
        UsageError: seed, budget or gain out of range.
    """
    if not _is_whole(seed) or not 0 <= seed < 2**64:
        raise UsageError(f"seed {seed} is out of range", hint="use a whole number >= 0")
    if not 0 <= budget_s < inf:
        raise UsageError(f"budget of {budget_s} seconds", hint="use a finite number >= 0")
    if not 0 <= min_gain <= 1:
        raise UsageError(
            f"least gain of {min_gain}", hint="use a share of the default's time, from 0 to 1"
        )


def check_installed(solver: str) -> None:
    """Refuse the one solver that is no part of the package, where it is missing.

    Raises:
        UnavailableError: Scotch is asked for and not there.
    """
    if solver == "scotch" and not _core.scotch_available():
        raise UnavailableError(
            "the Scotch library (libscotch) was not found",
            hint="install it (Debian, Ubuntu: apt install libscotch-dev) or use --solver auto",
        )


def _is_whole(number: object) -> bool:
    try:
        operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True
