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
from toposeat.topology.networks.formats import network_format_of
from toposeat.topology.readers import (
    amd_smi,
    hwloc_xml,
    mx_smi_topo,
    nccl_xml,
    nvbandwidth,
    nvidia_smi_csv,
    nvidia_smi_nvlink,
    nvidia_smi_p2p,
    nvidia_smi_query,
    nvidia_smi_topo,
    p2p_bandwidth_latency,
    rocm_bandwidth_test,
    rocm_smi,
    starpu_bus,
    starpu_platform,
    superbench,
    sysfs_snapshot,
    toposeat_json,
    transferbench,
    unusable,
    xpu_smi,
)
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.several_outputs import outputs_of, without_repetitions

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
        name="nvbandwidth",
        command="nvbandwidth > FILE (or nvbandwidth --json)",
        tells="measured bandwidth of pairs by copy engine and by kernels, and of host copies",
        looks_like=nvbandwidth.looks_like,
        parse=nvbandwidth.parse,
    ),
    Format(
        name="rocm-smi --showtopo",
        command="rocm-smi --showtopo > FILE (or --json)",
        tells="which pairs have xGMI or PCIe only, NUMA nodes; of bandwidths only the range",
        looks_like=rocm_smi.looks_like,
        parse=rocm_smi.parse,
    ),
    Format(
        name="amd-smi topology",
        command="amd-smi topology > FILE (or --json)",
        tells="PCI bus ids, xGMI or PCIe, range of bandwidths, access, partitions",
        looks_like=amd_smi.looks_like,
        parse=amd_smi.parse,
    ),
    Format(
        name="KFD topology text",
        command="grep -r . /sys/class/kfd/kfd/topology/nodes > FILE",
        tells="AMD GPUs and partitions, PCI bus ids, xGMI links with bandwidths, nearest CPUs",
        looks_like=sysfs_snapshot.looks_like_text,
        parse=sysfs_snapshot.parse_text,
    ),
    Format(
        name="rocm-bandwidth-test",
        command="rocm-bandwidth-test > FILE",
        tells="measured bandwidth of AMD pairs and host copies per NUMA node, access, distances",
        looks_like=rocm_bandwidth_test.looks_like,
        parse=rocm_bandwidth_test.parse,
    ),
    Format(
        name="TransferBench p2p",
        command="TransferBench p2p > FILE (or OUTPUT_TO_CSV=1)",
        tells="measured bandwidth of pairs, reading or writing, and of host copies per NUMA node",
        looks_like=transferbench.looks_like,
        parse=transferbench.parse,
    ),
    Format(
        name="StarPU bus",
        command="starpu_calibrate_bus (NAME.bandwidth, .latency, .affinity)",
        tells="measured bandwidth and latency of pairs and host copies, or near CPUs",
        looks_like=starpu_bus.looks_like,
        parse=starpu_bus.parse,
    ),
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
        name="StarPU platform XML",
        command="starpu_calibrate_bus (NAME.platform.xml)",
        tells="PCIe tree with measured speeds, measured limits of pairs, names",
        looks_like=starpu_platform.looks_like,
        parse=starpu_platform.parse,
    ),
    Format(
        name="nvidia-smi -q and -q -x",
        command="nvidia-smi -q -x > FILE",
        tells="names, PCI bus ids, UUIDs, memory, PCIe links now and at best, MIG; no relations",
        looks_like=nvidia_smi_query.looks_like,
        parse=nvidia_smi_query.parse,
    ),
    Format(
        name="p2pBandwidthLatencyTest",
        command="p2pBandwidthLatencyTest > FILE",
        tells="measured bandwidth and latency of pairs, peer access on and off, one way and both",
        looks_like=p2p_bandwidth_latency.looks_like,
        parse=p2p_bandwidth_latency.parse,
    ),
    Format(
        name="SuperBench gpu-copy",
        command="the result lines of gpu-copy-bw:perf",
        tells="measured bandwidth of pairs and of host copies for each NUMA node",
        looks_like=superbench.looks_like,
        parse=superbench.parse,
    ),
    Format(
        name="nvidia-smi --query-gpu CSV",
        command="nvidia-smi --query-gpu=index,name,uuid,pci.bus_id --format=csv > FILE",
        tells="of names, PCI bus ids, UUIDs, memory and PCIe links what was asked for",
        looks_like=nvidia_smi_csv.looks_like,
        parse=nvidia_smi_csv.parse,
    ),
    Format(
        name="xpu-smi topology -m",
        command="xpu-smi topology -m > FILE",
        tells="Intel tiles, Xe Link lanes, MDF, PCIe relations, near CPUs; no speeds",
        looks_like=xpu_smi.looks_like,
        parse=xpu_smi.parse,
    ),
    Format(
        name="mx-smi topo -m",
        command="mx-smi topo -m > FILE",
        tells="relations of MetaX GPUs, MetaXLink among them; no speeds",
        looks_like=mx_smi_topo.looks_like,
        parse=mx_smi_topo.parse,
    ),
    Format(
        name="nvidia-smi nvlink -s and -L",
        command="nvidia-smi nvlink -s > FILE",
        tells="state and rate of every NVLink lane; names, UUIDs, MIG slices; no relations",
        looks_like=nvidia_smi_nvlink.looks_like,
        parse=nvidia_smi_nvlink.parse,
    ),
    Format(
        name="nvidia-smi topo -p2p",
        command="nvidia-smi topo -p2p r > FILE",
        tells="which pairs have peer access",
        looks_like=nvidia_smi_p2p.looks_like,
        parse=nvidia_smi_p2p.parse,
    ),
    Format(
        name="nvidia-smi topo -m and -mp",
        command="nvidia-smi topo -m > FILE",
        tells="best (-m) or PCIe (-mp) relation of each pair, NVLink counts, affinity; no speeds",
        looks_like=nvidia_smi_topo.looks_like,
        parse=nvidia_smi_topo.parse,
    ),
)

