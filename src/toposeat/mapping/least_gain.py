"""Whether a placement saves enough of the default's time to move ranks for it."""

from __future__ import annotations

_TOLERANCE = 1e-9  # shares that differ by less are the same share


def _gain(default_s: float | None, placed_s: float | None) -> float:
    """Share of the default's predicted time that a placement saves; 0 where one is not known."""
    if not default_s or placed_s is None:
        return 0.0
    return 1 - placed_s / default_s


def not_worth_moving(default_s: float | None, placed_s: float | None, min_gain: float) -> str:
    """Why the default is kept though a placement that is not slower was found; empty if it is not.

    Args:
        default_s: predicted seconds of the default placement, None if not known.
        placed_s: those of the placement found.
        min_gain: least share of the default's time that it must save.
    """
    saved = _gain(default_s, placed_s)
    if saved >= min_gain - _TOLERANCE:
        return ""
    return (
        f"kept the default: a placement predicted {100 * saved:.2g} % faster was"
        f" found, but less than {100 * min_gain:.2g} % is not worth moving ranks for"
    )
