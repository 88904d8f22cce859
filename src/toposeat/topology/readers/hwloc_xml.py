"""hwloc's XML, versions 1 to 3: sockets, NUMA nodes, the PCI tree, GPUs and NICs of one node.

    <topology> <object type="Machine"> <object type="Package" os_index cpuset> ... <object
    type="Bridge" pci_busid> <object type="PCIDev" pci_busid pci_type pci_link_speed> <object
    type="OSDev" name>

Differences between the versions that matter here: sockets are `Socket` in old files, NUMA nodes
hold packages in version 1 and are held by them later, OS devices have other type numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from toposeat.model.cpu_list import cpu_list_of_mask, cpus_of, format_cpu_list
from toposeat.model.processor import processor_metadata
from toposeat.model.topology import (
    ANY_HOST,
    Device,
    FactKind,
    LinkLayer,
    Topology,
    Vendor,
    canonical_pci,
)
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.device_bonds import CountedLanes
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.pci_graph import (
    VENDOR_INTEL,
    Endpoint,
    Machine,
    NetworkAdapter,
    PciDevice,
    PciGraphWriter,
    add_nics,
)
from toposeat.topology.readers.file_text import FileText, XmlElement

_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]", re.IGNORECASE | re.ASCII)
_SPEED = re.compile(r"\d{1,4}\.\d{1,9}", re.ASCII)
# How tools number devices, best first: nvidia-smi's, rocm-smi's, CUDA's, Level Zero's. Not the
# kernel's card0: that counts management controllers too.
_NUMBERED = ("nvml", "rsmi", "cuda", "ze")
_GB_PER_LANE = {1: 0.25, 2: 0.5, 3: 0.9846, 4: 1.9692, 5: 3.9385, 6: 7.563}
_WIDTHS = (16, 8, 4, 2, 1, 32)
_RDMA = re.compile(r"mlx|hfi|cxi|efa|bnxt_re|irdma")
_ACTIVE = "4"  # of a port, as the verbs library numbers its states
_MAX_PORTS = 8
_MAX_MASK_WORDS = 2048
_MAX_DEVICES = 1024


def looks_like(file: FileText) -> bool:
    """Whether the root element is that of an hwloc export."""
    root = file.xml
    return root is not None and root.tag == "topology" and any(root.named("object"))


def parse(file: FileText) -> Topology:
    """Read an hwloc export."""
    root = file.xml
    assert root is not None  # by `looks_like`
    contents = _Contents(file)
    _walk(contents, root)
    gpus = [each for each in contents.pci.values() if _is_gpu(each)]
    if not gpus:
        raise file.refusal(
            "no GPU in this file (exported without I/O, or the machine has none)", root.line
        )
    builder = GraphBuilder(host=contents.host)
    endpoints, id_of_element = _add_gpus(builder, contents, gpus)
    endpoints += add_nics(builder, _fast_adapters(builder, contents))
    machine = _machine(contents)
    numa_of = PciGraphWriter(builder, machine).write(endpoints)
    _add_nvlink_distances(builder, root, id_of_element, numa_of, file)
    _describe(builder, contents, root)
    return builder.facts(name=file.name, origin="hwloc XML", metadata=_processor(root))


_CPUINFO = {  # what hwloc calls the keys of /proc/cpuinfo
    "CPUVendor": "vendor_id",
    "CPUFamilyNumber": "cpu family",
    "CPUModelNumber": "model",
    "CPUModel": "model name",
    "Architecture": "architecture",
}


def _processor(root: XmlElement) -> dict[str, str]:
    """The first processor, as metadata."""
    told: dict[str, str] = {}
    for each in root.walk():
        if each.tag == "info" and each.get("name") in _CPUINFO:
            told.setdefault(_CPUINFO[each.get("name")], each.get("value"))
    return processor_metadata(told, told.get("architecture", ""))


@dataclass
class _Where:
    """What surrounds an object: the CPUs of the nearest one that has any."""

    cpus: frozenset[int] | None = None
    root: str = ""  # host bridge
    bridges: tuple[str, ...] = ()


@dataclass
class _Found:
    """A PCI function with its OS devices."""

    function: PciDevice
    element: XmlElement
    where: _Where
    os_devices: list[XmlElement] = field(default_factory=list)


@dataclass
class _Contents:
    file: FileText
    host: str = ANY_HOST
    cpus_of_node: dict[int, frozenset[int]] = field(default_factory=dict)
    cpus_of_package: dict[int, frozenset[int]] = field(default_factory=dict)
    cores: list[frozenset[int]] = field(default_factory=list)
    caches: list[frozenset[int]] = field(default_factory=list)
    pci: dict[str, _Found] = field(default_factory=dict)
    roots: Counter[str] = field(default_factory=Counter)  # host bridges by domain and line
    ports: dict[str, PciDevice] = field(default_factory=dict)  # bridges
    cpuless: int = 0
    doubled: int = 0  # PCI functions whose bus id another one has


# ---- one pass over the file

_OLD_L3 = ("Cache", "3")  # type and depth of hwloc 1


def _walk(contents: _Contents, root: XmlElement) -> None:
    pending = [(each, _Where()) for each in root.named("object")]
    while pending:
        element, where = pending.pop(0)
        kind = element.get("type")
        below = where
        if kind == "Machine":
            contents.host = _info(element, "HostName") or ANY_HOST
        if kind in ("NUMANode", "Node"):
            _note(contents, contents.cpus_of_node, element)
        elif kind in ("Package", "Socket"):
            _note(contents, contents.cpus_of_package, element)
        if kind == "Bridge":
            below = _bridge(contents, element, where)
        elif kind == "PCIDev":
            _function(contents, element, where)
        elif element.get("cpuset"):
            below = replace(where, cpus=_cpuset(element, contents.file))
            if below.cpus and kind == "Core":
                contents.cores.append(below.cpus)
            elif below.cpus and (kind == "L3Cache" or (kind, element.get("depth")) == _OLD_L3):
                contents.caches.append(below.cpus)
        pending.extend((each, below) for each in element.named("object"))


def _note(contents: _Contents, into: dict[int, frozenset[int]], element: XmlElement) -> None:
    """Remember the CPUs of a NUMA node or package; nodes without CPUs hold device memory."""
    text = element.get("os_index")
    cpus = _cpuset(element, contents.file)
    if not cpus:
        contents.cpuless += 1
    elif re.fullmatch(r"\d{1,6}", text, re.ASCII):
        into[int(text)] = cpus


def _bridge(contents: _Contents, element: XmlElement, where: _Where) -> _Where:
    if element.get("bridge_type") == "0-1" or not element.get("pci_busid"):
        root = f"pci{element.get('bridge_pci')[:4]}:{element.line}"
        contents.roots[root] += 1  # a file may be one line
        again = contents.roots[root] - 1
        return replace(where, root=f"{root}.{again}" if again else root)
    port = _pci(contents, element, where)
    contents.ports[port.pci_bus_id] = port
    return replace(where, bridges=(*where.bridges, port.pci_bus_id))


def _function(contents: _Contents, element: XmlElement, where: _Where) -> None:
    function = _pci(contents, element, where)
    devices = [each for each in element.named("object") if each.get("type") == "OSDev"]
    found = _Found(function, element, where, devices)
    before = contents.pci.setdefault(function.pci_bus_id, found)
    if before is found:
        return
    if _is_gpu(before) and _is_gpu(found):
        raise contents.file.refusal(
            f"two GPUs have the PCI bus id {function.pci_bus_id}",
            element.line,
            hint="is this one machine?",
        )
    contents.pci[function.pci_bus_id] = found if _is_gpu(found) else before
    contents.doubled += 1


def _pci(contents: _Contents, element: XmlElement, where: _Where) -> PciDevice:
    kind = _PCI_TYPE.match(element.get("pci_type"))
    speed = element.get("pci_link_speed")
    with contents.file.at(element.line):
        bus = canonical_pci(element.get("pci_busid"))
        if speed and _SPEED.fullmatch(speed) is None:
            raise ValueError(f"pci_link_speed {speed[:40]!r} is no number of GB/s")
    generation, width = _generation_and_width(speed)
    return PciDevice(
        pci_bus_id=bus,
        root=where.root,
        bridges=where.bridges,
        vendor=int(kind[2], 16) if kind else 0,
        device=int(kind[3], 16) if kind else 0,
        class_code=int(kind[1], 16) << 8 if kind else 0,
        numa_node=None,
        cpus=None,
        generation=generation,
        width=width,
        max_width=width,
    )


def _generation_and_width(text: str) -> tuple[int | None, int | None]:
    """A PCIe link of the speed that hwloc states in GB/s; the widest that fits, None if none."""
    speed = float(text) if _SPEED.fullmatch(text) else 0.0
    for width in _WIDTHS:
        for generation, lane in _GB_PER_LANE.items():
            if abs(speed - lane * width) < 0.005 * speed:
                return generation, width
    return None, None


def _cpuset(element: XmlElement, file: FileText) -> frozenset[int]:
    """The CPUs of a mask: 32-bit words, highest first; "0xf...f" stands for endless ones."""
    text = element.get("cpuset")
    words = text.split(",")
    if len(words) > _MAX_MASK_WORDS or words[0] == "0xf...f":
        words = []
    if not all(
        re.fullmatch(r"(0x)?[0-9a-f]{0,8}", word, re.IGNORECASE | re.ASCII) for word in words
    ):
        raise file.refusal(f"cpuset {text[:40]!r} is no mask", element.line)
    values = [int(word, 16) if word not in ("", "0x") else 0 for word in reversed(words)]
    return cpus_of(cpu_list_of_mask(values, bits=32))


def _info(element: XmlElement, name: str) -> str:
    return next((i.get("value") for i in element.named("info") if i.get("name") == name), "")


# ---- the graph


def _machine(contents: _Contents) -> Machine:
    """What the PCI graph needs, with the memory node of every function."""
    return Machine(
        pci={
            **contents.ports,
            **{bus: _located(contents, each) for bus, each in contents.pci.items()},
        },
        cpus_of_node={
            n: format_cpu_list(cpus) for n, cpus in sorted(contents.cpus_of_node.items())
        },
        package_of_node={
            node: package
            for node, cpus in contents.cpus_of_node.items()
            for package, members in contents.cpus_of_package.items()
            if cpus <= members or members <= cpus
        },
        cores=tuple(contents.cores),
        caches=tuple(contents.caches),
    )


def _located(contents: _Contents, found: _Found) -> PciDevice:
    node = _node(contents, found.where)
    cpus = contents.cpus_of_node.get(node) if node is not None else found.where.cpus
    return replace(found.function, numa_node=node, cpus=format_cpu_list(cpus) if cpus else None)


def _node(contents: _Contents, where: _Where) -> int | None:
    """The one memory node whose CPUs are those that hwloc puts the bridge beside."""
    if where.cpus is None:
        return None
    inside = [n for n, cpus in contents.cpus_of_node.items() if cpus <= where.cpus]
    around = [n for n, cpus in contents.cpus_of_node.items() if where.cpus <= cpus]
    candidates = around or inside
    return candidates[0] if len(candidates) == 1 else None


def _is_gpu(found: _Found) -> bool:
    """A GPU one computes on: not a board's management controller, not a processor's display."""
    function = found.function
    if function.is_management:
        return False
    if function.is_gpu:
        return True
    accelerator = function.class_code >> 8 in (0x0302, 0x0380, 0x1200)
    return function.vendor == VENDOR_INTEL and accelerator


def _partitions(found: _Found) -> list[str]:
    """Names by which rocm-smi or nvidia-smi list the partitions of one function, if several."""
    names = [each.get("name") for each in found.os_devices]
    for prefix in _NUMBERED[:2]:
        numbered = [n for n in names if re.fullmatch(rf"{prefix}\d{{1,4}}", n, re.ASCII)]
        if numbered:
            return numbered
    return []


def _number(found: _Found) -> tuple[int, int] | None:
    """Rank of the tool, the vendor's before CUDA and Level Zero, and its number of this GPU."""
    for rank, prefix in enumerate(_NUMBERED):
        for each in found.os_devices:
            match = re.fullmatch(rf"{prefix}(\d{{1,4}})", each.get("name"), re.ASCII)
            if match:
                return rank, int(match[1])
    return None


