"""Slurm's `topology.conf` (tree and block), `topology.yaml`, and what scontrol shows of a job."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Required, TypedDict

from toposeat.errors import InputError, UnavailableError
from toposeat.model.few import few
from toposeat.model.network import MAX_HOSTS, Network, NetworkKind
from toposeat.topology.networks.builder import NetworkBuilder
from toposeat.topology.networks.formats import JOB
from toposeat.topology.readers.file_text import FileText, yaml_of

_CONF, _YAML = "Slurm topology.conf", "Slurm topology.yaml"
_YAML_KINDS = ("tree", "block", "flat", "ring", "torus3d")
_PAIR = re.compile(r"(?<![A-Za-z])([A-Za-z]{1,30})[ \t]{0,99}=[ \t]*(\"[^\"]*\"|[^\s\"]*)")
_KEY = re.compile(r"switchname|switches|nodes|linkspeed|level|block(name|sizes?|index)|switchindex")
_HINT = "lines are SwitchName=NAME with Nodes=LIST or Switches=LIST, or BlockName=NAME Nodes=LIST"


def parse(file: FileText) -> Network:
    """The tree of switches, or the blocks.

    Link speeds are read and left out: Slurm gives them no unit and does not use them.
    """
    builder = NetworkBuilder(path=file.path)
    lines = list(_lines(file, builder))
    blocks = [line for line in lines if "blockname" in line.values]
    switches = [line for line in lines if "switchname" in line.values]
    if blocks and switches:
        builder.report.append("the file has switches and blocks: the switches are used")
    if switches:
        return _conf_tree(builder, switches, file)
    if not blocks:
        raise builder.error("no switch and no block", None, _HINT)
    return _conf_blocks(builder, lines, blocks, file)


@dataclass(frozen=True)
class _Line:
    number: int
    values: dict[str, str]  # keys in lower case


def _lines(file: FileText, builder: NetworkBuilder) -> Iterator[_Line]:
    """Lines without comments, joined where they end in a backslash."""
    pending: list[str] = []
    for number, raw in enumerate((*file.lines, ""), start=1):
        text = raw.split("#", 1)[0].rstrip()
        if text.endswith("\\") and number <= len(file.lines):
            pending.append(text[:-1])  # Slurm puts nothing between the two
            continue
        text, first = "".join((*pending, text)), number - len(pending)
        pending.clear()
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


def _conf_tree(builder: NetworkBuilder, lines: list[_Line], file: FileText) -> Network:
    children: dict[str, tuple[int | None, Sequence[str]]] = {}
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
            children[name] = (line.number, builder.names(below, line.number))
            _hosts_of_switch(builder, line, name)
    builder.link_tree(children)
    return builder.build(name=file.name, origin=_CONF)


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


def _conf_blocks(
    builder: NetworkBuilder, lines: list[_Line], blocks: list[_Line], file: FileText
) -> Network:
    sizes: list[int] = []
    for line in lines:
        for word in filter(None, line.values.get("blocksizes", "").split(",")):
            sizes.append(_int_of(word.strip()) or 0)
    found = []
    for line in blocks:
        hosts = builder.names(line.values.get("nodes", ""), line.number)
        if not hosts:
            builder.report.append(f"block {line.values['blockname']} has no nodes")
            continue
        found.append(_Block(line.values["blockname"], hosts, line.number))
    return _network_of_blocks(builder, found, sizes, name=file.name, origin=_CONF)


@dataclass(frozen=True)
class _Block:
    """One block of the file: its name, hosts, and line."""

    name: str
    hosts: tuple[str, ...]
    line: int | None


def _network_of_blocks(
    builder: NetworkBuilder,
    blocks: Sequence[_Block],
    sizes: Sequence[int],
    *,
    name: str,
    origin: str,
) -> Network:
    """A switch per block; consecutive blocks are gathered as the block sizes say.

    With sizes 4 and 16, four blocks lie under one switch, since 16 hosts are four times the base
    size of 4. What is gathered last is joined by one switch.
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
    if ordered and not 0 < ordered[0] <= ordered[-1] <= MAX_HOSTS:
        raise builder.error(f"block sizes are numbers from 1 to {MAX_HOSTS}", None)
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


# ---- topology.yaml


class _YamlSwitch(TypedDict, total=False):
    switch: Required[str]
    children: str | None
    nodes: str | None


class _YamlBlock(TypedDict, total=False):
    block: Required[str]
    nodes: str | None


