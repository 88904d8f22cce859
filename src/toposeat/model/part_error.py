"""The error of a noun whose parts contradict each other."""

from __future__ import annotations


class PartError(ValueError):
    """Says which part is wrong, so that a file's reader can name its line.

    Args:
        message: the cause.
        part: names of members and positions in lists that lead from the noun to that part.
    """

    def __init__(self, message: str, *part: str | int) -> None:
        super().__init__(message)
        self.part = part