def _add_gpus(
    builder: GraphBuilder, contents: _Contents, gpus: list[_Found]
) -> tuple[list[Endpoint], dict[str, str]]:
    """Devices and partitions; also their ids by the gp_index of their OS devices and functions."""
    numbers = {g.function.pci_bus_id: _number(g) for g in gpus}
    ranks = {n[0] for n in numbers.values() if n}
    stated = [n[1] for n in numbers.values() if n]
    whole = len(stated) == len(gpus) and len(ranks) == 1 and len(set(stated)) == len(gpus)
    if not whole:
        builder.report.append("GPU numbers are missing or mixed: numbered by PCI bus id")
    order = sorted(
        gpus,
        key=lambda g: (
            (numbers[g.function.pci_bus_id] if whole else None) or (),
            g.function.pci_bus_id,
        ),
    )
    endpoints: list[Endpoint] = []
    ids: dict[str, str] = {}
    for found in order:
        names = _partitions(found)
        several = len(names) > 1
        number = numbers[found.function.pci_bus_id]
        for name in names or [""]:
            index = len(endpoints)
            if several and whole:
                index = int(re.sub(r"\D", "", name))
            elif whole and number:
                index = number[1]
            id = f"gpu{index}"
            builder.devices.append(_device(contents, found, id, index, alone=not several))
            endpoints.append(_endpoint(contents, found, id))
            chosen = [e for e in found.os_devices if not several or e.get("name") == name]
            ids |= {e.get("gp_index"): id for e in chosen}
            ids |= {e.get("name"): id for e in chosen}
        if several:
            builder.report.append(
                f"{found.function.pci_bus_id} is split into {len(names)} partitions, which share"
                " its PCI bus id"
            )
        else:
            ids[found.element.get("gp_index")] = endpoints[-1].id
    if len(endpoints) > _MAX_DEVICES:
        raise contents.file.refusal(f"{len(endpoints)} GPUs in one node")
    return endpoints, ids


