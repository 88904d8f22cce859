"""Damage done to well-formed files: what a parser must survive without a crash or a hang."""

import re

_NUMBER = re.compile(rb"\d+")
_WORD = re.compile(rb"[^\s<>\"=|,;:/\[\](){}]+")
_TAG = re.compile(rb"<[^<>]{1,400}>")
_ATTRIBUTE = re.compile(rb"\s[\w-]+=\"[^\"\n]*\"")
HOSTILE_NUMBERS = (
    b"-1", b"0", b"00", b"1", b"2", b"63", b"64", b"255", b"65536", b"1000000", b"4294967295",
    b"18446744073709551616", b"9" * 400, b"1e999", b"-0.0", b"1e-320", b"NaN", b"inf", b"0x",
    b"N/A", "\u0663".encode(), "\u00b2".encode(),
)  # fmt: skip
HOSTILE_BYTES = (
    b"null", b"true", b"[]", b"{}", b'"', b"\\", b"\x00", b"\xff\xfe", b"\n", b"\n\n\n", b"\r",
    b"\t", b"\x1b[4m", b"\xef\xbb\xbf", b"\xc2\xa0", b"[" * 3000, b"<a>" * 300, b"&x;", b"<!--",
    b"-->", b"|", b"%s", b" " * 5000, b"../../../../etc/passwd",
    "\U0001f600\u200b\u0130".encode(), b'<!DOCTYPE a [<!ENTITY x "y">]>',
)  # fmt: skip
_MAX_GROWTH = 4_000_000


def damage(source, content, *, others=()):
    """`content` with one to four things replaced, doubled, moved or cut off.

    Args:
        source: where the choices come from.
        content: of a well-formed file.
        others: files of the same kind, parts of which may be mixed in.
    """
    for _ in range(source.randint(1, 4)):
        way = source.randint(0, len(_WAYS) - (0 if others else 1))
        content = (
            _WAYS[way](source, content) if way < len(_WAYS) else _splice(source, content, others)
        )
    return content[:_MAX_GROWTH]


def _place(source, pattern, content):
    """One match of the pattern, near a random position: whole files are too long to list."""
    at = source.randint(0, len(content))
    match = pattern.search(content, at) or pattern.search(content)
    return match.span() if match else None


def _number(source, content):
    place = _place(source, _NUMBER, content)
    return _replaced(content, place, source.choice(HOSTILE_NUMBERS)) if place else content


def _near_number(source, content):
    """Another number of the same size: what a typing error or a flipped bit leaves."""
    place = _place(source, _NUMBER, content)
    if not place:
        return content
    digits = min(place[1] - place[0], 9)
    return _replaced(content, place, b"%d" % source.randint(0, 10**digits))


def _numbers(source, content):
    """One number replaced wherever it stands: an id that becomes another one throughout."""
    one, other = _place(source, _NUMBER, content), _place(source, _NUMBER, content)
    if not one or not other:
        return content
    old, new = content[slice(*one)], content[slice(*other)]
    return re.sub(rb"(?<!\d)" + old + rb"(?!\d)", new, content, count=200)


def _word(source, content):
    """One word put in the place of another, of the same file: right kind, wrong column."""
    one, other = _place(source, _WORD, content), _place(source, _WORD, content)
    return _replaced(content, one, content[slice(*other)]) if one and other else content


def _bytes(source, content):
    at = source.randint(0, len(content))
    return _replaced(content, (at, at + source.randint(0, 30)), source.choice(HOSTILE_BYTES))


def _drop(source, content):
    at = source.randint(0, len(content))
    return _replaced(content, (at, at + source.randint(1, 300)), b"")


def _flip(source, content):
    at = source.randint(0, max(0, len(content) - 1))
    return _replaced(content, (at, at + 1), bytes([source.randint(0, 255)]))


def _drop_line(source, content):
    start, end = _line(source, content)
    return _replaced(content, (start, end), b"")


def _copy_lines(source, content):
    """A few lines once more, somewhere else: second matrices, second children."""
    start, end = _line(source, content)
    for _ in range(source.randint(0, 12)):
        end = content.find(b"\n", end) + 1 or len(content)
    target, _ = _line(source, content)
    return _replaced(content, (target, target), content[start:end] * source.randint(1, 3))


def _swap_lines(source, content):
    (a, b), (c, d) = sorted((_line(source, content), _line(source, content)))
    if b > c:
        return content
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def _join_lines(source, content):
    _, end = _line(source, content)
    return _replaced(content, (max(0, end - 1), end), b"")


def _wrap(_, content):
    """Lines broken at 80 columns, as terminals and web pages do."""
    return re.sub(rb"([^\n]{80})", rb"\1\n", content)


def _tag(source, content):
    """One tag dropped, or doubled: elements that swallow others or never end."""
    place = _place(source, _TAG, content)
    if not place:
        return content
    return _replaced(content, place, content[slice(*place)] * source.randint(0, 3))


def _attribute(source, content):
    """One attribute dropped, or replaced by another element's."""
    one, other = _place(source, _ATTRIBUTE, content), _place(source, _ATTRIBUTE, content)
    if not one or not other:
        return content
    return _replaced(content, one, content[slice(*other)] if source.randint(0, 1) else b"")


def _cut(source, content):
    return content[: source.randint(0, len(content))]


def _cut_columns(source, content):
    """Every line cut at one column, as narrow screens do."""
    width = source.randint(0, 160)
    return b"\n".join(line[:width] for line in content.split(b"\n"))


def _ends(source, content):
    """Other line ends or other encodings of the whole."""
    way = source.randint(0, 4)
    if way == 0:
        return content.replace(b"\n", b"\r\n")
    if way == 1:
        return content.replace(b"\n", b"\r")
    if way == 2:
        return b"\xef\xbb\xbf" + content
    if way == 3:
        return content.decode("utf-8", "replace").encode("utf-16")
    return content.replace(b"\t", b"        ").replace(b"  ", b"\xc2\xa0 ")


def _splice(source, content, others):
    """The beginning of one file and the end of another."""
    other = source.choice(others)
    return content[: source.randint(0, len(content))] + other[source.randint(0, len(other)) :]


def _line(source, content):
    """Start and end of one line, its newline included."""
    at = source.randint(0, len(content))
    start = content.rfind(b"\n", 0, at) + 1
    return start, content.find(b"\n", start) + 1 or len(content)


def _replaced(content, place, new):
    return content[: place[0]] + new + content[place[1] :]


_WAYS = (
    _number, _number, _near_number, _near_number, _numbers, _word, _word, _bytes, _drop, _flip,
    _drop_line, _drop_line, _copy_lines, _swap_lines, _join_lines, _wrap, _tag, _tag, _attribute,
    _attribute, _cut, _cut_columns, _ends,
)  # fmt: skip
