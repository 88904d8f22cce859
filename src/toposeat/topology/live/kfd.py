"""The nodes of AMD's kernel driver (KFD) as they are in sysfs."""

from __future__ import annotations

import re
from pathlib import Path

from toposeat.topology.graph.kfd_node import KfdNode
from toposeat.topology.live.small_file import entries_of, read_small
from toposeat.topology.live.sysfs import read_line


def unreadable_nodes(root: Path = Path("/sys")) -> int:
    """How many nodes the kernel refuses to show: those of GPUs outside the process's cgroup."""
    count = 0
    for entry in _nodes(root):
        try:
            read_small(entry / "properties", 1)
        except OSError:
            count += 1
    return count


def read_kfd(root: Path = Path("/sys")) -> tuple[KfdNode, ...]:
    """GPUs of the KFD topology in node order; empty if there is no such driver."""
    nodes = (
        KfdNode(
            number=int(entry.name),
            name=read_line(entry / "name") or "",
            properties=_properties(entry),
            links=[_properties(link) for link in entries_of(entry / "io_links")],
            memory=[_properties(bank) for bank in entries_of(entry / "mem_banks")],
        )
        for entry in _nodes(root)
    )
    return tuple(node for node in nodes if node.is_gpu)


def _nodes(root: Path) -> list[Path]:
    folder = root / "class" / "kfd" / "kfd" / "topology" / "nodes"
    return sorted((e for e in entries_of(folder) if e.name.isdecimal()), key=lambda e: int(e.name))


def _properties(folder: Path) -> dict[str, int]:
    try:
        text = read_small(folder / "properties").decode("ascii", "replace")
    except OSError:
        return {}
    return {key: int(n) for key, n in re.findall(r"^(\w+) (\d{1,20})$", text, re.MULTILINE)}
