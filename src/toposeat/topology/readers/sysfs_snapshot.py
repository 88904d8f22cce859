"""Reader of saved sysfs trees: hwloc's gather archives, KFD trees, folders of either.

A whole tree goes through the code of live discovery. A tree with nothing but KFD's nodes is read by
its io_links; its PCI tree stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from toposeat.errors import InputError, UnavailableError
from toposeat.model.files import path_exists
from toposeat.model.pair import BANDWIDTH
from toposeat.model.quantity import check_pair_number
from toposeat.model.topology import Topology
from toposeat.topology.graph.kfd_graph import KfdNode, topology_of_kfd
from toposeat.topology.live.amd import kfd_nodes
from toposeat.topology.live.discover import facts_of_this
from toposeat.topology.live.sysfs import entries_of, processor_of_file, read_small
from toposeat.topology.readers.archive import looks_like_archive, opened
from toposeat.topology.readers.file_text import FileText

_DEPTH = 4  # of the root of the tree below the top of an archive
_MARKS = ("bus/pci/devices", "devices/system/cpu", "devices/system/node")
_NODES = ("class/kfd/kfd/topology/nodes", "topology/nodes", "nodes", "kfd/topology/nodes")
SAVE = "save the tree again: tar chf FILE.tar /sys/class/kfd/kfd/topology"
MAX_NODES = 2048
_PATH = r"(?:\S*/)?nodes/(\d{1,6})/(?:(io_links|p2p_links|mem_banks)/(\d{1,6})/)?(\w{1,40})"
_BLOCK = re.compile(rf"==> {_PATH} <==\s*", re.ASCII)
_GREP = re.compile(rf"{_PATH}:(.*)", re.ASCII)
_PROPERTY = re.compile(r"(\w{1,60}) (\d{1,20})\s*", re.ASCII)
_STATED = re.compile(r"(\w{1,60})(?:\s+(.*))?", re.ASCII)
_LINK = ("type", "weight", "node_from", "node_to", "min_bandwidth", "max_bandwidth")
_NODE = ("simd_count", "gfx_target_version", "location_id", "domain", "device_id", "unique_id")
_MEMORY = ("heap_type", "size_in_bytes", "local_mem_size")
_USED = frozenset((*_LINK, *_NODE, *_MEMORY))
_MB = 1e6
_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tbz2", ".txz")


class _NoNvml:
    """What stands for NVML where there is no machine to ask."""

    class NVMLError(Exception):
        """As the library's."""

    def nvmlInit(self) -> None:
        """Refuse."""
        raise self.NVMLError("a saved tree has none")


def looks_like(path: Path) -> bool:
    """Whether a path is an archive, or a folder with a tree of sysfs or KFD in it."""
    if not path_exists(path):
        return False
    if not path.is_dir():
        named = path.name.lower().endswith(_ARCHIVES)
        return named or looks_like_archive(path)
    return _sysfs_root(path) is not None or _kfd_root(path) is not None


def parse(path: Path) -> Topology:
    """Read a tree."""
    try:
        with opened(path) as folder:
            return _parse_folder(folder, path)
    except ValueError as error:  # the model refuses the values of the files
        raise InputError(f"describes no possible machine: {error}", path=path, hint=SAVE) from error


def _parse_folder(folder: Path, path: Path) -> Topology:
    sysfs, kfd = _sysfs_root(folder), _kfd_root(folder)
    name = _host_name(folder) or _plain_name(path)
    if sysfs is not None and (sysfs / "bus/pci/devices").is_dir():
        return _whole(sysfs, name, path)
    if kfd is not None:
        return _kfd(kfd_nodes(kfd), name, "KFD topology, saved tree", path)
    if sysfs is None:
        raise InputError("no tree of sysfs or KFD in it", path=path, hint=SAVE)
    raise InputError(
        "the tree has no PCI devices: they were not saved, or the machine has none",
        path=path,
        hint="save it with hwloc-gather-topology --io, or use lstopo --of xml",
    )


def looks_like_text(file: FileText) -> bool:
    """Whether a text is a saved KFD tree."""
    lines = map(str.strip, file.start[:20_000].splitlines())
    marks = (_BLOCK.fullmatch(line) or _GREP.fullmatch(line) for line in lines)
    return any(mark and mark[4] in ("properties", "gpu_id", "name") for mark in marks)


def parse_text(file: FileText) -> Topology:
    """Read a KFD tree saved as text."""
    nodes = _nodes_of_text(file)
    return _kfd(nodes, file.name, "KFD topology, saved as text", file.path)


