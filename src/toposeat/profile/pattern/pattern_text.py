"""Reading `name:argument,key=value,flag`, the text form of a communication pattern."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from toposeat.errors import UsageError

_INTEGER = re.compile(r"[0-9]{1,18}", re.ASCII)
_SCALED = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?(?:e[0-9]{1,2})?)([a-z]*)", re.ASCII | re.I)
_BYTE_UNITS = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9,
    "k": 2**10, "m": 2**20, "g": 2**30,
    "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
_COUNT_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
MAX_BYTES = 2**50  # per message or in all; far from where the sums of int64 tables overflow


class PatternText:
    """The parts of one pattern string; each `take_*` removes what it reads.

    `forms` are the accepted ones, for the hint of every error.
    """

    def __init__(self, text: str, forms: tuple[str, ...]) -> None:
        self.text = text
        self._forms = forms
        self.name, colon, rest = text.partition(":")
        if not colon or not rest:
            raise self.error("expected NAME:ARGUMENTS")
        self._positional: str | None = None
        self._options: dict[str, str | None] = {}
        for position, item in enumerate(rest.split(",")):
            key, equals, value = item.partition("=")
            if equals:
                self._add_option(key.strip(), value.strip())
            elif position == 0:
                self._positional = item.strip()
            else:
                self._add_option(key.strip(), None)

    def error(self, message: str) -> UsageError:
        """The error for this pattern, with the accepted forms as its hint."""
        return UsageError(
            f"pattern {self.text[:80]!r}: {message}", hint="accepted: " + "; ".join(self._forms)
        )

    def take_grid(self, *, dimensions: int | None = None, max_ranks: int) -> tuple[int, ...]:
        """The argument as a process grid, `4x4`; with `dimensions` exactly that many."""
        text = self._take_positional("a process grid such as 4x2x2")
        parts = text.lower().split("x")
        if not all(_INTEGER.fullmatch(part) and int(part) > 0 for part in parts):
            raise self.error(f"{text[:40]!r} is not a process grid such as 4x2x2")
        if dimensions is not None and len(parts) != dimensions:
            raise self.error(f"expected {dimensions} dimensions, got {len(parts)}")
        grid = tuple(int(part) for part in parts)
        if math.prod(grid) > max_ranks:
            raise self.error(f"more than {max_ranks} ranks")
        return grid

    def take_ranks(self, *, max_ranks: int) -> int:
        """The argument as a number of ranks."""
        text = self._take_positional("a number of ranks")
        return self._integer("the number of ranks", text, 1, max_ranks)

    def take_flag(self, name: str) -> bool:
        """Whether the flag is given."""
        if name not in self._options:
            return False
        if self._options.pop(name) is not None:
            raise self.error(f"{name} takes no value")
        return True

    def take_integer(self, name: str, default: int, *, minimum: int, maximum: int) -> int:
        """The whole number of `name=`."""
        value = self._take_value(name)
        return default if value is None else self._integer(name, value, minimum, maximum)

    def take_factor(self, name: str, default: float) -> float:
        """The positive number of `name=`, at most a million."""
        value = self._take_value(name)
        if value is None:
            return default
        factor = self._scaled(name, value, {"": 1})
        if not 0 < factor <= 1e6:
            raise self.error(f"{name} must be greater than 0 and at most 1000000, got {value}")
        return factor

    def take_bytes(self, name: str, default: int) -> int:
        """The size of `name=`, with or without a unit: 65536, 64KiB, 1MB (K, M, G are binary)."""
        value = self._take_value(name)
        size = default if value is None else self._scaled(name, value, _BYTE_UNITS)
        if size != int(size) or not 1 <= size <= MAX_BYTES:
            raise self.error(f"{name} must be a whole number of bytes from 1 to 2^50, got {value}")
        return int(size)

    def take_count(self, name: str, default: float) -> float:
        """The number of `name=`, with or without a decimal unit: 7e9, 8B, 70.6B."""
        value = self._take_value(name)
        if value is None:
            return default
        count = self._scaled(name, value, _COUNT_UNITS)
        if not 1 <= count <= 1e18:
            raise self.error(f"{name} must be from 1 to 1e18, got {value}")
        return count

    def take_word(self, name: str, default: str) -> str:
        """The value of `name=` as it is."""
        value = self._take_value(name)
        return default if value is None else value

    def has(self, name: str) -> bool:
        """Whether an option is given and not taken yet."""
        return name in self._options

    def set_defaults(self, options: Mapping[str, str]) -> None:
        """Options as if they were given, where they are not."""
        self._options = {**options, **self._options}

    def finish(self) -> None:
        """Refuse what no `take_*` has read."""
        if self._positional is not None:
            raise self.error(f"{self._positional[:40]!r} is out of place")
        if self._options:
            raise self.error(f"unknown option {next(iter(self._options))[:40]!r}")

    def _add_option(self, key: str, value: str | None) -> None:
        if not key:
            raise self.error("there is an empty option")
        if key in self._options:
            raise self.error(f"{_shown(key)} is given twice")
        self._options[key] = value

    def _take_positional(self, what: str) -> str:
        text, self._positional = self._positional, None
        if not text:
            raise self.error(f"expected {what} after the colon")
        return text

    def _take_value(self, name: str) -> str | None:
        if name not in self._options:
            return None
        value = self._options.pop(name)
        if not value:
            raise self.error(f"{name} needs a value: {name}=...")
        return value

    def _integer(self, name: str, text: str, minimum: int, maximum: int) -> int:
        if not _INTEGER.fullmatch(text) or not minimum <= int(text) <= maximum:
            raise self.error(
                f"{name} must be a whole number from {minimum} to {maximum}, got {_shown(text)}"
            )
        return int(text)

    def _scaled(self, name: str, text: str, units: dict[str, int]) -> float:
        match = _SCALED.fullmatch(text)
        unit = None if match is None else units.get(match[2].lower())
        if match is None or unit is None:
            raise self.error(f"{name}={_shown(text)} is not a number")
        whole = _INTEGER.fullmatch(match[1])
        return (int(match[1]) if whole else float(match[1])) * unit


def _shown(text: str) -> str:
    """The user's text as a message of one line can show it."""
    return text if text.isprintable() and len(text) <= 40 else repr(text[:40])