class _YamlBody(TypedDict, total=False):
    switches: list[_YamlSwitch] | None
    block_sizes: list[int] | None
    blocks: list[_YamlBlock] | None


class _YamlTopology(TypedDict, total=False):
    """One of the topologies of a file."""

    topology: Required[str]
    cluster_default: str
    tree: _YamlBody | None
    block: _YamlBody | None
    flat: object
    ring: object
    torus3d: object


def parse_yaml(file: FileText, wanted: str | None = None) -> Network:
    """One of several named topologies, of which trees and blocks are read.

    Without a name it is the one with `cluster_default: true`, or the first that names hosts.
    """
    topologies = {entry["topology"]: entry for entry in yaml_of(file, list[_YamlTopology])}
    builder = NetworkBuilder(path=file.path)
    defaults = [
        name
        for name, entry in topologies.items()
        if entry.get("cluster_default", "").lower() in ("true", "yes", "on")
    ]
    named = [name for name, entry in topologies.items() if "flat" not in entry]
    name = wanted or next(iter([*defaults, *named, *topologies]), "")
    if name not in topologies:
        raise builder.error(
            f"no topology {name[:40]!r} in the file", None, f"it has: {', '.join(topologies)[:200]}"
        )
    others = ", ".join(other for other in topologies if other != name)
    if others and wanted is None:
        builder.report.append(f"topology {name!r} is used; the file also has: {others[:200]}")
    return _yaml_network(builder, name, topologies[name])


def _yaml_network(builder: NetworkBuilder, name: str, entry: _YamlTopology) -> Network:
    kinds = [kind for kind in _YAML_KINDS if kind in entry]
    if len(kinds) != 1:
        hint = "each topology has a name and one of: " + ", ".join(_YAML_KINDS)
        message = f"topology {name[:40]!r} has {len(kinds)} kinds, expected one"
        raise builder.error(message, None, hint)
    if kinds == ["flat"]:
        raise builder.error(
            f"topology {name[:40]!r} is flat and names no host",
            None,
            "write its switches into a topology.conf: SwitchName=leaf1 Nodes=n[1-16]",
        )
    if kinds[0] in ("ring", "torus3d"):
        raise builder.error(
            f"topology {name[:40]!r} is a {kinds[0]}: not read",
            None,
            "name its shape for hosts in its order: -t torus3d:4x4x2 --node SRC",
        )
    if kinds == ["tree"]:
        return _yaml_tree(builder, entry.get("tree") or {}, name)
    body = entry.get("block") or {}
    blocks = [
        _Block(each["block"], builder.names(each.get("nodes") or "", None), None)
        for each in body.get("blocks") or ()
    ]
    sizes = body.get("block_sizes") or ()
    with_hosts = [block for block in blocks if block.hosts]
    return _network_of_blocks(builder, with_hosts, sizes, name=name, origin=_YAML)


def _yaml_tree(builder: NetworkBuilder, body: _YamlBody, name: str) -> Network:
    children: dict[str, tuple[int | None, Sequence[str]]] = {}
    for entry in body.get("switches") or ():
        switch = entry["switch"]
        if switch in children:
            raise builder.error(f"switch {switch[:40]!r} is defined twice", None)
        position = builder.switch(switch)
        children[switch] = (None, builder.names(entry.get("children") or "", None))
        for host in builder.names(entry.get("nodes") or "", None):
            builder.port(host, position)
    builder.link_tree(children)
    return builder.build(name=name, origin=_YAML)


# ---- a running job


def job_network(hosts: Sequence[str]) -> Network:
    """The network above the running job, as scontrol shows it.

    Raises:
        InputError: scontrol does not show all its hosts.
        UnavailableError: there is no scontrol, or it fails.
    """
    network = parse(FileText(_scontrol(), Path("scontrol show topology")))
    known = set(network.host_names)
    missing = [host for host in hosts if host not in known]
    if missing:
        raise InputError(
            f"scontrol shows no switch above {few(missing)}", hint="give the network as a file"
        )
    return replace(network.restricted_to(hosts), name=JOB)


def _scontrol() -> str:
    cause = ""
    try:
        done = subprocess.run(
            ["scontrol", "show", "topology"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        if done.returncode or not done.stdout.strip():
            cause = (done.stderr.strip().splitlines() or ["it prints nothing"])[0]
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or str(error)
    if cause:
        raise UnavailableError(
            f"scontrol show topology: {cause[:120]}",
            hint="give the network as a file: scontrol show topology > FILE",
        )
    return done.stdout
