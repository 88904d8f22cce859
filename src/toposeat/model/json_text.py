"""Parse JSON that anybody may have written; errors name the line.

Python's parser takes more than the standard: a member stated twice, NaN, numbers that no float can
hold, half of a surrogate pair. All of them are refused here, as is what is nested too deeply: how
deep Python's parser goes changes from version to version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from toposeat.errors import InputError

_DEEP = 64  # levels; our own files have six

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_LONE_SURROGATE = re.compile(
    r"(?<!\\)(?:\\\\)*(?:\\u[dD][89aAbB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89aAbB]..)\\u[dD][c-fC-F])"
)
_NESTING = re.compile(_STRING + r"|[\[\]{}]", re.DOTALL)
_NO_NESTING = re.compile(_STRING + r'|[^\[\]{}"]+', re.DOTALL)
_NUMBER = re.compile(_STRING + r"|(NaN|-?Infinity|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)", re.DOTALL)
_INTEGERS = range(-(2**63), 2**64)


class _RangeError(ValueError):
    """A number that is out of range."""


def parse_json(text: str, path: str | Path, *, hint: str) -> Any:
    """Parse JSON text into Python's dicts, lists and scalars.

    Raises:
        InputError: not JSON, nested too deeply, a member stated twice, a number out of range; with
            its line.
    """
    twice: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice.append(next(key for key in keys if keys.count(key) > 1))
        return found

    def refusal(cause: str, line: int | None, hint: str = hint) -> InputError:
        return InputError(cause, path=path, line=line, hint=hint)

    try:
        value = json.loads(
            text,
            object_pairs_hook=members,
            parse_constant=_refused,
            parse_float=_float,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        if (deep := _line_of_depth(text[: error.pos])) is not None:
            raise refusal("nested too deeply", deep) from None
        whole = error.pos < len(text.rstrip())
        raise refusal("not valid JSON" if whole else "truncated JSON", error.lineno) from None
    except RecursionError:
        raise refusal("nested too deeply", _line_of_depth(text)) from None
    except _RangeError:
        raise refusal("a number is out of range", _line_of_number(text)) from None
    if _is_deep(text):
        raise refusal("nested too deeply", _line_of_depth(text))
    if "\\u" in text and (half := _LONE_SURROGATE.search(text)):
        at = text.count("\n", 0, half.start()) + 1
        raise refusal("not valid JSON: half of a surrogate pair", at)
    if twice:
        raise refusal(
            f"{twice[0][:80]!r} is stated twice", _line_of_second_key(text), "remove one of them"
        )
    return value


def _refused(constant: str) -> float:
    raise _RangeError(constant)


def _float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise _RangeError(text)
    return value


def _integer(text: str) -> int:
    if len(text) > 20 or (value := int(text)) not in _INTEGERS:
        raise _RangeError(text)
    return value


def _line_of_number(text: str) -> int:
    """The line of the first number that is refused."""
    for match in _NUMBER.finditer(text):
        number = match.group(1)
        try:
            if number is not None:
                (_integer if number.lstrip("-").isdigit() else _float)(number)
        except ValueError:
            return text.count("\n", 0, match.start(1)) + 1
    return 1


def _is_deep(text: str) -> bool:
    """Whether valid JSON is nested deeper than any file of ours: takes innermost levels away."""
    brackets = _NO_NESTING.sub("", text).translate({ord("{"): "[", ord("}"): "]"})
    for _ in range(_DEEP):
        if not brackets:
            break
        brackets = brackets.replace("[]", "")
    return bool(brackets)


def _line_of_depth(text: str) -> int | None:
    """The line where nesting goes deeper than that of any file of ours."""
    depth = 0
    for match in _NESTING.finditer(text):
        depth += 1 if match.group() in "[{" else -1 if match.group() in "]}" else 0
        if depth > _DEEP:
            return text.count("\n", 0, match.start()) + 1
    return None


def line_of_value(text: str, steps: Sequence[str | int], *, start: int = 0) -> int:
    """The line where the deepest value on `steps` that can be located starts.

    Args:
        text: valid JSON from `start` on.
        steps: keys of objects and positions in lists, from the outermost value.
        start: position where the JSON begins; lines before it are counted.
    """
    position = start
    try:
        node: object = _located(text, start)[0]
    except RecursionError:  # deeper than anything that a message is about
        node = None
    for step in steps:
        if isinstance(node, _LocatedObject) and step in node.members:
            position, node = node.members[str(step)]
        elif isinstance(node, _LocatedArray) and isinstance(step, int) and step < len(node.items):
            position, node = node.items[step]
        else:
            break
    return text.count("\n", 0, position) + 1


def _line_of_second_key(text: str) -> int | None:
    """The line of the first member that an object states for the second time."""
    try:
        twice = _located(text, 0)[1]
    except RecursionError:
        return None
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
