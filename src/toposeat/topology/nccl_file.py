"""A topology as the file that NCCL_TOPO_FILE names: the writer to `readers.nccl_xml`.

    <system> <cpu numaid affinity> <pci busid class link_speed link_width> ... <gpu dev>
    <nvlink target count tclass>, <xgmi ...>, <c2c bw count>; <nic> <net name speed>

NCCL fills in what an element does not state (ncclTopoGetXmlFromSys, FromGpu and FromCpu set an
attribute only where it is missing), finds GPUs by bus id and NICs by name, and takes a GPU's links
from the file where it holds any. Its rates of links follow from PCIe generation and width, the
GPU's generation, and the processor's model.
"""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

from toposeat.errors import UsageError
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.processor import Processor, processor_of
from toposeat.model.topology import Component, FactKind, Topology, Vendor
from toposeat.topology.nccl_tree import Cpu, Function, Link, functions_of

_VERSION = {Vendor.AMD: "2"}  # RCCL refuses another than its own; NCCL's is 1
_LOST = "rates, latencies and sizes of memory are not in such files: the library has its own"


def nccl_xml(topology: Topology) -> tuple[str, tuple[str, ...]]:
    """The file of one node, and what of the topology it does not hold, one sentence each.

    Raises:
        UsageError: several hosts, a partial topology, or GPUs of neither NVIDIA nor AMD.
    """
    _refuse(topology)
    notes: list[str] = []
    tells = FactKind.DEVICE_LINKS in topology.tells or any(
        link.kind.value in ("nvlink", "xgmi", "c2c") for link in topology.links
    )
    if not tells:
        notes.append("links between GPUs are not known: none are written, and NCCL asks NVML")
    cpus = functions_of(topology, notes, with_gpus=tells)
    processor = processor_of(topology)
    if processor is None:
        notes.append("the topology does not tell the processor's model: NCCL asks the live one")
    elif processor.is_inferred:
        notes.append(f"the processor, {processor}, is inferred from its socket link")
    notes.append(_LOST)
    vendor = topology.devices[0].vendor
    lines = [f'<system version="{_VERSION.get(vendor, "1")}">']
    for cpu in cpus:
        lines += _cpu_lines(cpu, _component_of(topology, cpu.numa), processor)
    return "\n".join([*lines, "</system>"]) + "\n", tuple(notes)


def _refuse(topology: Topology) -> None:
    if len(topology.hosts) > 1:
        raise UsageError(
            f"{topology.name} has {len(topology.hosts)} hosts, and a file of NCCL is of one",
            hint="give the topology of one node",
        )
    for device in topology.devices:
        if device.vendor not in (Vendor.NVIDIA, Vendor.AMD):
            raise UsageError(
                f"{device.id} is neither of NVIDIA nor of AMD: no library that reads such files"
                " uses it",
                hint="--format json writes every topology",
            )
        if device.pci_bus_id is None or device.index is None:
            raise UsageError(
                f"the PCI bus id or number of {device.id} is not known, by which NCCL finds it",
                hint="add a source that tells it: -t topo.txt -t nvidia-smi-query.csv",
            )


def _component_of(topology: Topology, numa: int) -> Component | None:
    return next((c for c in topology.components if c.cpus and c.numa_node == numa), None)


def _cpu_lines(cpu: Cpu, node: Component | None, processor: Processor | None) -> list[str]:
    listed = node.cpus if node and node.cpus else cpu.cpus
    words = {"numaid": str(cpu.numa), "affinity": _mask(listed) if listed else ""}
    words |= processor.attributes if processor else {}
    lines = [f"  <cpu{_attributes(words)}>"]
    for function in cpu.functions:
        lines += _pci_lines(function, "    ")
    return [*lines, "  </cpu>"]


def _pci_lines(function: Function, indent: str) -> list[str]:
    words = {
        "busid": function.bus,
        "class": f"0x{function.class_code:06x}",
        "vendor": f"0x{function.vendor:04x}" if function.vendor else "",
        "device": f"0x{function.device:04x}" if function.device else "",
        "link_speed": function.speed,
        "link_width": str(function.width),
    }
    inside: list[str] = []
    for below in function.below:
        inside += _pci_lines(below, indent + "  ")
    if function.gpu is not None:
        inside += _gpu_lines(function.gpu, function.links, indent + "  ")
    if function.nets:
        nets = (f"{indent}    <net{_attributes(net)}/>" for net in function.nets)
        inside += [f"{indent}  <nic>", *nets, f"{indent}  </nic>"]
    head = f"{indent}<pci{_attributes(words)}"
    return [head + ">", *inside, f"{indent}</pci>"] if inside else [head + "/>"]


def _gpu_lines(gpu: dict[str, str], links: list[Link], indent: str) -> list[str]:
    head = f"{indent}<gpu{_attributes(gpu)}"
    if not links:
        return [head + "/>"]
    inside = [f"{indent}  <{link.tag}{_attributes(link.words)}/>" for link in links]
    return [head + ">", *inside, f"{indent}</gpu>"]


def _attributes(words: dict[str, str]) -> str:
    """Those that are known, in their order."""
    return "".join(f" {name}={quoteattr(value)}" for name, value in words.items() if value)


def _mask(cpus: str) -> str:
    """A CPU list as words of 32 bits, the highest first, as in `cpumap`."""
    bits = sum(1 << cpu for cpu in parse_cpu_list(cpus))
    count = max(1, -(-bits.bit_length() // 32))
    return ",".join(f"{bits >> 32 * at & 0xFFFFFFFF:08x}" for at in reversed(range(count)))
