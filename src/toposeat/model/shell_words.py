"""Words of a command as one would type them: how every line to copy is quoted."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable


def shell_word(text: object) -> str:
    r"""A word, such as the name of a file, as one word of a command for bash.

    A name may hold bytes that are no UTF-8, or what no line shows: they stand as `$'\377'`, which
    is what bash reads back.
    """
    word = os.fspath(text) if isinstance(text, os.PathLike) else str(text)
    assert isinstance(word, str)
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, word))}'"


def shell_line(words: Iterable[object]) -> str:
    """A command for bash, of one line."""
    return " ".join(map(shell_word, words))


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    is_byte = "\udc80" <= character <= "\udcff"  # as Python holds those that are no UTF-8
    encoded = character.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in encoded)
