"""Pickles that hold data only: dicts, lists, tuples, text, numbers, truth values and None.

A pickle is a program for a machine that can call anything. Each of its instructions is looked at
before it runs: those of plain data are let through, and any other refuses the file.
"""

from __future__ import annotations

import pickle
import pickletools
from io import BytesIO
from typing import Any, Never

MAX_BYTES = 1 << 26
_MAX_MEMO = 1 << 22
_WORDS = """
PROTO FRAME STOP MARK EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST DICT APPEND
APPENDS SETITEM SETITEMS NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE
SHORT_BINUNICODE BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET
"""
_DATA = frozenset(_WORDS.split())


class _NoNames(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Never:
        raise ValueError(f"it names {module}.{name}")


def load_data(data: bytes) -> Any:
    """The object of a pickle.

    Raises:
        ValueError: an instruction that is not plain data, damage, or what follows its end.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    end = -1
    for instruction, argument, position in pickletools.genops(data):
        if instruction.name not in _DATA:
            raise ValueError(f"a pickle with more than data ({instruction.name})")
        if instruction.name == "LONG_BINPUT" and int(argument or 0) > _MAX_MEMO:
            raise ValueError("a pickle with a memo too large")
        end = -1 if position is None else position
    if end + 1 != len(data):
        raise ValueError("something follows the pickle")
    try:
        return _NoNames(BytesIO(data)).load()
    except (pickle.UnpicklingError, TypeError, IndexError, KeyError, EOFError) as error:
        raise ValueError(f"a damaged pickle: {error}") from error
