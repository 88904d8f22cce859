"""All file formats that describe a machine: how to recognise each by its content, and its reader.

A new format is one line in `FORMATS` (text and XML) or `TREES` (folders and archives of sysfs).
The order is that of detection: the first whose `looks_like` is true reads the file, so formats
with an unmistakable mark come first. docs/reference/formats.md lists all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from toposeat.errors import InputError
from toposeat.model.shell_words import shell_word
from toposeat.model.topology import Topology
from toposeat.topology.networks.formats import network_format_of
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.registry import Registered
from toposeat.topology.several_outputs import contents, outputs_of, without_log, without_repetitions
from toposeat.topology.told import is_whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Format(Registered):
    """One kind of file, or of folder or tar archive (a snapshot of sysfs).

    Args:
        shows: what it can tell, of "presence": device links (NVLink, xGMI, Xe Link) that join two
            GPUs; "absence": what it does not list is then not there; "affinity": near CPUs or
            memory nodes of GPUs.
        when: what the presence and absence depend on, for the documentation.
    """

    package: ClassVar[str] = "toposeat.topology.readers"

    shows: str = ""
    when: str = ""

    def parse(self, source: FileText | Path) -> Topology:
        """What the source says."""
        if isinstance(source, FileText):
            source.hint = f"save the whole output again: {self.command}"
        parsed: Topology = self.function("parse")(source)
        return parsed


FORMATS: tuple[Format, ...] = (
    Format(
        name="nvbandwidth",
        command="nvbandwidth > FILE (or nvbandwidth --json)",
        tells="measured bandwidth of pairs by copy engine and by kernels, and of host copies",
        reader="nvbandwidth",
        words=r'\A\{[\s\S]{0,2000}?"nvbandwidth"|nvbandwidth Version|^[\s#>*|]*(?:'
        r"Running\s+(?:host|device|all|one)_\w+_(?:ce|sm)|memcpy (?:CE|SM) [CG]PU\(row\))",
        heading=r"nvbandwidth Version|^[\s#>*|]*memcpy (?:CE|SM) [CG]PU\(row\)"
        r"|^[\s#>*|]*Running\s+(?:host|device|all|one)_"
        r"(?:to_|device_|local_)\w+_(?:ce|sm)\.?\s*$",
    ),
    Format(
        name="rocm-smi --showtopo",
        command="rocm-smi --showtopo > FILE",
        tells="which pairs have xGMI or PCIe only, NUMA nodes, range of bandwidths",
        reader="amd_smi:rocm",
        heading=r"(?:weight|hops|link type|link accessibility) between two gpus",
        shows="presence absence affinity",
        when="with its table of link types",
    ),
    Format(
        name="amd-smi topology",
        command="amd-smi topology > FILE (or --json)",
        tells="PCI bus ids, xGMI or PCIe, range of bandwidths, access, partitions",
        reader="amd_smi",
        words=r' table\b|"bdf"',
        closer=True,
        heading=r"^\W*(?:access|weight|hops|link type|numa bw) table\b",
        shows="presence absence",
        when="with its table of link types",
    ),
    Format(
        name="KFD topology text",
        command="grep -r . /sys/class/kfd/kfd/topology/nodes > FILE",
        tells="AMD GPUs and partitions, PCI bus ids, xGMI links with bandwidths, nearest CPUs",
        reader="sysfs_snapshot:text",
        words=r"nodes/\d+/",
        closer=True,
        heading=r"^(?:==> )?\S*nodes/\d{1,6}/(?:\w+/\d+/)?\w+(?::| <==)",
        shows="presence absence affinity",
    ),
    Format(
        name="rocm-bandwidth-test",
        command="rocm-bandwidth-test > FILE",
        tells="measured bandwidth of AMD pairs and host copies per NUMA node, access, distances",
        reader="rocm_bandwidth_test",
        words=r"RocmBandwidthTest|^\s*D/D\s+0",
        closer=True,
        heading=r"^\s*Device: 0,(?!.*pciBusID)|RocmBandwidthTest",
        shows="presence absence affinity",
        when="with its matrix of link types",
    ),
    Format(
        name="toposeat topology JSON",
        command="toposeat discover -o FILE",
        tells="everything",
        reader="toposeat_json",
        words=r"\A\{",
        shows="presence absence affinity",
        when="as the sources that it was made from",
    ),
    Format(
        name="NCCL or RCCL topology XML",
        command="NCCL_TOPO_DUMP_FILE=FILE",
        tells="PCIe tree with speeds, NUMA nodes, NVLink and xGMI bonds, NICs",
        reader="nccl_xml",
        words=r"<system\b",
        closer=True,
        shows="presence absence affinity",
        when="dumped on a node; a cloud's file without `<gpu>` tells neither",
    ),
    Format(
        name="hwloc XML (versions 1 to 3)",
        command="lstopo --of xml --whole-io FILE",
        tells="PCIe tree with speeds, NUMA nodes, sockets, names, NICs; NVLink where NVML was used",
        reader="hwloc_xml",
        words=r"<topology\b",
        closer=True,
        shows="presence absence affinity",
        when="with NVLinkBandwidth of all its GPUs; xGMI and Xe Link never",
    ),
    Format(
        name="nvidia-smi -q and -q -x",
        command="nvidia-smi -q -x > FILE",
        tells="names, PCI bus ids, UUIDs, memory, PCIe links now and at best, MIG; no relations",
        reader="nvidia_smi_query",
        words=r"NVSMI LOG|<nvidia_smi_log\b",
        closer=True,
        heading=r"=+NVSMI LOG=+",
        once=True,
    ),
    Format(
        name="p2pBandwidthLatencyTest",
        command="p2pBandwidthLatencyTest > FILE",
        tells="measured bandwidth and latency of pairs, peer access on and off, one way and both",
        reader="p2p_bandwidth_latency",
        words=r"P2P=\w+\s+(?:Bandwidth|Latency)|P2P \(Peer-to-Peer\) GPU",
        heading=r"^[\s#>*|]*(?:\[P2P \(Peer-to-Peer\) GPU|P2P Connectivity Matrix"
        r"|(?:\w+directional\s+)?P2P=\w+\s+(?:Bandwidth|Latency).*Matrix)",
    ),
    Format(
        name="nvidia-smi --query-gpu CSV",
        command="nvidia-smi --query-gpu=index,name,uuid,pci.bus_id --format=csv > FILE",
        tells="names, PCI bus ids, UUIDs, memory and PCIe links, as far as they were queried",
        reader="nvidia_smi_query:csv",
        words=r"\b(?:name|uuid|index|bus_id)\b",
        closer=True,
        heading=r"^\s*(?:gpu_(?:uuid|bus_id|name)|pci\.bus_id)\s*$"
        r"|^(?=(?:.*\b(?:index|name|uuid|bus_id|gpu_\w+|pcie\.\w+|memory\.total)\b){2})"
        r"[a-z_.]+(?: \[\w+\])?(?:\s*,\s*[a-z_.]+(?: \[\w+\])?)+\s*$",
        once=True,
    ),
    Format(
        name="xpu-smi topology -m",
        command="xpu-smi topology -m > FILE",
        tells="Intel tiles, Xe Link lanes, MDF, PCIe relations, near CPUs; no speeds",
        reader="xpu_smi",
        words=r"^[\s|]*GPU\s?\d{1,4}/\d{1,2}\b",
        heading=r"^[\s#>*|]*(?:GPU\s?\d+/\d+[\s|]*)+(?:CPU\s*Affinity[\s|]*)?$",
        once=True,
        shows="presence absence affinity",
    ),
    Format(
        name="nvidia-smi nvlink -s and -L",
        command="nvidia-smi nvlink -s > FILE",
        tells="state and rate of every NVLink lane; names, UUIDs, MIG slices; no relations",
        reader="nvidia_smi_nvlink",
        heading=r"^[\s#>*|]*GPU \d{1,4}: .{0,120}\(UUID: GPU-[0-9a-f-]{8,40}\)\s*$"
        r"|^[\s#>*|]*(?:GPU models and configuration\s*:\s*)?GPU \d{1,4}: "
        r"(?:NVIDIA|Tesla|Quadro|GeForce|TITAN|GRID)\b[^:()]*$",
        shows="presence",
        when="beside a source of relations",
    ),
    Format(
        name="lscpu",
        command="lscpu > FILE",
        tells="the processor's product, sockets, memory nodes, cores and L3 caches; no GPU",
        reader="lscpu",
        words=r"^[\s#>*|]*(?:(?:architecture|model name|numa node\(s\))\s*:"
        r"|vendor[ _]id\s*:\s*[a-z])",
        heading=r"^[\s#>*|]*(?:(?:architecture|model name)\s*:\s*\S|vendor[ _]id\s*:\s*[a-z])",
    ),
    Format(
        name="lspci",
        command="lspci -tv > FILE (or, by root, lspci -vv)",
        tells="PCIe tree, names and PCI bus ids of GPUs; -vv: speeds, widths, memory nodes, ACS",
        reader="lspci",
        heading=r"^\s*[-+\\|][-+ |\\]*\[[0-9a-f]{4}(?::[0-9a-f]{2}(?:-[0-9a-f]{2})?)?\]-"
        r"|^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] (?:\"|[A-Z0-9][\w /-]{3,40}"
        r"(?: \[[0-9a-f]{4}\])?: )|^\s*LnkSta:\s",
    ),
    Format(
        name="nvidia-smi topo -p2p",
        command="nvidia-smi topo -p2p r > FILE",
        tells="which pairs have peer access",
        reader="nvidia_smi_topo:p2p",
        words=r"^[ \t|]*GPU\d+(?:[ \t|]+X)?[ \t|]+(?:OK|[CGT]?NS|DR|U)\b",
    ),
    Format(
        name="nvidia-smi",
        command="nvidia-smi > FILE",
        tells="names and PCI bus ids; no relations",
        reader="nvidia_smi_query:table",
        heading=r"^[\s#>*]*\|\s+\d{1,4}\s+\S.*\|\s*[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\s",
    ),
    Format(
        name="nvidia-smi topo -m and -mp",
        command="nvidia-smi topo -m > FILE",
        tells="best (-m) or PCIe (-mp) relation of each pair, NVLink counts, affinity; no speeds",
        reader="nvidia_smi_topo",
        words=r"\bGPU0\b|NVIDIA|NVML|no devices were found|command not found|device handle",
        closer=True,
        shows="presence absence affinity",
        when="-m; -mp tells PCIe paths only",
    ),
)

TREES: tuple[Format, ...] = (
    Format(
        name="saved sysfs or KFD tree",
        command="hwloc-gather-topology NAME --io; tar chf FILE.tar /sys/class/kfd/kfd/topology",
        tells="as live discovery without NVML: PCIe tree, NUMA nodes, NICs, AMD's xGMI links",
        reader="sysfs_snapshot",
        closer=True,
        shows="presence absence affinity",
        when="of AMD; NVIDIA's and Intel's are not in sysfs",
    ),
)


def format_of(file: FileText) -> Format:
    """The format of a file, from its content."""
    if not file.start:
        raise InputError("the file is empty", path=file.path, hint=_HINT)
    if file.declares_xml and file.xml_error is not None:
        raise file.xml_error
    for _, what, instead in unread_in(file, "first"):
        raise InputError(f"this is {what}: not read", path=file.path, hint=instead)
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
    network = network_format_of(file)
    if network is not None:
        raise InputError(
            f"a network of hosts ({network.name}), not one machine",
            path=file.path,
            hint=f"map onto it: toposeat map TRAFFIC -t {shell_word(file.path)} --node SRC; or"
            " discover -t it",
        )
    for _, what, instead in unread_in(file, "beside"):
        raise InputError(f"this is {what}: not read", path=file.path, hint=instead)
    raise InputError(f"unknown format: none of {names_of_formats()}", path=file.path, hint=_HINT)


@cache
def not_read(when: str) -> tuple[tuple[str, str, str], ...]:
    """What is no description of a machine, what to give instead, and its mark; `not_read.tsv`.

    `when` is "first" for what is refused whatever else the file holds, "beside" for texts that
    people paste beside others: refused where nothing else is in the file, else named.
    """
    lines = Path(__file__).with_name("not_read.tsv").read_text("utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return tuple((what, instead, mark) for at, what, instead, mark in rows if at == when)


def unread_in(file: FileText, when: str) -> list[tuple[int, str, str]]:
    """Of each kind that a text holds its first line, what it is, and what to give instead."""
    found = [
        (file.first_line + file.start.count("\n", 0, match.start()), what, instead)
        for what, instead, mark in not_read(when)
        if (match := re.search(mark, file.start, re.MULTILINE))
    ]
    return sorted(found)


def parse_outputs(file: FileText) -> list[Topology]:
    """The facts of a file, one part for each command whose output it holds."""
    file = without_log(file)
    outputs = outputs_of(file, FORMATS)
    parts = [parse_file(output) for output in outputs]
    said = [(each.begins, part.origin) for each, part in zip(outputs, parts, strict=True)]
    if len(parts) > 1:
        tables = without_repetitions([part for part in parts if not is_whole(part)])
        parts = [*filter(is_whole, parts), *tables]
    pasted = [] if file.is_json or file.xml is not None else unread_in(file, "beside")
    return [*parts, contents(file.path, said, pasted)] if pasted or len(said) > 1 else parts


def parse_file(file: FileText) -> Topology:
    """The facts of a file of any known format that holds the output of one command."""
    try:
        return format_of(file).parse(file)
    except ValueError as error:  # an id twice, a bandwidth of -1
        raise InputError(
            f"describes no possible machine: {error}",
            path=file.path,
            hint="is the file complete and unedited? save it again with the tool that wrote it",
        ) from error


def names_of_formats() -> str:
    """All formats in one line, for messages."""
    return ", ".join(each.name for each in (*FORMATS, *TREES))


_HINT = (
    "save one on the GPU node: toposeat discover -o FILE, or nvidia-smi topo -m > FILE"
    " (AMD: amd-smi topology > FILE)"
)