# What people take for descriptions of a machine; `parse` says why it is none.
UNUSABLE: tuple[Format, ...] = (
    Format(
        name="lscpu",
        command="lscpu",
        tells="nothing of GPUs",
        looks_like=unusable.looks_like_lscpu,
        parse=unusable.refuse_lscpu,
    ),
    Format(
        name="mock NVML configuration",
        command="(part of Kubernetes' test infrastructure)",
        tells="nothing of a real machine",
        looks_like=unusable.looks_like_nvml_mock,
        parse=unusable.refuse_nvml_mock,
    ),
)

TREES: tuple[TreeFormat, ...] = (
    TreeFormat(
        name="saved sysfs or KFD tree",
        command="hwloc-gather-topology NAME --io; tar chf FILE.tar /sys/class/kfd/kfd/topology",
        tells="as live discovery without NVML: PCIe tree, NUMA nodes, NICs, AMD's xGMI links",
        looks_like=sysfs_snapshot.looks_like,
        parse=sysfs_snapshot.parse,
    ),
)


def format_of(file: FileText) -> Format:
    """The format of a file, from its content.

    Raises:
        InputError: empty, damaged XML, or of no format known.
    """
    if not file.start:
        raise InputError("the file is empty", path=file.path, hint=_HINT)
    if file.declares_xml and file.xml_error is not None:
        raise file.xml_error
    for each in (*FORMATS, *UNUSABLE):
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
            hint=f"map onto it: toposeat map TRAFFIC -t {file.path} --node SRC; or discover -t it",
        )
    raise InputError(f"unknown format: neither of {names_of_formats()}", path=file.path, hint=_HINT)


def parse_outputs(file: FileText) -> list[Parsed]:
    """What a file says that may hold the outputs of several commands; one part for each of them.

    Raises:
        InputError: damaged, or of unknown format, with file and line.
    """
    outputs = outputs_of(file)
    if len(outputs) == 1:
        return [parse_file(file)]
    parts = [parse_file(output) for output in outputs]
    facts = without_repetitions([part for part in parts if isinstance(part, MachineFacts)])
    return [*(part for part in parts if not isinstance(part, MachineFacts)), *facts]


def parse_file(file: FileText) -> Parsed:
    """What a file of any known format says that holds one output.

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
