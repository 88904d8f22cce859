"""The nodes of AMD's kernel driver (`/sys/class/kfd/kfd/topology/nodes`) as saved text.

A saved tree comes as `==> path <==` blocks (`head` of all files) or `path:line` (`grep -r .`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.pair import BANDWIDTH
from toposeat.model.quantity import check_pair_number
from toposeat.topology.graph.kfd_node import KfdNode

SAVE = "save the tree again: tar chf FILE.tar /sys/class/kfd/kfd/topology"
MAX_NODES = 2048
_PATH = r"(?:\S*/)?nodes/(\d{1,6})/(?:(io_links|p2p_links|mem_banks)/(\d{1,6})/)?(\w{1,40})"
_BLOCK = re.compile(rf"==> {_PATH} <==\s*", re.ASCII)
_GREP = re.compile(rf"{_PATH}:(.*)", re.ASCII)
_PROPERTY = re.compile(r"(\w{1,60}) (\d{1,20})\s*", re.ASCII)
_PARTS = re.compile(_PATH, re.ASCII)
_STATED = re.compile(r"(\w{1,60})(?:\s+(.*))?", re.ASCII)
_LINK = ("type", "weight", "node_from", "node_to", "min_bandwidth", "max_bandwidth")
_NODE = ("simd_count", "gfx_target_version", "location_id", "domain", "device_id", "unique_id")
_MEMORY = ("heap_type", "size_in_bytes", "local_mem_size")
_USED = frozenset((*_LINK, *_NODE, *_MEMORY))
_MB = 1e6


class _Collector:
    """Nodes from pieces of text, whatever their order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes: dict[int, KfdNode] = {}
        self._links: dict[tuple[int, str, int], dict[str, int]] = {}

    def add(
        self,
        match: re.Match[str],
        lines: Iterable[str],
        line: int | None = None,
        *,
        first: int | None = None,
    ) -> None:
        """Take in (more of) one file, named by a match of `_PATH` in `line`, read from `first`."""
        number, folder, part, name = match.groups()[:4]
        node = self.nodes.setdefault(int(number), KfdNode(int(number), line))
        if len(self.nodes) > MAX_NODES:
            raise InputError(f"more than {MAX_NODES} nodes", path=self.path, line=line, hint=SAVE)
        if folder is None and name == "name":
            node.name = node.name or next((x.strip()[:80] for x in lines if x.strip()), "")
        elif folder is None and name == "properties":
            self._read(node.properties, lines, first)
        elif folder in ("io_links", "mem_banks") and name == "properties":
            values = self._links.get((node.number, folder, int(part)))
            if values is None:
                values = self._links[node.number, folder, int(part)] = {}
                (node.links if folder == "io_links" else node.memory).append(values)
            self._read(values, lines, first)

    def _read(self, values: dict[str, int], lines: Iterable[str], first: int | None) -> None:
        for offset, text in enumerate(lines):
            match = _PROPERTY.fullmatch(text)
            stated = _STATED.fullmatch(text)
            if match is None and (stated is None or stated.group(1) not in _USED):
                continue
            fault = self._take(values, *match.groups()) if match else f"no number: {text[:60]!r}"
            if fault:
                line = None if first is None else first + offset
                raise InputError(fault, path=self.path, line=line, hint=SAVE)

    @staticmethod
    def _take(values: dict[str, int], key: str, text: str) -> str:
        """Note a property; returns what is wrong with it, "" if nothing is."""
        value = int(text)
        if values.setdefault(key, value) != value:
            return f"{key} is stated twice, as {values[key]} and {value}"
        if key in ("min_bandwidth", "max_bandwidth"):
            try:
                check_pair_number(BANDWIDTH, value * _MB)
            except ValueError as error:
                return f"{key}: {error}"
        return ""


def looks_like_kfd_text(start: str) -> bool:
    """Whether a text is a saved KFD tree."""
    head = start[:20_000]
    return any(
        (match := (_BLOCK.fullmatch(line.strip()) or _GREP.fullmatch(line.strip()))) is not None
        and match.group(4) in ("properties", "gpu_id", "name")
        for line in head.splitlines()
    )


def nodes_of_text(lines: Iterable[str], path: Path) -> list[KfdNode]:
    """The nodes of a saved tree, by number.

    Raises:
        InputError: a property stated twice, or absurdly many nodes, with file and line.
    """
    found = _Collector(path)
    block: re.Match[str] | None = None
    start, body = 0, list[str]()
    for number, line in enumerate(lines, start=1):
        head = _BLOCK.fullmatch(line)
        if head is None and (grep := _GREP.fullmatch(line)) is not None:
            found.add(grep, [grep.group(5)], number, first=number)
        elif head is not None or line.startswith("==> "):
            if block is not None:
                found.add(block, body, start, first=start + 1)
            block, start, body = head, number, []
        else:
            body.append(line)
    if block is not None:
        found.add(block, body, start, first=start + 1)
    return [found.nodes[number] for number in sorted(found.nodes)]


def nodes_of_files(files: Iterable[tuple[str, str]], path: Path) -> list[KfdNode]:
    """The nodes of a tree of files.

    Args:
        files: path below the tree and content of each.
        path: of the tree, for messages.
    """
    found = _Collector(path)
    for name, text in files:
        match = _PARTS.fullmatch(name)
        if match is not None:
            found.add(match, text.splitlines())
    return [found.nodes[number] for number in sorted(found.nodes)]
