"""Reader of saved sysfs trees: hwloc's gather archives, KFD trees, folders of either.

A whole tree goes through the code of live discovery. A tree with nothing but KFD's nodes is read by
its io_links; its PCI tree stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from toposeat.errors import InputError, UnavailableError
from toposeat.model.files import path_exists
from toposeat.model.topology import Topology
from toposeat.topology.graph.kfd_graph import topology_of_kfd
from toposeat.topology.live.discover import discover_this
from toposeat.topology.live.small_file import entries_of, read_small
from toposeat.topology.readers.archive import looks_like_archive, opened
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.kfd_tree import (
    SAVE,
    looks_like_kfd_text,
    nodes_of_files,
    nodes_of_text,
)

_DEPTH_OF_NODES = 4  # nodes/0/io_links/1/properties
_DEPTH = 4  # of the root of the tree below the top of an archive
_MARKS = ("bus/pci/devices", "devices/system/cpu", "devices/system/node")
_NODES = ("class/kfd/kfd/topology/nodes", "topology/nodes", "nodes", "kfd/topology/nodes")
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
    """Read a tree.

    Raises:
        InputError: damaged, dangerous, no tree of sysfs, or a machine without GPUs.
    """
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
        return _kfd(kfd, name, path)
    if sysfs is None:
        raise InputError("no tree of sysfs or KFD in it", path=path, hint=SAVE)
    raise InputError(
        "the tree has no PCI devices: they were not saved, or the machine has none",
        path=path,
        hint="save it with hwloc-gather-topology --io, or use lstopo --of xml",
    )


def looks_like_text(file: FileText) -> bool:
    """Whether a text is a saved KFD tree."""
    return looks_like_kfd_text(file.start)


def parse_text(file: FileText) -> Topology:
    """Read a KFD tree saved as text.

    Raises:
        InputError: damaged, or without GPUs.
    """
    nodes = nodes_of_text(file.lines, file.path)
    if not any(node.is_gpu for node in nodes):
        raise InputError(_without_gpus(len(nodes)), path=file.path, hint=SAVE)
    return topology_of_kfd(nodes, name=file.name, origin="KFD topology, saved as text")


def _whole(sysfs: Path, name: str, path: Path) -> Topology:
    try:
        topology = discover_this(sysfs=sysfs, nvml=_NoNvml(), host="*")
    except UnavailableError as error:
        raise InputError(
            "the saved machine has no GPU that its files show",
            path=path,
            hint="no GPU was there, or its PCI function was not saved",
        ) from error
    return replace(topology, name=name, origin="saved sysfs")


def _kfd(nodes: Path, name: str, path: Path) -> Topology:
    found = nodes_of_files(_small_files(nodes), path)
    if not any(node.is_gpu for node in found):
        raise InputError(_without_gpus(len(found)), path=path, hint=SAVE)
    return topology_of_kfd(found, name=name, origin="KFD topology, saved tree")


def _without_gpus(nodes: int) -> str:
    return f"{nodes} KFD nodes, none of them a GPU"


def _small_files(nodes: Path) -> Iterator[tuple[str, str]]:
    """What KFD says, by the path below the folder of its nodes."""
    above = len(nodes.parts)
    folders = [nodes]
    while folders:
        for entry in entries_of(folders.pop()):
            below = entry.parts[above:]
            if entry.name in ("name", "properties"):
                try:
                    text = read_small(entry).decode("utf-8", "replace")
                except OSError:
                    continue
                yield "/".join(("nodes", *below)), text
            elif len(below) < _DEPTH_OF_NODES and entry.is_dir() and not entry.is_symlink():
                folders.append(entry)


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
