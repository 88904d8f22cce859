"""Damage done to well-formed files: what a parser must survive without a crash or a hang."""

from __future__ import annotations

import re
from collections.abc import Callable

from hypothesis import strategies as st

from toposeat.errors import ToposeatError
from toposeat.model.traffic import Traffic

_NUMBER = re.compile(rb"\d+")
_HOSTILE = [
    b"-1", b"0", b"18446744073709551616", b"9" * 400, b"1e999", b"NaN", b"null", b"true", b"[]",
    b"{}", b'"', b"\\", b"\x00", b"\xff\xfe", b"\n", b"[" * 3000, b"4294967295", b"1000000",
]  # fmt: skip


@st.composite
def damage(draw: st.DrawFn, content: bytes) -> bytes:
    """`content` with a few numbers, lines or bytes replaced, doubled, moved or cut off."""
    for _ in range(draw(st.integers(1, 3))):
        content = draw(st.sampled_from(_WAYS))(draw, content)
    return content


def _number(draw: st.DrawFn, content: bytes) -> bytes:
    places = list(_NUMBER.finditer(content))
    if not places:
        return content
    place = draw(st.sampled_from(places))
    return content[: place.start()] + draw(st.sampled_from(_HOSTILE)) + content[place.end() :]


def _bytes(draw: st.DrawFn, content: bytes) -> bytes:
    at = draw(st.integers(0, len(content)))
    length = draw(st.integers(0, 30))
    new = draw(st.one_of(st.binary(max_size=8), st.sampled_from(_HOSTILE)))
    return content[:at] + new + content[at + length :]


def _line(draw: st.DrawFn, content: bytes) -> bytes:
    lines = content.split(b"\n")
    one, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    way = draw(st.sampled_from(["drop", "double", "swap", "join"]))
    if way == "drop":
        del lines[one]
    elif way == "double":
        lines.insert(other, lines[one])
    elif way == "swap":
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines[one] += lines[other]
    return b"\n".join(lines)


def _cut(draw: st.DrawFn, content: bytes) -> bytes:
    return content[: draw(st.integers(0, len(content)))]


_WAYS: list[Callable[[st.DrawFn, bytes], bytes]] = [_number, _bytes, _line, _cut]


def reads_or_refuses(read: Callable[[], Traffic]) -> None:
    """Whatever the file, there is a sound `Traffic` or an error that helps."""
    try:
        traffic = read()
    except ToposeatError as error:
        assert str(error)
        assert "\n" not in str(error)
        assert error.hint
    else:
        table = traffic.table()
        assert len(table) == 0 or max(table.source.max(), table.target.max()) < traffic.ranks
        assert len(table) == 0 or min(table.bytes.min(), table.messages.min()) >= 0
