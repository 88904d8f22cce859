"""JSON that other tools printed: warnings before it, sizes within reason, members of one type."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from toposeat.model.files import line_of_value, parse_json
from toposeat.topology.readers.file_text import FileText

_Type = TypeVar("_Type")
_START = re.compile(r"^\s*[\[{]", re.MULTILINE)


def parse_json_after_words(file: FileText) -> Any:
    """The JSON value that starts at the first line with a brace or bracket.

    Tools print warnings before it, on the same stream.

    Raises:
        InputError: no JSON, or damaged, with its line.
    """
    text = file.text.removeprefix("\ufeff")
    match = _START.search(text)
    if match is None:
        raise file.refusal("no JSON found")
    above = text.count("\n", 0, match.start())
    return parse_json("\n" * above + text[match.start() :], file.path, hint=file.hint)


def line_of(file: FileText, *steps: str | int) -> int | None:
    """The line of a value of a file that `parse_json_after_words` or the like has read.

    Args:
        file: holds valid JSON, after words or not.
        steps: keys of objects and positions in lists, from the outermost value; where they lead no
            further, the line of the last value that is there.
    """
    text = file.text.removeprefix("\ufeff")
    match = _START.search(text)
    return line_of_value(text, steps, start=match.end() - 1) if match else None


def place_of(file: FileText, *steps: str | int) -> Callable[[], int | None]:
    """A function that gives `line_of` these steps, for errors only."""
    return lambda: line_of(file, *steps)
