"""Slurm's `topology.conf` (tree and block), and what `scontrol show topology` prints of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from toposeat.model.network import Network
from toposeat.topology.networks.blocks import Block, network_of_blocks
from toposeat.topology.networks.builder import NetworkBuilder, few
from toposeat.topology.readers.file_text import FileText

ORIGIN = "Slurm topology.conf"
_FIRST_WORD = re.compile(r"^[ \t]*(SwitchName|BlockName)[ \t]*=", re.IGNORECASE | re.MULTILINE)
_PAIR = re.compile(r"(?<![A-Za-z])([A-Za-z]{1,30})[ \t]{0,99}=[ \t]*(\"[^\"]*\"|[^\s\"]*)")
_KNOWN = frozenset(
    [
        "switchname",
        "switches",
        "nodes",
        "linkspeed",
        "level",
        "blockname",
        "blocksizes",
        "blocksize",
        "blockindex",
        "switchindex",
    ]
)
_HINT = "lines are SwitchName=NAME with Nodes=LIST or Switches=LIST, or BlockName=NAME Nodes=LIST"


def looks_like(file: FileText) -> bool:
    """Whether a line begins with SwitchName= or BlockName=."""
    return _FIRST_WORD.search(file.start) is not None


def parse(file: FileText) -> Network:
    """The tree of switches, or the blocks.

    Link speeds are read and left out: Slurm gives them no unit and does not use them.

    Raises:
        InputError: with file and line.
    """
    builder = NetworkBuilder(path=file.path)
    lines = list(_lines(file, builder))
    blocks = [line for line in lines if "blockname" in line.values]
    switches = [line for line in lines if "switchname" in line.values]
    if blocks and switches:
        builder.report.append("the file has switches and blocks: the switches are used")
    if switches:
        return _tree(builder, switches, file)
    if not blocks:
        raise builder.error("no switch and no block", None, _HINT)
    return _blocks(builder, lines, blocks, file)


@dataclass(frozen=True)
class _Line:
    number: int
    values: dict[str, str]  # keys in lower case


def _lines(file: FileText, builder: NetworkBuilder) -> Iterator[_Line]:
    """Lines without comments, joined where they end in a backslash."""
    pending, first = "", 0
    for number, raw in enumerate((*file.lines, ""), start=1):
        text = pending + raw.split("#", 1)[0].rstrip()
        first = first if pending else number
        if text.endswith("\\") and number <= len(file.lines):
            pending = text[:-1] + " "
            continue
        pending = ""
        if text.strip():
            yield _line(text, first, builder)


def _line(text: str, number: int, builder: NetworkBuilder) -> _Line:
    values: dict[str, str] = {}
    end = 0
    for match in _PAIR.finditer(text):
        if text[end : match.start()].strip():
            break
        end = match.end()
        key = match.group(1).lower()
        if key not in _KNOWN:
            raise builder.error(f"unknown key {match.group(1)[:30]!r}", number, _HINT)
        if key in values:
            raise builder.error(f"{match.group(1)} twice in one line", number, _HINT)
        values[key] = match.group(2).strip('"')
    if text[end:].strip():
        rest = text[end:].strip()[:40]
        raise builder.error(f"expected KEY=VALUE, found {rest!r}", number, _HINT)
    return _Line(number, values)


def _tree(builder: NetworkBuilder, lines: list[_Line], file: FileText) -> Network:
    children: dict[str, tuple[int, list[str]]] = {}
    declared: dict[str, int] = {}
    for line in lines:
        for name in builder.names(line.values["switchname"], line.number):
            if name in declared:
                raise builder.error(
                    f"switch {name} is already defined in line {declared[name]}", line.number
                )
            declared[name] = line.number
            builder.switch(name, line.number)
            below = line.values.get("switches", "")
            if not below and not line.values.get("nodes"):
                builder.report.append(f"switch {name} has neither nodes nor switches")
            children[name] = (line.number, list(builder.names(below, line.number)))
            _hosts_of_switch(builder, line, name)
    link_tree(builder, children)
    return builder.build(name=file.name, origin=ORIGIN)


def _hosts_of_switch(builder: NetworkBuilder, line: _Line, switch: str) -> None:
    hosts = builder.names(line.values.get("nodes", ""), line.number)
    # scontrol prints on every switch the nodes of all levels below: only a leaf's are its own.
    if line.values.get("switches") and int_of(line.values.get("level")) not in (None, 0):
        return
    position = builder.switches[switch]
    twice = sorted(host for host, count in Counter(hosts).items() if count > 1)
    if twice:
        raise builder.error(f"{few(twice)} twice on switch {switch}", line.number)
    for host in hosts:
        builder.port(host, position, line.number)


def link_tree(builder: NetworkBuilder, children: dict[str, tuple[int, list[str]]]) -> None:
    """Link every switch with those above it, by name; each with its line and what is below it.

    Raises:
        InputError: a switch that is not defined, or that is above itself.
    """
    for name, (number, below) in children.items():
        for child in below:
            if child not in children:
                raise builder.error(f"switch {name} is above {child}, which is not defined", number)
    _refuse_circles(builder, children)
    heights = _heights(children)
    for name, (_, below) in children.items():
        for child in dict.fromkeys(below):
            builder.link(builder.switches[child], builder.switches[name], level=heights[child] + 1)


def int_of(text: str | None) -> int | None:
    """A small number, or None."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _refuse_circles(builder: NetworkBuilder, children: dict[str, tuple[int, list[str]]]) -> None:
    done: set[str] = set()
    for start in children:
        path: dict[str, Iterator[str]] = {}
        if start not in done:
            path[start] = iter(children[start][1])
        while path:
            here = next(reversed(path))
            child = next(path[here], None)
            if child is None:
                done.add(here)
                del path[here]
            elif child in path:
                raise builder.error(
                    f"switch {child} is above itself, by way of {here}", children[child][0]
                )
            elif child not in done:
                path[child] = iter(children[child][1])


def _heights(children: dict[str, tuple[int, list[str]]]) -> dict[str, int]:
    """Levels above the leaves, without recursion; there are no circles."""
    height: dict[str, int] = {}
    open_ = list(children)
    while open_:
        name = open_[-1]
        missing = [child for child in children[name][1] if child not in height]
        if missing and name not in height:
            open_.extend(missing)
            continue
        open_.pop()
        height[name] = 1 + max((height[child] for child in children[name][1]), default=-1)
    return height


def _blocks(
    builder: NetworkBuilder, lines: list[_Line], blocks: list[_Line], file: FileText
) -> Network:
    sizes: list[int] = []
    for line in lines:
        for word in filter(None, line.values.get("blocksizes", "").split(",")):
            size = int_of(word.strip())
            if not size:
                raise builder.error(f"block size {word.strip()[:20]!r} is no number", line.number)
            sizes.append(size)
    found = []
    for line in blocks:
        hosts = builder.names(line.values.get("nodes", ""), line.number)
        if not hosts:
            builder.report.append(f"block {line.values['blockname']} has no nodes")
            continue
        found.append(Block(line.values["blockname"], hosts, line.number))
    return network_of_blocks(builder, found, sizes, name=file.name, origin=ORIGIN)
