"""The schema of a machine file, and the place of what does not follow it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from toposeat.errors import InputError, PartError, did_you_mean
from toposeat.model.files import read_text
from toposeat.model.quantity import Quantity, Source
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
    """Remarks on the numbers, for the reader of a topology; `reserved_cpus` is used, a list."""

    assumed: str = ""
    invented: str = ""
    pci_bus_ids: str = ""
    nics: str = ""
    pcie: str = ""
    x_bus: str = ""
    reserved_cpus: str = ""


class MachineFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One machine."""

    devices: Devices
    like: str = ""
    description: str = ""
    sources: list[str] = []
    cpu: str = ""  # the model of its processors
    pcie_generation: _Generation | None = None
    flows_fill_links: bool = False
    hosts: str = ""
    remarks: Remarks = Remarks()
    numa: Numa = Numa()
    nics: Nics = Nics()
    parts: Annotated[list[Parts], Meta(max_length=256)] = []
    links: Annotated[list[Links], Meta(max_length=1024)] = []
    pairs: Annotated[list[Pairs], Meta(max_length=64)] = []


def quantity(number: float | Stated) -> Quantity:
    """A number of a file; nominal unless it says otherwise."""
    if isinstance(number, Stated):
        return Quantity(number.value, number.source)
    return Quantity(number)


def tables_of(path: Path) -> dict[str, Any]:
    """The tables of a machine file."""
    text = read_text(path)
    try:
        if len(text) > MAX_CHARACTERS:
            raise ValueError(f"more than {MAX_CHARACTERS} characters")
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise refusal(path, f"no valid TOML: {str(error)[:200]}") from error


def refusal(
    path: Path, message: str, where: Sequence[str | int] = (), hint: str = ""
) -> InputError:
    """The error of a machine file, with the place that it is about: `links[2].type: ...`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in where)
    place = "".join(steps).lstrip(".")
    return InputError(
        f"{place}: {message}" if place else message, path=path, hint=hint or "correct that value"
    )


def merged_tables(own: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """The tables of a file, completed by those of the machine that its `like` names."""
    both = {**like, **own}
    for key in _MERGED:
        if isinstance(own.get(key), dict) and isinstance(like.get(key), dict):
            both[key] = {**like[key], **own[key]}
    return both


def decode(path: Path, tables: dict[str, Any]) -> MachineFile:
    """The machine that the tables of a file describe."""
    try:
        return msgspec.convert(tables, MachineFile)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        where = [name or int(number) for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", place)]
        if isinstance(error.__cause__, PartError):
            where += error.__cause__.part
        cause = message.replace("Object missing required field", "missing key")
        hint = ""
        if unknown := re.fullmatch("Object contains unknown field `(.*)`", message, re.DOTALL):
            cause = f"unknown key {unknown[1][:80]!r}"
            keys = (kind.__struct_encode_fields__ for kind in _STRUCTS)
            hint = did_you_mean(unknown[1][:80], {key for each in keys for key in each})
        raise refusal(path, cause, where, hint) from error


_STRUCTS = (MachineFile, Devices, Numa, Nics, Remarks, Parts, Links, Level, Pairs, Stated)
