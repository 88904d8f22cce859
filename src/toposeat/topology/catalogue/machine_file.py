"""The schema of a machine file, and the line of what does not follow it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from toposeat.errors import InputError
from toposeat.model.files import read_text
from toposeat.model.quantity import PartError, Quantity, Source
from toposeat.model.topology import ComponentKind, PathClass, Vendor

MAX_CHARACTERS = 1 << 15  # tomllib takes 2 s for a key with half as many dots, and longer for more
MAX_DEVICES = 256
_MERGED = ("devices", "numa", "nics")  # tables that `like` completes key by key

_Rate = Annotated[float, Meta(gt=0)]
_Count = Annotated[int, Meta(ge=1, le=MAX_DEVICES)]
_Number = Annotated[int, Meta(ge=0, le=999_999)]
_Generation = Annotated[int, Meta(ge=1, le=6)]
_OF_TREES = ("tree", "below")


def _check_length(key: str, values: list[str], count: int, what: str) -> None:
    if values and len(values) != count:
        raise PartError(f"{len(values)} {key} for {count} {what}", key)


class Stated(Struct, frozen=True, forbid_unknown_fields=True):
    """A number whose source is not a data sheet."""

    value: _Rate
    source: Source

    def __post_init__(self) -> None:
        if self.source is Source.ASSUMED:
            raise PartError(
                "leave out assumed numbers: toposeat adds them with their interval", "source"
            )


class Devices(Struct, frozen=True, forbid_unknown_fields=True):
    """All GPUs of a host; a list shorter than `count` is spread evenly, in order."""

    name: str
    vendor: Vendor
    count: _Count
    pci_bus_ids: list[str] = []
    numa: list[_Number] = []
    cpus: list[str] = []
    memory_gib: Annotated[int, Meta(ge=1, le=1 << 20)] | None = None
    link: str = ""
    forwards: bool = False

    def __post_init__(self) -> None:
        _check_length("pci_bus_ids", self.pci_bus_ids, self.count, "devices")


class Numa(Struct, frozen=True, forbid_unknown_fields=True):
    """NUMA nodes of a host."""

    nodes: Annotated[list[_Number], Meta(max_length=MAX_DEVICES)] = []
    cpus: list[str] = []
    names: list[str] = []

    def __post_init__(self) -> None:
        _check_length("cpus", self.cpus, len(self.nodes), "nodes")
        _check_length("names", self.names, len(self.nodes), "nodes")


class Nics(Struct, frozen=True, forbid_unknown_fields=True):
    """Network adapters of a host; `numa` is spread over them as for devices."""

    names: Annotated[list[str], Meta(max_length=MAX_DEVICES)] = []
    pci_bus_ids: list[str] = []
    numa: list[_Number] = []
    gigabits_per_s: _Rate | None = None

    def __post_init__(self) -> None:
        _check_length("pci_bus_ids", self.pci_bus_ids, len(self.names), "adapters")


class Parts(Struct, frozen=True, forbid_unknown_fields=True):
    """Switches, bridges and packages outside trees; several of one name are numbered."""

    ids: str
    kind: ComponentKind
    name: str = ""
    numa: list[_Number] = []
    cpus: list[str] = []


class Level(Struct, frozen=True, forbid_unknown_fields=True):
    """The parts below each vertex of the level above; a bridge has `uplinks` links of `width`."""

    bridges: _Count | None = None
    switches: _Count | None = None
    devices: _Count | None = None
    nics: _Count | None = None
    uplinks: _Count = 1
    width: _Count = 16
    generation: _Generation | None = None

    def __post_init__(self) -> None:
        if (self.bridges, self.switches, self.devices or self.nics).count(None) != 2:
            raise ValueError("a level of a tree has bridges, or switches, or devices and nics")


class Links(Struct, frozen=True, forbid_unknown_fields=True):
    """Links of one type: between pairs, each to each, from one set to another, or a PCIe tree."""

    type: str = ""
    lanes: _Count = 1
    pairs: list[tuple[_Number, _Number]] = []
    each_to_each: list[str] = []
    from_: str = field(name="from", default="")
    to: str = ""
    tree: Annotated[list[Level], Meta(max_length=8)] = []
    below: str = ""
    generation: _Generation | None = None
    width: _Count | None = None
    bytes_per_s: _Rate | Stated | None = None
    combined_bytes_per_s: _Rate | Stated | None = None
    flow_bytes_per_s: _Rate | None = None
    latency_s: _Rate | Stated | None = None
    full_duplex: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        ends = (self.pairs, self.each_to_each, self.from_, self.tree)
        if sum(map(bool, ends)) != 1:
            raise ValueError("give one of pairs, each_to_each, from and to, or tree")
        if bool(self.from_) != bool(self.to) or (self.below and not self.tree):
            raise ValueError("from goes with to, below with tree")
        others = (getattr(self, key) for key in self.__struct_fields__ if key not in _OF_TREES)
        if self.tree and any(value not in ("", [], None, False, 1) for value in others):
            raise ValueError("tree goes with below, and with no other key")
        if any(level.devices or level.nics for level in self.tree[:-1]):
            raise ValueError("devices and nics are the last level of a tree")


class Pairs(Struct, frozen=True, forbid_unknown_fields=True):
    """Facts of pairs of devices, or of a device and an adapter, not of links."""

    from_: str = field(name="from", default="")
    to: str = ""
    together: _Count | None = None
    apart: _Count | None = None
    unlinked: bool = False
    flow_bytes_per_s: _Rate | Stated | None = None
    both_ways_bytes_per_s: _Rate | Stated | None = None
    path_class: PathClass | None = field(name="class", default=None)


class Remarks(Struct, frozen=True, forbid_unknown_fields=True):
    """Remarks on the numbers, for the reader of a topology."""

    assumed: str = ""
    invented: str = ""
    pci_bus_ids: str = ""
    nics: str = ""
    pcie: str = ""
    x_bus: str = ""


class MachineFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One machine."""

    devices: Devices
    like: str = ""
    description: str = ""
    sources: list[str] = []
    pcie_generation: _Generation | None = None
    flows_fill_links: bool = False
    hosts: str = ""
    remarks: Remarks = Remarks()
    numa: Numa = Numa()
    nics: Nics = Nics()
    parts: Annotated[list[Parts], Meta(max_length=256)] = []
    links: Annotated[list[Links], Meta(max_length=1024)] = []
    pairs: Annotated[list[Pairs], Meta(max_length=64)] = []


