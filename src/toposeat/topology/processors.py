"""What processors carry between GPUs, by family: the one table of it is `processors.json`.

Two GPUs that share no switch talk through a processor, and families differ by up to 20 times in
what they let through. Each number is an interval with its public source. Where nothing is published
of a family, a number is that of its nearest relative, and its source says so.

Rates of copies are those of copy engines, larger than 64 MB. NCCL's kernels read and write staging
memory themselves, which is slower than copy engines on most hosts: these are numbers of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from toposeat.model.open_fact import FLOW_PREMISE, OF_X16, SOCKETS_PREMISE
from toposeat.model.quantity import Premise, median
from toposeat.topology.constants import GB_PER_S, pcie_bytes_per_s


class Family(Struct, frozen=True):
    """One family of processors.

    Args:
        name: what people call it.
        names: pattern found in the name of a model, in capitals.
        models: (family, model) as /proc/cpuinfo has them.
        pcie: the generation of its PCIe links; None where it varies.
        flow_across: what one direct copy carries between sockets, GB/s, however fast the links are.
        flow_across_both: both directions of such a pair together, x one direction.
        sockets: all copies together from one socket to the other, GB/s.
        sockets_both: both directions together, x one direction.
        copied_within, copied_across: a copy that the driver stages in host memory (no peer access),
            within a socket and between two, as a share of what an x16 link of the family reaches.
        copied_both: both directions of such a copy together, x one direction.
        copied_siblings, copied_siblings_both: of devices below one switch, whose uplink such a copy
            uses up and down: a share of the others' rate, and both directions, x one direction.
        staged_within, staged_across: what each step of a ring of NCCL reaches while both directions
            are staged in host memory (its SHM transport), as a share of an x16 link.
        host_bridge: what a direct copy reaches across host bridges of a socket (PHB, NODE), as a
            share of the links.
        pcie_both: both directions of one PCIe link together, x one direction.
        nps4: what is other with four memory nodes per socket (NPS4), by their member's name.
    """

    name: str
    names: str
    models: frozenset[tuple[int, int]]
    pcie: int | None
    flow_across: Premise
    flow_across_both: Premise
    sockets: Premise
    sockets_both: Premise
    copied_within: Premise
    copied_across: Premise
    copied_both: Premise
    copied_siblings: Premise
    copied_siblings_both: Premise
    staged_within: Premise
    staged_across: Premise
    host_bridge: Premise
    pcie_both: Premise
    nps4: dict[str, Premise] = {}

    def with_nodes(self, nodes_per_socket: float) -> Family:
        """The family where each socket has as many memory nodes."""
        return msgspec.structs.replace(self, **self.nps4) if nodes_per_socket == _NPS4 else self

    @property
    def numbers(self) -> dict[str, Premise]:
        """All numbers, by their member's name."""
        return {name: getattr(self, name) for name in _WHAT}


_NPS4 = 4
_ONE_WAY = "times one direction"
_WHAT = {
    "flow_across": (FLOW_PREMISE, "GB/s"),
    "flow_across_both": ("both directions of a copy between sockets", _ONE_WAY),
    "sockets": (SOCKETS_PREMISE, "GB/s"),
    "sockets_both": ("both directions between sockets", _ONE_WAY),
    "copied_within": ("copies through host memory in a socket", OF_X16),
    "copied_across": ("copies through host memory between sockets", OF_X16),
    "copied_both": ("both directions of copies through host memory", _ONE_WAY),
    "copied_siblings": ("copies through host memory below one switch", "of the rate of others"),
    "copied_siblings_both": (
        "both directions of copies through host memory below one switch",
        _ONE_WAY,
    ),
    "staged_within": ("NCCL through host memory in a socket", OF_X16),
    "staged_across": ("NCCL through host memory between sockets", OF_X16),
    "host_bridge": ("copies across host bridges", "of the rate of their links"),
    "pcie_both": ("both directions of PCIe", _ONE_WAY),
}
_Number = tuple[float, float, float, str]


def _premise(member: str, number: _Number) -> Premise:
    low, nominal, high, source = number
    what, unit = _WHAT[member]
    return Premise(what=what, low=low, nominal=nominal, high=high, unit=unit, source=f"{source}.")