def _device(contents: _Contents, found: _Found, id: str, index: int, *, alone: bool) -> Device:
    located = _located(contents, found)
    name = next(
        (m for each in found.os_devices if (m := _info(each, "GPUModel"))),
        _product(found),
    )
    uuid = next((u for each in found.os_devices if (u := _info(each, "NVIDIAUUID"))), None)
    return Device(
        id=id,
        index=index,
        host=contents.host,
        vendor=products.VENDORS.get(found.function.vendor, Vendor.UNKNOWN),
        name=name,
        pci_bus_id=found.function.pci_bus_id if alone else None,
        parent=None if alone else found.function.pci_bus_id,
        uuid=uuid if alone else None,
        numa_node=located.numa_node,
        cpus=located.cpus,
    )


def _product(found: _Found) -> str:
    """What pci.ids calls it, of the node or ours."""
    ours = products.name_of_pci(found.function.vendor, found.function.device)
    return _info(found.element, "PCIDevice") or ours


def _endpoint(contents: _Contents, found: _Found, id: str) -> Endpoint:
    generation = products.pcie_generation_named(_product(found)) or k.DEFAULT_PCIE_GENERATION
    for bus in found.function.bridges:
        port = contents.ports[bus]
        contents.ports[bus] = replace(port, generation=products.awake(port.generation, generation))
    return Endpoint(id, _located(contents, found), generation)