_STRUCT_AT: dict[tuple[str, ...], type[Struct]] = {
    (): MachineFile,
    ("devices",): Devices,
    ("numa",): Numa,
    ("nics",): Nics,
    ("remarks",): Remarks,
    ("parts",): Parts,
    ("links",): Links,
    ("links", "tree"): Level,
    ("pairs",): Pairs,
}


def quantity(number: float | Stated) -> Quantity:
    """A number of a file; nominal unless it says otherwise."""
    if isinstance(number, Stated):
        return Quantity(number.value, number.source)
    return Quantity(number)


class MachineText:
    """The text of one machine file.

    Raises:
        InputError: the file is unreadable, too large or not TOML.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = read_text(path)
        if len(self.text) > MAX_CHARACTERS:
            raise InputError(
                "too large to describe one machine",
                path=path,
                hint=f"a machine file has at most {MAX_CHARACTERS} characters",
            )
        try:
            self.tables = tomllib.loads(self.text)
        except (ValueError, RecursionError) as error:
            raise self._syntax_error(error) from error

    def _syntax_error(self, error: Exception) -> InputError:
        place = re.search(r" \(at line (\d+), column \d+\)", str(error))
        if isinstance(error, RecursionError):
            cause, line = "nested too deeply", 1
        elif place:
            cause, line = str(error).replace(place.group(), ""), int(place.group(1))
        elif isinstance(error, tomllib.TOMLDecodeError):  # "(at end of document)"
            cause, line = str(error), self.text.count("\n") + 1
        else:
            cause, line = "a number is out of range", 1
        return InputError(
            f"no valid TOML: {cause[:1].lower()}{cause[1:200]}",
            path=self.path,
            line=line,
            hint="correct that line",
        )

    def error(self, message: str, where: Sequence[str | int], hint: str = "") -> InputError:
        """An error with the line of the value at `where`, else of its table, else of `like`."""
        line = line_of(self.text, where) or line_of(self.text, ["like"])
        return InputError(message, path=self.path, line=line, hint=hint or "correct that value")


def merged_tables(own: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """The tables of a file, completed by those of the machine that its `like` names."""
    both = {**like, **own}
    for key in _MERGED:
        if isinstance(own.get(key), dict) and isinstance(like.get(key), dict):
            both[key] = {**like[key], **own[key]}
    return both


def decode(text: MachineText, tables: dict[str, Any]) -> MachineFile:
    """The machine that the tables of a file describe.

    Raises:
        InputError: an unknown key, a missing one, a wrong type or range.
    """
    try:
        return msgspec.convert(tables, MachineFile)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        where = [name or int(number) for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", path)]
        unknown = re.search("unknown field `(.*)`$", message, re.DOTALL)
        if unknown:
            raise _unknown_key(text, unknown[1], where) from error
        at = ""
        if isinstance(error.__cause__, PartError):
            where += error.__cause__.part
        elif where and isinstance(where[-1], str):
            at = f" in {where[-1]}"
        cause = message.replace("Object missing", "missing").replace("Expected", "expected")
        raise text.error(cause.replace("field", "key") + at, where) from error


def _unknown_key(text: MachineText, key: str, where: list[str | int]) -> InputError:
    names = tuple(step for step in where if isinstance(step, str))
    known = _STRUCT_AT.get(names, Stated).__struct_encode_fields__
    near = get_close_matches(key, known, n=2)
    return text.error(
        f"unknown key {key[:80]!r}",
        [*where, key],
        f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}",
    )


_HEADER = re.compile(r"^[ \t]*\[\[?([A-Za-z_][\w.-]*)\]\]?[ \t]*(?:#.*)?$", re.MULTILINE)


def line_of(text: str, where: Sequence[str | int]) -> int | None:
    """The line of the table or key that `where` leads to, or of the last step that is found.

    The text is scanned, not parsed: a string that looks like a key may lead to a wrong line number,
    and to no other error.
    """
    if not where:
        return None
    headers = [match for match in _HEADER.finditer(text) if match[1] == where[0]]
    steps = list(where[1:])
    number = steps.pop(0) if headers and steps and isinstance(steps[0], int) else 0
    if headers:
        start = headers[min(int(number), len(headers) - 1)].start()
        after = _HEADER.search(text, text.index("\n", start) if "\n" in text[start:] else start)
    else:
        start, after, steps = 0, _HEADER.search(text), list(where)
    region = text[: after.start()] if after else text
    found = start if headers else None
    position = start
    for step in steps:
        if isinstance(step, int):
            for _ in range(step + 1):
                position = max(region.find("{", position + 1), position)
            found = found if position == start else position
            continue
        key = re.compile(rf"(?:^[ \t]*|[{{,.][ \t]*){re.escape(step)}[ \t]*[=.]", re.MULTILINE)
        match = key.search(region, position)
        if match is None:
            break
        found = position = match.end() - 1
    return None if found is None else text.count("\n", 0, found) + 1