class _Told(Struct, frozen=True):
    """A family in the file; what it does not state is taken from its relative."""

    name: str
    names: str = r"(?!)"
    models: dict[int, list[int]] = {}
    pcie: int | None = None
    like: str = ""
    numbers: dict[str, _Number] = {}
    nps4: dict[str, _Number] | str = {}  # the relative's name: as it, whose I/O die it has

    def with_relative(self, like: Family | None) -> Family:
        """The family; of a relative's numbers the source says so."""

        def as_of(like: Family, relative: Premise) -> Premise:
            told = relative.source
            if relative.what != _WHAT["pcie_both"][0] and not told.startswith("as of"):
                told = f"as of {like.name}, nothing is published of this family: {told}"
            return replace(relative, source=told)

        found = {name: _premise(name, number) for name, number in self.numbers.items()}
        nps4 = {}
        if not isinstance(self.nps4, str):
            nps4 = {name: _premise(name, number) for name, number in self.nps4.items()}
        elif like is not None:
            nps4 = {name: as_of(like, each) for name, each in like.nps4.items()}
        if like is not None:
            found = {name: as_of(like, each) for name, each in like.numbers.items()} | found
        models = frozenset((of, model) for of, own in self.models.items() for model in own)
        return Family(self.name, self.names, models, self.pcie, **found, nps4=nps4)


@cache
def families() -> tuple[Family, ...]:
    """Every family of `processors.json`, after its relative.

    A name may fit several patterns: the first one counts (Threadrippers are Ryzens).
    """
    text = Path(__file__).with_name("processors.json").read_bytes()
    found: dict[str, Family] = {}
    for each in msgspec.json.decode(text, type=list[_Told]):
        found[each.name] = each.with_relative(found.get(each.like))
    return tuple(found.values())


# NCCL up to 2.29 adds the extended family shifted by four bits (NCCL pull request 2036).
_NCCL_FAMILY = {143: 23, 159: 24, 175: 25, 191: 26}
_NO_OPINION = {"flow_across", "host_bridge"}  # alike until somebody says that they differ


@cache
def unknown(pcie: int | None = None) -> Family:
    """A processor that nothing tells: the range over all families that may hold such cards.

    Cards of one PCIe generation are in machines of the same or of the next one. It has no opinion
    on where GPUs sit: direct copies are alike everywhere, and so are staged ones.
    """
    near = [x for x in families() if pcie is None or (x.pcie or 0) - pcie in (0, 1)] or families()
    source = f"the processor is not known: the range over {len(near)} families"
    found: dict[str, _Number] = {}
    for member in _WHAT:
        of_all = [each.numbers[member] for each in near]
        low, high = min(each.low for each in of_all), max(each.high for each in of_all)
        found[member] = (low, median(each.nominal for each in of_all), high, source)
    for member in _NO_OPINION:
        low, _, high, _ = found[member]
        alike = pcie_bytes_per_s(pcie or 4) / GB_PER_S if member == "flow_across" else high
        found[member] = (min(low, alike), alike, max(high, alike), source)
    low, _, high, _ = found["flow_across_both"]
    found["flow_across_both"] = (low, found["pcie_both"][1], high, source)
    for member in ("copied", "staged"):
        nominal = found[f"{member}_within"][1]
        low, _, high, _ = found[f"{member}_across"]
        found[f"{member}_across"] = (low, nominal, max(nominal, high), source)
    return _Told("unknown", pcie=pcie, numbers=found).with_relative(None)


def family_of(told: Iterable[str] | str = (), name: str = "") -> Family:
    """The family of a processor, by its name or by what a source tells of its model.

    Args:
        told: arch, vendor, family and model as NCCL's files or /proc/cpuinfo have them, as far as
            they are told; text is split at blanks.
        name: of the model, as lscpu or hwloc has it.
    """
    return _family_of(tuple(told.split() if isinstance(told, str) else told), name)


@cache
def _family_of(words: tuple[str, ...], name: str) -> Family:
    upper = re.sub(r"\s+", " ", name.upper())
    for each in families():
        if re.search(each.names, upper):
            return each
    numbers = [int(word) for word in words[2:4] if word.isascii() and word.isdigit()]
    if len(numbers) == 2 and "86" in words[0]:
        key = (_NCCL_FAMILY.get(numbers[0], numbers[0]), numbers[1])
        for each in families():
            if key in each.models:
                return each
    return unknown()
