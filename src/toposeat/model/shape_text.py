"""Parse the text of a large machine's shape; `mapping.shapes` says what it means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite, prod

from msgspec import Struct

from toposeat.errors import InputError, UsageError
from toposeat.model.files import read_text

MAX_SLOTS = 1 << 22
SHAPE_KINDS = ("hierarchy", "fattree", "torus2d", "torus3d", "torus4d", "dragonfly")
_GB = 1e9
_US = 1e-6
_FORM = r"([a-z]+[1-4]?d?):([0-9]+(?:[:x][0-9]+)*)((?:,[^,]*)*)"
_NUMBER = r"[0-9]{1,12}(\.[0-9]{1,12})?(e-?[0-9]{1,2})?"
SHAPE_HINT = (
    "forms: hierarchy:4:8:128  fattree:8:16:32  torus3d:8x8x16,nodes=2  dragonfly:9:16:4:4;"
    " behind a comma costs= bandwidth= latency= taper= rails= hosts=;"
    " see docs/how-to/networks.md"
)


def is_shape(text: str) -> bool:
    """Whether `text` begins like the shape of a large machine, or with the name of a known one."""
    kind, colon, _ = text.partition(":")
    return (bool(colon) and kind in SHAPE_KINDS) or known_shape(text) is not None


class ShapeText(Struct):
    """One parsed shape string; its methods take options out of `options`."""

    text: str
    kind: str
    sizes: tuple[int, ...]
    options: dict[str, str] = {}

    def error(self, cause: str) -> UsageError:
        """The error for this string."""
        cause = cause if cause.isprintable() and len(cause) < 300 else repr(cause[:200])
        return UsageError(f"{self.text[:80]!r}: {cause}", hint=SHAPE_HINT)

    def numbers(self, name: str, count: int, default: Sequence[float]) -> list[float]:
        """`count` numbers >= 0; one alone stands for all of them."""
        text = self.options.pop(name, None)
        if text is None:
            return list(default)
        words = text.split(":")
        if not all(re.fullmatch(_NUMBER, word) and isfinite(float(word)) for word in words):
            raise self.error(f"{name}={text} is not a list of numbers such as 1:10:100")
        values = [float(word) for word in words]
        if len(values) == 1:
            values *= count
        if len(values) != count:
            raise self.error(f"{name} has {len(values)} numbers, expected {count}")
        return values

    def bandwidths(self, name: str, count: int, default_gbs: Sequence[float]) -> list[float]:
        """Bytes per second, each greater than 0."""
        values = self.numbers(name, count, default_gbs)
        if not all(1e-9 <= value <= 1e9 for value in values):
            raise self.error(f"{name}: a bandwidth must be from 1e-9 to 1e9 GB/s")
        return [value * _GB for value in values]

    def latencies(self, count: int, default_us: Sequence[float]) -> list[float]:
        """`count` latencies in seconds."""
        values = self.numbers("latency", count, default_us)
        if not all(value <= 1e9 for value in values):
            raise self.error("latency: at most 1e9 us")
        return [value * _US for value in values]

    def count(self, name: str, default: int, most: int) -> int:
        """A whole number from 1 to `most`."""
        text = self.options.pop(name, None)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
            raise self.error(f"{name} must be a whole number from 1 to {most}, got {text[:30]!r}")
        return int(text)

    def taper(self) -> float:
        """How much less than what enters a switch from below its uplinks carry: 1 to 1000."""
        given = "taper" in self.options
        (value,) = self.numbers("taper", 1, [1.0])
        if not 1 <= value <= 1000:
            raise self.error("taper must be from 1 to 1000")
        if given and "bandwidth" in self.options:
            raise self.error("taper= is for uplinks without a bandwidth, and bandwidth= states all")
        return value

    def hosts(self, count: int) -> tuple[str, ...]:
        """Names of the nodes: those of the file that `hosts=` names, else numbered ones."""
        path = self.options.pop("hosts", None)
        if path is None:
            width = len(str(max(0, count - 1)))
            return tuple(f"node{number:0{width}d}" for number in range(count))
        return _host_names(path, count)

    def finish(self) -> None:
        """Refuse options that were not taken."""
        if self.options:
            raise self.error(f"unknown option {next(iter(self.options))!r}")


def parse_shape(text: str) -> ShapeText:
    """Kind, sizes and options of a shape string; options after a known name replace its own."""
    known = known_shape(text)
    if known is not None:
        request = parse_shape(known.shape)
        request.text = text
        request.options |= _options(request, text.partition(",")[2])
        return request
    match = re.fullmatch(_FORM, text.strip())
    if match is None or match.group(1) not in SHAPE_KINDS:
        raise UsageError(f"not the shape of a large machine: {text[:120]!r}", hint=SHAPE_HINT)
    kind, numbers, rest = match.groups()
    sizes = tuple(int(number[:10]) for number in re.split("[:x]", numbers))
    if not 1 <= prod(sizes) <= MAX_SLOTS:
        raise UsageError(
            f"{text[:120]!r}: a shape has 1 to {MAX_SLOTS} slots",
            hint="describe the part of the machine that you use",
        )
    request = ShapeText(text, kind, sizes)
    request.options |= _options(request, rest)
    return request


def _options(request: ShapeText, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for item in filter(None, text.split(",")):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not value:
            raise request.error(f"expected NAME=VALUE, got {item!r}")
        if name in options:
            raise request.error(f"{name} is given twice")
        options[name] = value
    return options


def _host_names(path: str, count: int) -> tuple[str, ...]:
    names = tuple(read_text(path).split())
    if len(names) != count:
        raise InputError(
            f"{len(names)} host names for {count} nodes", path=path, hint="one host name per line"
        )
    if len(set(names)) < len(names):
        raise InputError("a host is named twice", path=path, hint="one host name per line")
    return names


class KnownShape(Struct, frozen=True, kw_only=True):
    """A machine of many hosts: its shape as text, published facts, and what had to be assumed."""

    name: str
    shape: str
    kind: str  # of network, as it is shown
    hosts: int
    description: str
    sources: tuple[str, ...]
    assumed: str


BLUE_WATERS = KnownShape(
    name="blue-waters",
    shape="torus3d:24x24x24,nodes=2,bandwidth=9.4:4.7:9.4,node-bandwidth=6,latency=1:0.1",
    kind="3-D torus",
    hosts=27648,
    description="Blue Waters (Cray XE6 and XK7): Gemini torus of 24x24x24 routers with two nodes on"
    " each, links along Y half as fast as along X and Z",
    sources=(
        "NCSA: Blue Waters portal, getting started, quick hardware summary (Gemini torus of"
        " 24x24x24, 26864 compute nodes)",
        "P. Balaji, W. Gropp, T. Lusk, R. Thakur: System software for scalable applications, slides"
        " (X and Z have twice the bandwidth of Y, two nodes share a Gemini, about 0.1 us per hop)",
        "A. van der Steen: Overview of recent supercomputers, Cray XE6 (over 6 GB/s per direction"
        " measured into the network, 0.7 to 1.4 us)",
    ),
    assumed="9.4 GB/s along X and Z and 4.7 along Y; all places of the torus hold compute nodes",
)

KNOWN_SHAPES = {each.name: each for each in (BLUE_WATERS,)}


def known_shape(text: str) -> KnownShape | None:
    """The machine that `text` begins with, options aside; None if it names none."""
    return KNOWN_SHAPES.get(text.partition(",")[0].strip().lower())
