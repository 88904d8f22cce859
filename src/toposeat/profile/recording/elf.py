"""What an ELF file needs and defines, by its section headers (elf(5)): of 32 or 64 bits, any order.

A reader of all of ELF and DWARF costs twenty times as much, at the start of every profile.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from toposeat.model.files import open_input
from toposeat.model.record import Record

_SYMTAB, _DYNAMIC, _DYNSYM = 2, 6, 11  # types of sections
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29  # tags
_INTERP = 3  # type of a segment
# By class, 32 and 64 bits: the header behind its mark, a section, a tag, a symbol, and which of a
# symbol's fields is its section, 0 where another file defines it.
_FORMS = {
    1: ("HHIIIIIHHHHHH", "10I", "2I", "IIIBBH", 5),
    2: ("HHIQQQIHHHHHH", "IIQQQQIIQQ", "2Q", "IBBHQQ", 3),
}


class Elf(Record, frozen=True, kw_only=True):
    """What was asked of an ELF file.

    Attributes:
        needed: names of the libraries that it needs.
        run_path: folders that are looked into for them.
        defines: whether it defines one of the symbols that were asked for.
        is_static: neither loads libraries nor is one.
    """

    needed: tuple[str, ...]
    run_path: tuple[str, ...]
    defines: bool
    is_static: bool


def read_elf(path: Path, symbols: Sequence[str] = ()) -> Elf | None:
    """What an ELF file needs, and whether it defines a symbol; None for any other file."""
    needed, run_path = [], []
    try:
        with open_input(path) as stream:
            file = _File(stream)
            for tags, names in file.tables(_DYNAMIC):
                for tag, value in file.rows(tags, file.tag):
                    if tag == _NEEDED:
                        needed.append(_text(names, value))
                    elif tag in (_RPATH, _RUNPATH):
                        run_path += _text(names, value).split(":")
            defines = any(
                file.defines(table, names, symbol)
                for table, names in file.tables(_SYMTAB, _DYNSYM)
                for symbol in symbols
            )
            is_loaded = file.is_loaded
    except (OSError, ValueError, struct.error):
        return None
    return Elf(
        needed=tuple(needed),
        run_path=tuple(run_path),
        defines=defines,
        is_static=not is_loaded and not needed,
    )


class _File:
    """An open file; ValueError or struct.error where it is no ELF, or is cut off."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = stream.seek(0, 2)
        mark = self._read(0, 16)
        if mark[:4] != b"\x7fELF" or mark[4] not in _FORMS or mark[5] not in (1, 2):
            raise ValueError("no ELF file")
        header, section, tag, symbol, self.owner = _FORMS[mark[4]]
        order = "<" if mark[5] == 1 else ">"
        head = struct.Struct(order + header)
        self.tag, self.symbol = struct.Struct(order + tag), struct.Struct(order + symbol)
        fields = head.unpack(self._read(16, head.size))
        (*_, segments, table_at, _, _, each, count, each_section, sections, _) = fields
        word = struct.Struct(order + "I")
        programs = self._read(segments, each * count)
        self.is_loaded = any(
            word.unpack_from(programs, first)[0] == _INTERP
            for first in range(0, len(programs), each)
        )
        row = struct.Struct(order + section)
        table = self._read(table_at, each_section * sections)
        self._sections = [
            row.unpack_from(table, first) for first in range(0, len(table), each_section)
        ]

    def _read(self, at: int, size: int) -> bytes:
        if at + size > self._size:
            raise ValueError("the file is cut off")
        self._stream.seek(at)
        return self._stream.read(size)

    def _section(self, number: int) -> bytes:
        _, _, _, _, at, size, *_ = self._sections[number]
        return self._read(at, size)

    def tables(self, *kinds: int) -> Iterator[tuple[int, bytes]]:
        """The number of each section of these kinds, and the names that it points into."""
        for number, section in enumerate(self._sections):
            if section[1] in kinds and section[6] < len(self._sections):
                yield number, self._section(section[6])

    def rows(self, number: int, form: struct.Struct) -> Iterator[tuple[int, ...]]:
        """The entries of a section."""
        data = self._section(number)
        return form.iter_unpack(data[: len(data) // form.size * form.size])

    def defines(self, number: int, names: bytes, symbol: str) -> bool:
        """Whether a table of symbols has one of this name that the file itself defines."""
        word = re.escape(symbol.encode() + b"\0")  # a name may be the end of another one
        places = {found.start() for found in re.finditer(word, names)}
        return bool(places) and any(
            each[0] in places and each[self.owner] != 0 for each in self.rows(number, self.symbol)
        )


def _text(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode()
