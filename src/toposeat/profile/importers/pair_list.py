"""A sparse traffic matrix in a text file: one line per pair of ranks that communicate.

    # ranks=4096
    source,target,bytes,messages
    0,1,1048576,16
    1,0,524288,8

The first line that is no comment says what the columns are; `messages` may be missing. The comment
is needed if the last ranks send and receive nothing.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np

from toposeat.errors import InputError
from toposeat.model.files import read_input
from toposeat.model.traffic import MAX_TOTAL, PairTable, Traffic
from toposeat.profile.message_list import table_traffic

MAX_RANKS = 1 << 22
_HINT = "a line source,target,bytes[,messages], then a line of such whole numbers per pair"
_HEADER = re.compile(
    r"\A\ufeff?(?:[ \t]*(?:#.*)?\r?\n)*[ \t]*source,target,bytes(,messages)?[ \t]*\r?$", re.M
)
_RANKS = re.compile(r"^[ \t]*#[ \t]*ranks[ \t]*=[ \t]*([0-9]{1,10})[ \t]*\r?$", re.MULTILINE)


def looks_like_pair_list(text: str) -> bool:
    """Whether the first line that is no comment names the columns of a pair list."""
    return _HEADER.match(text) is not None


def read_pair_list(path: str | Path) -> Traffic:
    """Read pairs of ranks with their bytes; memory grows with pairs, not with ranks squared.

    Pairs that are named more than once are added up. Without a column of messages there is one per
    line. There are as many ranks as the largest number needs, or as `# ranks=N` says.

    Raises:
        InputError: with the line number, on anything else.
    """
    try:
        text = read_input(path).decode()
    except UnicodeDecodeError as error:
        raise InputError("this is not a text file", path=path, hint=_HINT) from error
    header = _HEADER.match(text)
    if header is None:
        raise InputError("no line names the columns", path=path, hint=_HINT)
    columns = 4 if header[1] else 3
    no_row = re.compile(
        rf"^(?![ \t]*(?:#.*)?\r?$|[0-9]{{1,18}}(?:,[0-9]{{1,18}}){{{columns - 1}}}\r?$).*", re.M
    )
    wrong = no_row.search(text, header.end() + 1)
    if wrong is not None:
        raise InputError(
            f"{wrong[0].strip()[:40]!r} is no line of {columns} whole numbers",
            path=path, line=text.count("\n", 0, wrong.start()) + 1, hint=_HINT,
        )  # fmt: skip
    body = text[header.end() :]
    if re.search("^[0-9]", body, re.MULTILINE) is None:
        raise InputError("there is no pair in the file", path=path, hint=_HINT)
    rows = np.loadtxt(io.StringIO(body), np.int64, delimiter=",", ndmin=2)
    source, target, size = rows.T[:3]
    messages = rows[:, 3] if header[1] else np.ones(size.size, np.int64)
    if max(each.sum(dtype=np.float64) for each in (size, messages)) >= MAX_TOTAL:
        raise InputError("the bytes or messages do not fit in 62 bits", path=path, hint=_HINT)
    needed = 1 + int(rows[:, :2].max())
    said = _RANKS.search(text)
    ranks = needed if said is None else int(said[1])
    if not needed <= ranks <= MAX_RANKS:
        raise InputError(
            f"{ranks} ranks, but the pairs need {needed} and at most {MAX_RANKS} are read",
            path=path,
            line=None if said is None else text.count("\n", 0, said.start()) + 1,
            hint="ranks are numbered from 0",
        )
    pairs = PairTable.from_pairs(source, target, size, messages)
    return table_traffic("pair list", path, ranks, pairs, one_per=None if header[1] else "line")
