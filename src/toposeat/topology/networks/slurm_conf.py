"""Slurm's `topology.conf` (tree and block), and what `scontrol show topology` prints of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toposeat.model.network import Network, NetworkKind
from toposeat.topology.networks.builder import NetworkBuilder, few
from toposeat.topology.readers.file_text import FileText

ORIGIN = "Slurm topology.conf"
_PAIR = re.compile(r"(?<![A-Za-z])([A-Za-z]{1,30})[ \t]{0,99}=[ \t]*(\"[^\"]*\"|[^\s\"]*)")
_KEY = re.compile(r"switchname|switches|nodes|linkspeed|level|block(name|sizes?|index)|switchindex")
_HINT = "lines are SwitchName=NAME with Nodes=LIST or Switches=LIST, or BlockName=NAME Nodes=LIST"


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
    rest = _PAIR.sub("", text).strip()
    if rest:
        raise builder.error(f"expected KEY=VALUE, found {rest[:40]!r}", number, _HINT)
    values: dict[str, str] = {}
    for key, value in _PAIR.findall(text):
        if not _KEY.fullmatch(key.lower()):
            raise builder.error(f"unknown key {key!r}", number, _HINT)
        if key.lower() in values:
            raise builder.error(f"{key} twice in one line", number, _HINT)
        values[key.lower()] = value.strip('"')
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
    builder.link_tree(children)
    return builder.build(name=file.name, origin=ORIGIN)


def _hosts_of_switch(builder: NetworkBuilder, line: _Line, switch: str) -> None:
    hosts = builder.names(line.values.get("nodes", ""), line.number)
    # scontrol prints on every switch the nodes of all levels below: only a leaf's are its own.
    if line.values.get("switches") and _int_of(line.values.get("level")) not in (None, 0):
        return
    position = builder.switches[switch]
    twice = sorted(host for host, count in Counter(hosts).items() if count > 1)
    if twice:
        raise builder.error(f"{few(twice)} twice on switch {switch}", line.number)
    for host in hosts:
        builder.port(host, position, line.number)


def _int_of(text: str | None) -> int | None:
    """A small number, or None."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _blocks(
    builder: NetworkBuilder, lines: list[_Line], blocks: list[_Line], file: FileText
) -> Network:
    sizes: list[int] = []
    for line in lines:
        for word in filter(None, line.values.get("blocksizes", "").split(",")):
            size = _int_of(word.strip())
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


@dataclass(frozen=True)
class Block:
    """One block of the file: its name, hosts, and line."""

    name: str
    hosts: tuple[str, ...]
    line: int | None


def network_of_blocks(
    builder: NetworkBuilder,
    blocks: Sequence[Block],
    sizes: Sequence[int],
    *,
    name: str,
    origin: str,
) -> Network:
    """A switch per block; consecutive blocks are gathered as the block sizes say.

    With sizes 4 and 16, four blocks lie under one switch, since 16 hosts are four times the base
    size of 4. What is gathered last is joined by one switch.

    Raises:
        InputError: a block or host twice, sizes that are not multiples of the first.
    """
    if not blocks:
        raise builder.error("no block has hosts", None)
    for block in blocks:
        if block.name in builder.switches:
            raise builder.error(f"block {block.name} is defined twice", block.line)
        switch = builder.switch(block.name, block.line)
        for host in block.hosts:
            if host in builder.hosts:
                raise builder.error(f"host {host} is in two blocks", block.line)
            builder.port(host, switch, block.line)
    row = [builder.switches[block.name] for block in blocks]
    ordered = sorted(set(sizes))
    per_block = 1  # blocks below one switch of the row
    for level, size in enumerate(ordered[1:], start=1):
        if size % ordered[0]:
            raise builder.error(
                f"block size {size} is no multiple of the base size {ordered[0]}", blocks[0].line
            )
        gathered = size // ordered[0] // per_block
        if gathered < 2 or len(row) < 2:
            continue
        per_block *= gathered
        row = _gather(builder, row, gathered, level, f"blocks of {size} ")
    if len(row) > 1:
        _gather(builder, row, len(row), len(ordered[1:]) + 1, "all blocks ")
    return builder.build(name=name, origin=origin, kind=NetworkKind.BLOCK)


def _gather(
    builder: NetworkBuilder, row: Sequence[int], count: int, level: int, name: str
) -> list[int]:
    above = []
    for number, start in enumerate(range(0, len(row), count)):
        switch = builder.switch(f"({name}{number})".replace(" )", ")"))
        for below in row[start : start + count]:
            builder.link(below, switch, level=level)
        above.append(switch)
    return above
