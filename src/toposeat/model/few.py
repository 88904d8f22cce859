"""A few of many: how lists and texts that are too long are cut, and what says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def few(names: Iterable[str], most: int = 8, joint: str = ", ") -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    each = list(names)
    shown, more = joint.join(each[:most]), len(each) - most
    return f"{shown} and {more} more" if more > 0 else shown


def first_few(names: Iterable[str], most: int, joint: str = ", ") -> str:
    """The first names, and dots for the others: `a, b, ...`."""
    each = list(names)
    return joint.join([*each[:most], *(["..."] if len(each) > most else [])])


def listed(names: Iterable[str], most: int = 6) -> str:
    """As `few`, but the number of the others counts as a name."""
    each = list(names)
    return few(each, len(within(each, most)[0]))


def within(entries: Sequence[T], most: int) -> tuple[Sequence[T], int]:
    """What `most` lines hold, one of which counts the others, and the number of these."""
    shown = entries if len(entries) <= most else entries[: most - 1]
    return shown, len(entries) - len(shown)


def cut(text: str, letters: int) -> str:
    """The text, with dots for its end where it is longer."""
    return text if len(text) <= letters else f"{text[: letters - 3]}..."
