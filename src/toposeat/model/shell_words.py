"""Words of a command as one would type them: how every line to copy is quoted."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence


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


def joined_sources(sources: Sequence[str]) -> str:
    """Several sources of one machine as one text, `topo.txt -t p2p.txt`; one stays as it is."""
    return sources[0] if len(sources) == 1 else " -t ".join(map(shell_word, sources))


def sources_in(text: str) -> list[str]:
    """The sources that a text of `joined_sources` names."""
    try:
        words = shlex.split(text) if " -t " in text else []
    except ValueError:  # a quotation mark alone: the name of a file
        words = []
    is_joined = len(words) % 2 == 1 and set(words[1::2]) == {"-t"}
    return words[::2] if is_joined else [text]


def names_this(text: str | None) -> bool:
    """Whether the machine that a text of `joined_sources` names is this one; None is."""
    return text is None or "this" in map(str.strip, sources_in(text))


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    is_byte = "\udc80" <= character <= "\udcff"  # as Python holds those that are no UTF-8
    encoded = character.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in encoded)