def _whole(sysfs: Path, name: str, path: Path) -> Topology:
    try:
        topology = facts_of_this(sysfs=sysfs, nvml=_NoNvml(), host="*")
    except UnavailableError as error:
        raise InputError(
            "the saved machine has no GPU that its files show",
            path=path,
            hint="no GPU was there, or its PCI function was not saved",
        ) from error
    processor = processor_of_file(sysfs.parent / "proc/cpuinfo")
    return replace(topology, name=name, origin="saved sysfs", metadata=processor)


def _kfd(nodes: list[KfdNode], name: str, origin: str, path: Path) -> Topology:
    if not any(node.is_gpu for node in nodes) or len(nodes) > MAX_NODES:
        cause = f"{len(nodes)} KFD nodes, none of them a GPU or more than {MAX_NODES}"
        raise InputError(cause, path=path, hint=SAVE)
    return topology_of_kfd(nodes, name=name, origin=origin)


def _tops(folder: Path) -> Iterator[Path]:
    """The folder and those below it, near ones first; sysfs itself is not searched."""
    level = [folder]
    for _ in range(_DEPTH):
        below: list[Path] = []
        for each in level:
            yield each
            if len(below) < 64:
                below += [e for e in entries_of(each) if e.is_dir() and not e.is_symlink()][:64]
        level = below


def _sysfs_root(folder: Path) -> Path | None:
    return next((t for t in _tops(folder) if any((t / mark).is_dir() for mark in _MARKS)), None)


def _kfd_root(folder: Path) -> Path | None:
    """The folder of KFD's nodes."""
    for top in _tops(folder):
        for name in _NODES:
            if _is_nodes(top / name):
                return top / name
    return folder if _is_nodes(folder) else None


def _is_nodes(folder: Path) -> bool:
    return any((e / "properties").is_file() for e in entries_of(folder)[:8] if e.name.isdecimal())


def _host_name(folder: Path) -> str:
    """What hwloc's gathering noted of the machine."""
    for top in _tops(folder):
        try:
            text = read_small(top / "proc" / "hwloc-nofile-info").decode("utf-8", "replace")
        except OSError:
            continue
        return next(
            (line[9:].strip()[:60] for line in text.splitlines() if line.startswith("HostName:")),
            "",
        )
    return ""


def _plain_name(path: Path) -> str:
    name = path.name or path.resolve().name
    for ending in _ARCHIVES:
        name = name.removesuffix(ending)
    return name or "saved"


# ---- text: `==> path <==` blocks (`head` of all files) or `path:line` (`grep -r .`)


class _Collector:
    """Nodes from pieces of text, whatever their order."""

    def __init__(self, file: FileText) -> None:
        self.file = file
        self.nodes: dict[int, KfdNode] = {}
        self._links: dict[tuple[int, str, int], dict[str, int]] = {}

    def add(self, match: re.Match[str], lines: Iterable[str], first: int) -> None:
        """Take in (more of) one file, named by a match of `_PATH`, from line `first` on."""
        number, folder, part, name = match.groups()[:4]
        node = self.nodes.setdefault(int(number), KfdNode(int(number)))
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

    def _read(self, values: dict[str, int], lines: Iterable[str], first: int) -> None:
        for number, text in enumerate(lines, start=first):
            match = _PROPERTY.fullmatch(text)
            with self.file.at(number):
                if match is not None:
                    _take(values, match[1], int(match[2]))
                elif (stated := _STATED.fullmatch(text)) and stated[1] in _USED:
                    raise ValueError(f"no number: {text[:60]!r}")


def _take(values: dict[str, int], key: str, value: int) -> None:
    """Note a property."""
    if values.setdefault(key, value) != value:
        raise ValueError(f"{key} is stated twice, as {values[key]} and {value}")
    if key in ("min_bandwidth", "max_bandwidth"):
        check_pair_number(BANDWIDTH, value * _MB)


def _nodes_of_text(file: FileText) -> list[KfdNode]:
    found = _Collector(file)
    block: re.Match[str] | None = None
    start, body = 0, list[str]()
    for number, line in enumerate(file.lines, start=1):
        head = _BLOCK.fullmatch(line)
        if head is None and (grep := _GREP.fullmatch(line)) is not None:
            found.add(grep, [grep.group(5)], number)
        elif head is not None or line.startswith("==> "):
            if block is not None:
                found.add(block, body, start + 1)
            block, start, body = head, number, []
        else:
            body.append(line)
    if block is not None:
        found.add(block, body, start + 1)
    return [found.nodes[number] for number in sorted(found.nodes)]
