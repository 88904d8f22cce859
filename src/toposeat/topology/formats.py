"""All file formats that describe a machine: how to know one from its content, who reads it.

A new format is one line in `FORMATS` (text and XML) or `TREES` (folders and archives of sysfs).
The order is that of detection: the first whose `looks_like` says yes reads the file, so formats
with an unmistakable mark come first. docs/reference/supported.md lists what stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.topology import Topology
from toposeat.topology.facts import MachineFacts
from toposeat.topology.readers import hwloc_xml, nccl_xml, nvidia_smi_topo, toposeat_json
from toposeat.topology.readers.file_text import FileText

Parsed = Topology | MachineFacts


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """One kind of file.

    Args:
        name: what people call it.
        command: how to get such a file.
        tells: what it knows of a machine, a phrase for the documentation.
        looks_like: whether a file is, or was meant to be, of this kind; reads its beginning or its
            root element only, and raises nothing.
        parse: reads it. Raises `InputError` with file and line for damage, `ValueError` for what
            describes no possible machine.
    """

    name: str
    command: str
    tells: str
    looks_like: Callable[[FileText], bool]
    parse: Callable[[FileText], Parsed]


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeFormat:
    """One kind of folder or tar archive (a snapshot of sysfs); see `Format`."""

    name: str
    command: str
    tells: str
    looks_like: Callable[[Path], bool]
    parse: Callable[[Path], Parsed]


FORMATS: tuple[Format, ...] = (
    Format(
        name="toposeat topology JSON",
        command="toposeat discover -o FILE",
        tells="everything",
        looks_like=toposeat_json.looks_like,
        parse=toposeat_json.parse,
    ),
    Format(
        name="NCCL or RCCL topology XML",
        command="NCCL_TOPO_DUMP_FILE=FILE",
        tells="PCIe tree with speeds, NUMA nodes, NVLink and xGMI bonds, NICs",
        looks_like=nccl_xml.looks_like,
        parse=nccl_xml.parse,
    ),
    Format(
        name="hwloc XML (versions 1 to 3)",
        command="lstopo --of xml --whole-io FILE",
        tells="PCIe tree with speeds, NUMA nodes, sockets, names, NICs; NVLink where NVML was used",
        looks_like=hwloc_xml.looks_like,
        parse=hwloc_xml.parse,
    ),
    Format(
        name="nvidia-smi topo -m",
        command="nvidia-smi topo -m > FILE",
        tells="best relation of each pair, NVLink counts, CPU and NUMA affinity; no speeds",
        looks_like=nvidia_smi_topo.looks_like,
        parse=nvidia_smi_topo.parse,
    ),
)

TREES: tuple[TreeFormat, ...] = ()


def format_of(file: FileText) -> Format:
    """The format of a file, from its content.

    Raises:
        InputError: empty, damaged XML, or of no format known.
    """
    if not file.start:
        raise InputError("the file is empty", path=file.path, hint=_HINT)
    if file.declares_xml and file.xml_error is not None:
        raise file.xml_error
    for each in FORMATS:
        if each.looks_like(file):
            return each
    if file.xml_error is not None:
        raise file.xml_error
    if file.xml is not None:
        raise InputError(
            f"XML of an unknown kind: its root is <{file.xml.tag[:30]}>",
            path=file.path,
            line=file.xml.line,
            hint=f"formats known: {names_of_formats()}",
        )
    raise InputError(f"unknown format: neither of {names_of_formats()}", path=file.path, hint=_HINT)


def parse_file(file: FileText) -> Parsed:
    """What a file of any known format says.

    Raises:
        InputError: damaged, or of unknown format, with file and line.
    """
    try:
        return format_of(file).parse(file)
    except ValueError as error:  # a noun refused what the file says: an id twice, a bandwidth of -1
        raise InputError(
            f"describes no possible machine: {error}",
            path=file.path,
            hint="is the file complete and unedited? save it again with the tool that wrote it",
        ) from error


def names_of_formats() -> str:
    """All formats in one line, for messages."""
    return ", ".join([*(each.name for each in FORMATS), *(each.name for each in TREES)])


_HINT = "save one on the GPU node: toposeat discover -o FILE, or nvidia-smi topo -m > FILE"
