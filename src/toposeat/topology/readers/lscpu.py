"""Reader of lscpu, whole or a line of it, and of /proc/cpuinfo: the processor, and no GPU.

Memory nodes with their CPUs, sockets, cores and L3 caches are told by counts of the whole machine:
sockets and caches hold as many nodes or cores each, in the order of their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain

from toposeat.model.cpu_list import format_cpu_list, parse_cpu_list
from toposeat.model.processor import processor_metadata
from toposeat.model.topology import Component, ComponentKind, Topology
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import clean_lines, without_marks

_SPELT = {"vendor id": "vendor_id"}  # by lscpu; else its keys are those of cpuinfo in upper case
_NODE = re.compile(r"numa node(\d{1,4}) cpu\(s\)", re.ASCII)
_INSTANCES = re.compile(r"\((\d{1,4}) instances?\)", re.ASCII)


def parse(file: FileText) -> Topology:
    """The processor as metadata and components of a machine without devices."""
    told: dict[str, str] = {}
    lines: dict[str, int] = {}
    for line in clean_lines(file.text):
        key, _, value = without_marks(line.text).partition(":")
        key = _SPELT.get(key.strip().lower(), key.strip().lower())
        lines.setdefault(key, line.number)
        told.setdefault(key, value.strip())
    found = processor_metadata(told, told.get("architecture", ""))
    nodes: dict[int, tuple[int, ...]] = {}
    for key, value in told.items():
        if value and (match := _NODE.fullmatch(key)):
            with file.at(lines[key]):
                nodes[int(match[1])] = parse_cpu_list(value)
    if not found and not nodes:
        raise file.refusal("no line of lscpu names the processor")
    return Topology(origin="lscpu", devices=(), metadata=found, components=_parts(told, nodes))


def _parts(told: Mapping[str, str], nodes: Mapping[int, tuple[int, ...]]) -> tuple[Component, ...]:
    """Memory nodes with their cores and caches, and sockets where they are of whole nodes."""
    instances = _INSTANCES.search(told.get("l3 cache", ""))
    caches, rest = divmod(int(instances[1]) if instances else 0, len(nodes) or 1)
    parts = []
    for node, cpus in sorted(nodes.items()):
        cores = _cores(cpus, _count(told, "thread(s) per core"), alone=len(nodes) == 1)
        each = len(cores) // caches if caches > 1 and not rest else 0
        blocks = _blocks(cores, each) if each and len(cores) % caches == 0 else []
        parts.append(
            Component(
                id=f"numa{node}",
                kind=ComponentKind.NUMA,
                numa_node=node,
                cpus=format_cpu_list(cpus),
                cores=tuple(map(format_cpu_list, cores)),
                caches=tuple(format_cpu_list(chain(*block)) for block in blocks),
            )
        )
    sockets = _count(told, "socket(s)")
    if sockets and nodes and len(nodes) % sockets == 0:
        for at, own in enumerate(_blocks([nodes[n] for n in sorted(nodes)], len(nodes) // sockets)):
            listed = format_cpu_list(chain(*own))
            parts.append(Component(id=f"package{at}", kind=ComponentKind.PACKAGE, cpus=listed))
    return tuple(parts)


def _cores(cpus: Sequence[int], threads: int, *, alone: bool) -> list[tuple[int, ...]]:
    """The cores of a node: equal runs hold their first, second, ... threads, as Linux numbers them.

    Neighbours are threads of one core where a node has one run and is not the only one, or a core
    has more than two threads (POWER).
    """
    each = len(cpus) // threads if threads else 0
    if not each or each * threads != len(cpus):
        return []
    one_run = cpus[-1] - cpus[0] == len(cpus) - 1
    if one_run and (threads > 2 or not alone):
        return [tuple(cpus[at : at + threads]) for at in range(0, len(cpus), threads)]
    return [tuple(cpus[at::each]) for at in range(each)]


def _count(told: Mapping[str, str], key: str) -> int:
    text = told.get(key, "")
    return int(text) if re.fullmatch(r"\d{1,4}", text, re.ASCII) else 0


def _blocks(members: Sequence[tuple[int, ...]], each: int) -> list[Sequence[tuple[int, ...]]]:
    return [members[at : at + each] for at in range(0, len(members), each)]
