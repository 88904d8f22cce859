"""A registry of readers names their modules as data: only the one that is needed is imported."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from toposeat.topology.readers.file_text import FileText


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    """One kind of source.

    Args:
        name: what people call it.
        command: how to get such a source.
        tells: what it knows, a phrase for the documentation.
        reader: the module with `parse(source)`, or `MODULE:KIND` with `parse_KIND`. It raises
            `InputError` with file and line for damage, `ValueError` for what describes nothing
            possible.
        words: a regular expression, case ignored, found in the beginning of every file of this
            kind; without, `heading` is.
        closer: whether the reader's `looks_like(source)`, or `looks_like_KIND`, decides where the
            words are found. It reads the beginning or the root element and raises nothing.
        heading: a regular expression, case ignored, found in lines that begin an output of this
            kind, for files that hold the outputs of several commands; "" for what stands alone.
        once: whether a second such line begins another output.
    """

    package: ClassVar[str]
    flags: ClassVar[int] = re.IGNORECASE | re.MULTILINE

    name: str
    command: str
    tells: str
    reader: str
    words: str = ""
    closer: bool = False
    heading: str = ""
    once: bool = False

    def looks_like(self, source: FileText | Path) -> bool:
        """Whether a source is, or was meant to be, of this kind."""
        words = self.words or self.heading
        if isinstance(source, FileText) and not re.search(words, source.start, self.flags):
            return False
        return not self.closer or bool(self.function("looks_like")(source))

    def function(self, name: str) -> Any:
        """A function of the reader, by the beginning of its name."""
        module, _, kind = self.reader.partition(":")
        return getattr(import_module(f"{self.package}.{module}"), f"{name}_{kind}".rstrip("_"))
