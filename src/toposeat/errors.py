"""The kinds of failure a user can meet. Only ``cli`` turns them into exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

# Line breaks and the sequences that steer a terminal; a name in a file may hold any of them.
_CONTROL = "[\x00-\x1f\x7f-\x9f\u2028\u2029]"


def _one_line(text: str) -> str:
    """A text with its control characters as escapes."""
    return re.sub(_CONTROL, lambda match: match[0].encode("unicode_escape").decode(), text)


def nearest(word: str, known: Iterable[str], least: float = 0.6) -> str:
    """The known word that is most like this one, at `least` so much (of 1); "" where none is."""
    import difflib  # noqa: PLC0415 - only errors need it

    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=least)), "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The hint that names the known word that is near; "" where none is."""
    near = nearest(word, known)
    return f"did you mean {near!r}?" if near else ""


class PartError(ValueError):
    """Says which part is wrong, so that a file's reader can name its line.

    Args:
        message: the cause.
        part: names of members and positions in lists that lead from the noun to that part.
    """

    def __init__(self, message: str, *part: str | int) -> None:
        super().__init__(message)
        self.part = part


class ToposeatError(Exception):
    """Something the user can act on: one line of cause, one line of hint.

    Args:
        message: the cause, one line, lower case, no full stop. Control characters in what it quotes
            become escapes here, so that whatever a file holds, one line is printed.
        hint: what to do about it, one line; empty only where nothing can be done.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        message = _one_line(message)
        super().__init__(message)
        self.message = message
        self.hint = _one_line(hint)
        if hint:
            self.add_note(f"hint: {self.hint}")  # tracebacks show it


class UsageError(ToposeatError):
    """The command line asks for something that makes no sense."""


class InputError(ToposeatError):
    """A file, profile, placement or variable is damaged or says something impossible."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        path: str | Path | None = None,
        line: int | None = None,
    ) -> None:
        where = "" if path is None else f"{path}:{line}: " if line else f"{path}: "
        super().__init__(where + message, hint=hint)
        self.path = path
        self.line = line


class UnavailableError(ToposeatError):
    """What is needed is not here: no GPU, no driver, no library, no permission."""


class MissingProgramError(ToposeatError):
    """A program that was to be started does not exist."""


NOT_AS_PLANNED = 98  # what `run --strict` ends with (docs/reference/cli.md says it to users)


class NotAsPlannedError(ToposeatError):
    """No rank of a job was started, because strict was asked for and one could not be seated."""


class ApplicationError(ToposeatError):
    """The application that was run failed, or left nothing to work with.

    `exit_code` is the application's own; 0 where it thought that all was well.
    """

    def __init__(self, message: str, *, hint: str = "", exit_code: int) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code
