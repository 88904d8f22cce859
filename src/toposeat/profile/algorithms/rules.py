"""Selection rules: which algorithm an MPI takes, by the number of members and the bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Choice:
    """Names in order of size; `limits[i]` is the first size that is too large for `names[i]`."""

    limits: tuple[int, ...]
    names: tuple[str, ...]

    def at(self, number: int) -> str:
        return self.names[bisect_right(self.limits, number)]


@dataclass(frozen=True, slots=True)
class Rules:
    """For one operation: by members, then by bytes."""

    members: tuple[int, ...]
    choices: tuple[_Choice, ...]

    def choose(self, members: int, size: int) -> str:
        """The name of the algorithm."""
        return self.choices[bisect_right(self.members, members)].at(size)


def parse_rules(text: str) -> dict[str, Rules]:
    """Rules from text: a line with the operation's name, then one line per range of members.

    Each of those lines reads `<members: name <bytes name <bytes name`: names in order of size,
    between them the size from which on the next one is taken. `<members` is missing in the last.
    """
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.strip().splitlines():
        if not line.startswith(" "):
            lines = found.setdefault(line.strip(), [])
        else:
            lines.append(line.strip())
    return {operation: _rules(each) for operation, each in found.items()}


def _rules(lines: Sequence[str]) -> Rules:
    limits, choices = [], []
    for line in lines:
        head, _, body = line.rpartition(":")
        if head:
            limits.append(int(head.removeprefix("<")))
        words = body.split()
        choices.append(_Choice(tuple(int(w[1:]) for w in words[1::2]), tuple(words[0::2])))
    if sorted(limits) != limits or len(choices) != len(limits) + 1:
        raise ValueError("ranges of members do not follow each other")
    return Rules(tuple(limits), tuple(choices))
