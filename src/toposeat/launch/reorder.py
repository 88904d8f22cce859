"""Ranks that MPI reorders where the application lets it: libtoposeat_reorder.so in every rank."""

from __future__ import annotations

import os
from collections.abc import Mapping

from toposeat.installed import native_path

VARIABLE = "TOPOSEAT_REORDER"
_NO = ("", "0")
_LIBRARY = "lib/libtoposeat_reorder.so"


def reordering(asked: bool, environment: Mapping[str, str] | None = None) -> str:
    """How ranks are reordered: the library's own word for it, empty for not at all.

    As the variable says; where it says nothing, by an option if it was `asked`.
    """
    value = (os.environ if environment is None else environment).get(VARIABLE, "")
    if value in _NO:
        return "1" if asked else ""
    return value


def reorder_words(how: str) -> list[str]:
    """The options of toposeat-exec for `reordering`'s answer."""
    if not how:
        return []
    return ["--preload", str(native_path(_LIBRARY)), "-E", f"{VARIABLE}={how}"]
