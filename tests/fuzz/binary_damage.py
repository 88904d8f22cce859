"""Damage done to binary files: their fields, most of which are small numbers among many zeros."""

from tests.support.mutations import damage

_WIDTHS = (1, 2, 4, 8)
_BIG = tuple(1 << bits for bits in (7, 8, 15, 16, 31, 32, 40, 62, 63))
_VALUES = (*range(-3, 10), *_BIG, *(value - 1 for value in _BIG), *(-value for value in _BIG))
_SHARE_OF_TEXT = 0.15  # damaged as texts are: words moved, encodings changed


def drawn_from(seeds):
    """Draws damaged copies; each field that is not zero, or beside one, is as likely as another."""
    offsets = {name: _fields(data) for name, data in seeds}

    def draw(source):
        name, data = source.choice(seeds)
        if source.random() < _SHARE_OF_TEXT:
            return name, damage(source, data)
        changed = bytearray(data)
        for _ in range(source.randint(1, 4)):
            source.choice(_WAYS)(source, changed, offsets[name])
        return name, bytes(changed)

    return draw


def _fields(data):
    """Offsets of the words of 4 bytes that hold something, and of those beside them."""
    full = {at for at in range(0, len(data), 4) if any(data[at : at + 4])}
    return sorted({at + step for at in full for step in (-4, 0, 4) if 0 <= at + step < len(data)})


def _value(source, data, fields):
    at, width = source.choice(fields), source.choice(_WIDTHS)
    if at + width > len(data):  # cut before
        return
    order = "little" if source.random() < 0.5 else "big"  # SQLite's numbers are big-endian
    value = source.choice(_VALUES) % (1 << 8 * width)
    data[at : at + width] = value.to_bytes(width, order)


def _near(source, data, fields):
    """One more, one less: counts, offsets and lengths that almost fit."""
    at = source.choice(fields) + source.randrange(4)
    if at < len(data):
        data[at] = (data[at] + source.choice((-1, 1))) % 256


def _flip(source, data, fields):
    at = source.choice(fields) + source.randrange(4)
    if at < len(data):
        data[at] ^= 1 << source.randrange(8)


def _copy(source, data, fields):
    """One field or a row of them in the place of another."""
    width = source.choice((4, 8, 16, 64))
    here, there = source.choice(fields), source.choice(fields)
    data[here : here + width] = data[there : there + width]


def _clear(source, data, fields):
    at, width = source.choice(fields), source.choice((8, 64, 512, 4096))
    data[at : at + width] = bytes(len(data[at : at + width]))


def _shift(source, data, fields):
    """Bytes more or less: all that follows is elsewhere."""
    at, width = source.choice(fields), source.choice((1, 4, 8))
    if source.random() < 0.5:
        del data[at : at + width]
    else:
        data[at:at] = bytes(width)


def _cut(source, data, fields):
    del data[source.choice(fields) if source.random() < 0.5 else source.randint(0, len(data)) :]


_WAYS = (
    _value, _value, _value, _near, _near, _flip, _copy, _copy, _clear, _shift, _cut,
)  # fmt: skip
