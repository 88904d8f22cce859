"""Regular nouns by number."""

from __future__ import annotations


def nouns(count: int, noun: str) -> str:
    """`link` of one, `links` or `matches` of another number."""
    if count == 1:
        return noun
    return f"{noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"


def plural(count: int, noun: str) -> str:
    """`1 link`, `3 links`, `2 matches`."""
    return f"{count} {nouns(count, noun)}"
