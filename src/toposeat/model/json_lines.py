"""Lines of values in JSON: only looked for once an error must be placed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence


def line_of_value(text: str, steps: Sequence[str | int], *, start: int = 0) -> int:
    """The line where the deepest value on `steps` that can be located starts.

    Args:
        text: valid JSON from `start` on.
        steps: keys of objects and positions in lists, from the outermost value.
        start: where the JSON begins; what stands before it counts for the line.
    """
    position = start
    node: object = _located(text, start)[0]
    for step in steps:
        if isinstance(node, _LocatedObject) and step in node.members:
            position, node = node.members[str(step)]
        elif isinstance(node, _LocatedArray) and isinstance(step, int) and step < len(node.items):
            position, node = node.items[step]
        else:
            break
    return text.count("\n", 0, position) + 1


def line_of_second_key(text: str) -> int | None:
    """The line of the first member that an object states for the second time."""
    twice = _located(text, 0)[1]
    return text.count("\n", 0, twice) + 1 if twice is not None else None


class _LocatedObject:
    def __init__(self) -> None:
        self.members: dict[str, tuple[int, object]] = {}


class _LocatedArray:
    def __init__(self) -> None:
        self.items: list[tuple[int, object]] = []


_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\]}]+')


def _located(text: str, start: int) -> tuple[object, int | None]:
    """Positions of all values of JSON known to be valid, and of the first key stated twice."""
    twice: list[int] = []

    def skip(at: int) -> int:
        match = _SPACE.match(text, at)
        return match.end() if match else at

    def value(at: int) -> tuple[int, object]:
        if text[at] == "{":
            return members(at)
        if text[at] == "[":
            return items(at)
        match = _SCALAR.match(text, at)
        return (match.end() if match else at + 1), None

    def members(at: int) -> tuple[int, object]:
        found = _LocatedObject()
        at = skip(at + 1)
        while text[at] != "}":
            key = _SCALAR.match(text, at)
            assert key is not None  # valid JSON: a member starts with a string
            name = json.loads(key.group())
            if name in found.members:
                twice.append(at)
            start = skip(skip(key.end()) + 1)
            at, child = value(start)
            found.members[name] = (start, child)
            at = skip(at)
            at = skip(at + 1) if text[at] == "," else at
        return at + 1, found

    def items(at: int) -> tuple[int, object]:
        found = _LocatedArray()
        at = skip(at + 1)
        while text[at] != "]":
            start = at
            at, child = value(start)
            found.items.append((start, child))
            at = skip(at)
            at = skip(at + 1) if text[at] == "," else at
        return at + 1, found

    return value(skip(start))[1], min(twice, default=None)