def _adapters(contents: _Contents) -> Iterator[tuple[XmlElement, _Found, bool]]:
    """Element, function, and whether it is one for jobs: RDMA or Slingshot, not plain Ethernet."""
    for found in contents.pci.values():
        network = found.function.class_code >> 16 == 0x02
        for each in found.os_devices if network else ():
            fabric = each.get("subtype") in ("Slingshot", "BXI", "OmniPath")
            rdma = _info(each, "NodeGUID") or _RDMA.match(each.get("name"))
            yield each, found, fabric or bool(rdma)


def _fast_adapters(
    builder: GraphBuilder, contents: _Contents
) -> Iterator[tuple[NetworkAdapter, PciDevice]]:
    """The adapters for jobs where there are any, else all, each with its PCI function."""
    adapters = list(_adapters(contents))
    fast = [each for each in adapters if each[2]]
    if fast and len(fast) < len(adapters):
        builder.report.append(
            f"{len(adapters) - len(fast)} network interfaces without RDMA are left out"
        )
    for element, found, _ in fast or adapters:
        located = _located(contents, found)
        yield _adapter(element, located.pci_bus_id), located


def _adapter(element: XmlElement, bus: str) -> NetworkAdapter:
    """An adapter with the state of its ports; those of InfiniBand have a number (LID) in it."""
    ports = [n for n in range(1, _MAX_PORTS + 1) if _info(element, f"Port{n}State")]
    up = [n for n in ports if _info(element, f"Port{n}State").startswith(_ACTIVE)]
    numbers = [_info(element, f"Port{n}LID") for n in up or ports]
    layer = None
    if any(re.fullmatch(r"0x0*[1-9a-f][0-9a-f]*", lid) for lid in numbers):
        layer = LinkLayer.INFINIBAND
    elif up and all(re.fullmatch(r"0x0+", lid) for lid in numbers) and not _is_efa(element):
        layer = LinkLayer.ETHERNET
    return NetworkAdapter(
        name=element.get("name"),
        pci_bus_id=bus,
        active=bool(up) if ports else None,
        link_layer=layer,
    )


def _is_efa(element: XmlElement) -> bool:
    """Whether it is an Elastic Fabric Adapter, which is RDMA over neither."""
    return re.match(r"efa|rdmap", element.get("name")) is not None


def _describe(builder: GraphBuilder, contents: _Contents, root: XmlElement) -> None:
    say = builder.report.append
    say("PCIe speeds are those at the time of the export: idle links run slower than they can")
    if contents.cpuless:
        say(f"{contents.cpuless} memory nodes without CPUs (device memory) are left out")
    if contents.doubled:
        say(f"{contents.doubled} PCI bus ids appear twice: GPUs are preferred")
    names = {each.get("name") for each in root.named("distances2")}
    if not any(name.startswith("NVLink") for name in names):
        say("links between GPUs (NVLink, xGMI, Xe Link) are not in the file")
    if any(name.startswith("XGMI") for name in names):
        say(
            "hwloc's xGMI distances are not used: they call every peer direct, whatever lies"
            " between"
        )


_MAX_OBJECTS = 4096
_TAGS = ("distances2", "distances2hetero")


def _add_nvlink_distances(
    builder: GraphBuilder,
    root: XmlElement,
    id_of_object: dict[str, str],
    numa_of: dict[str, str],
    file: FileText,
) -> None:
    """Add a bond for every pair of GPUs with a bandwidth, and ports to NVSwitches and CPUs.

    `id_of_object` has the devices by the gp_index of their objects, `numa_of` the NUMA vertex of
    each device, by id.
    """
    packages = {e.get("gp_index") for e in root.walk() if e.get("type") in ("Package", "NUMANode")}
    for matrix in (child for child in root.children if child.tag in _TAGS):
        if not matrix.get("name").startswith("NVLinkBandwidth"):
            continue
        objects = _objects(matrix, file)
        values = _values(matrix, len(objects), file)
        found = CountedLanes(builder, {each.id: products.lane_of(each) for each in builder.devices})
        for row, source in enumerate(objects):
            here = id_of_object.get(source)
            for column, target in enumerate(objects) if here is not None else ():
                megabytes = values[row * len(objects) + column]
                there = id_of_object.get(target)
                if column == row or not megabytes or here is None:
                    continue
                lanes = max(1, round(megabytes * 1e6 / found.kinds[here].data_sheet))
                if there is not None:
                    found.to_device(here, there, lanes)
                elif target not in packages:
                    found.to_switch(here, target, lanes)
                elif here in numa_of:
                    found.to_cpu(here, numa_of[here], lanes)
        found.draw()
        if {*id_of_object.values()} == {id_of_object.get(each) for each in objects} - {None}:
            builder.tells.add(FactKind.DEVICE_LINKS)


def _objects(matrix: XmlElement, file: FileText) -> list[str]:
    """The gp_index of every row; heterogeneous matrices write TYPE:gp_index."""
    words = " ".join(child.text for child in matrix.named("indexes")).split()
    count = matrix.get("nbobjs")
    if not words or len(words) > _MAX_OBJECTS or str(len(words)) != count:
        raise file.refusal(
            f"a distance matrix of {count[:20]} objects names {len(words)}", matrix.line
        )
    return [word.rpartition(":")[2] for word in words]


def _values(matrix: XmlElement, count: int, file: FileText) -> list[int]:
    words = " ".join(child.text for child in matrix.named("u64values")).split()
    if len(words) != count * count or not all(
        re.fullmatch(r"\d{1,12}", word, re.ASCII) for word in words
    ):
        raise file.refusal(
            f"a distance matrix of {count} objects has {len(words)} values, or not only numbers",
            matrix.line,
        )
    return [int(word) for word in words]
