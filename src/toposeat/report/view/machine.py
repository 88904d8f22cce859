"""A machine in words: devices, links, parts and numbers, what is assumed of them; the catalogue."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.model.few import few
from toposeat.model.plural import plural
from toposeat.model.quantity import Premise, Quantity, Source
from toposeat.model.topology import (
    ANY_HOST,
    Component,
    ComponentKind,
    Device,
    Link,
    LinkKind,
    PathClass,
    Topology,
)
from toposeat.report.parts import Table
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean

if TYPE_CHECKING:
    from toposeat.model.shape_text import KnownShape

LINK_WORDS = {
    LinkKind.NVLINK: "NVLink",
    LinkKind.XGMI: "xGMI",
    LinkKind.XELINK: "Xe Link",
    LinkKind.C2C: "C2C",
    LinkKind.PCIE: "PCIe",
    LinkKind.SMP: "cross-socket",
    LinkKind.NIC: "NIC",
    LinkKind.NETWORK: "network",
}

COMPONENT_WORDS = {
    ComponentKind.SWITCH: "switch",
    ComponentKind.NVSWITCH: "NVSwitch",
    ComponentKind.HOST_BRIDGE: "host bridge",
    ComponentKind.NUMA: "NUMA node",
    ComponentKind.PACKAGE: "package",
    ComponentKind.NETWORK: "network",
}

PATH_CLASS_WORDS = {
    PathClass.NVL: "direct device links, or one switch of them",
    PathClass.C2C: "chip-to-chip link",
    PathClass.PIX: "at most one PCIe bridge",
    PathClass.PXB: "several PCIe bridges, no host bridge",
    PathClass.PHB: "through one host bridge",
    PathClass.NODE: "between host bridges of one NUMA node",
    PathClass.SYS: "between NUMA nodes",
    PathClass.NET: "between hosts",
    PathClass.UNKNOWN: "not known",
}

_DEVICE_LINK_PREFIX = {LinkKind.NVLINK: "NV", LinkKind.XGMI: "XG", LinkKind.XELINK: "XE"}


def device_label(topology: Topology, device: Device) -> str:
    """`D3`, or `node07:D3` when the topology has several hosts: the number of the vendor's tool."""
    host = f"{clean(device.host)}:" if len(topology.hosts) > 1 else ""
    return f"{host}D{device.index}"


def device_code(topology: Topology, position: int) -> str:
    """`device_label` of the device at `position`."""
    return device_label(topology, topology.devices[position])


def order_words(topology: Topology, device_of_rank: Sequence[int]) -> str:
    """The devices of ranks 0, 1, ...; of several hosts their order, at most eight names."""
    if len(topology.hosts) > 1:
        hosts = dict.fromkeys(topology.devices[d].host for d in device_of_rank)
        return f"nodes by first rank: {host_words(list(hosts))}"
    last = len(device_of_rank) - 1
    names = " ".join(device_code(topology, device) for device in device_of_rank)
    return f"{names} for {f'ranks 0 to {last}' if last else 'rank 0'}"


def host_words(hosts: Sequence[str]) -> str:
    """The first eight names, and how many more there are."""
    return few(map(clean, hosts))


def device_ranges(topology: Topology, ids: Collection[str]) -> str:
    """Devices by id, runs of the topology's order as `first..last`."""
    positions = [at for at, device in enumerate(topology.devices) if device.id in ids]
    runs: list[list[int]] = []
    for at in positions:
        if runs and at == runs[-1][-1] + 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    words = []
    for run in runs:
        names = [device_code(topology, at) for at in run]
        words.append(f"{names[0]}..{names[-1]}" if len(names) > 2 else ", ".join(names))
    return ", ".join(words)


def vertex_words(topology: Topology, vertex: str) -> str:
    """A vertex as people call it: `device 3`, `package 0`, `NIC mlx5_0`."""
    for device in topology.devices:
        if device.id == vertex:
            return device_label(topology, device)
    for nic in topology.nics:
        if nic.id == vertex:
            host = f"{clean(nic.host)} " if len(topology.hosts) > 1 else ""
            return f"{host}NIC {clean(nic.name) or nic.index}"
    for component in topology.components:
        if component.id == vertex:
            shown = len(topology.hosts) > 1 and component.host != ANY_HOST
            host = clean(component.host) if shown else ""
            return f"{host} {component_words(component)}".strip()
    return clean(vertex)


def component_words(component: Component) -> str:
    """A component's name, or its kind with what tells it from others: `switch 3`."""
    if component.name:
        return clean(component.name)
    number = re.search(r"\d+$", component.id)
    kind = COMPONENT_WORDS[component.kind]
    if component.pci_bus_id or number:
        return f"{kind} {component.pci_bus_id or (number.group() if number else '')}"
    return clean(component.id)


_MAKERS = re.compile(
    r"^(?:(?:NVIDIA|AMD|Intel\(?R?\)?|Tesla|GeForce|Instinct|Quadro|Data Center GPU)\s+)+", re.I
)


def short_device_name(name: str, letters: int) -> str:
    """`NVIDIA A100-SXM4-40GB` without the maker and what else has no room; "" if nothing fits."""
    short = _MAKERS.sub("", clean(name)).strip()
    while len(short) > letters:
        cut = max(short.rfind("-"), short.rfind(" "))
        if cut <= 0:
            return ""
        short = short[:cut]
    return short


def link_medium(link: Link) -> str:
    """What the link is made of: its kind and, where it has one, its own name."""
    word, name = LINK_WORDS[link.kind], clean(link.name)
    if not name:
        return word
    if word.lower() in name.lower() or link.kind is LinkKind.SMP:
        return name
    return f"{word} {name}"


def link_words(topology: Topology, link_id: str) -> str:
    """One link in words: `QPI: package 0 - package 1`."""
    link = topology.link_of_id.get(link_id)
    if link is None:
        return clean(link_id)
    near, far = (vertex_words(topology, end) for end in link.ends)
    return f"{link_medium(link)}: {near} - {far}"


def devices_words(topology: Topology) -> str:
    """`8 x A100-PCIE`, `4 x A + 4 x B`, or `8 devices` where names are not known."""
    names = Counter(clean(d.name) for d in topology.devices)
    if not topology.devices:
        return "no devices"
    if set(names) == {""}:
        return plural(len(topology.devices), "device")
    parts = [f"{count} x {name or 'unnamed device'}" for name, count in names.items()]
    return " + ".join(parts)


def quantity_counts(topology: Topology) -> dict[Source, int]:
    """How many numbers of the topology (capacities, latencies, route caps) come from where."""
    numbers: list[Quantity | None] = []
    for link in topology.links:
        numbers += [link.forward_bytes_per_s, link.backward_bytes_per_s]
        numbers += [link.combined_bytes_per_s, link.latency_s]
    numbers += [route.cap_bytes_per_s for route in topology.routes]
    counts = Counter(q.source for q in numbers if q is not None)
    return {source: counts[source] for source in Source}


_PREMISE_WORDS = {"stack": "time of the MPI's messages"}  # nominally that of direct copies


def premise_words(premise: Premise, *, has_nominal: bool = True) -> str:
    """`capacity between sockets: 26.8 GB/s (11 to 144)`, or `... 11 to 144 GB/s`."""
    what = _PREMISE_WORDS.get(premise.what) or clean(premise.what)
    ends, unit = premise.numbers(premise.low, premise.high), clean(premise.unit)
    nominal = premise.numbers(premise.nominal)
    told = has_nominal and premise.what not in _PREMISE_WORDS
    numbers = f"{nominal} {unit} ({ends})" if told else f"{ends} {unit}"
    return f"{what}: {numbers}"


def assumed_lines(topology: Topology) -> list[str]:
    """Each premise of a machine, and where its interval comes from."""
    return [f"{premise_words(each)}. Why: {clean(each.source)}" for each in topology.premises]


def link_source_words(topology: Topology) -> str:
    """`12 links measured, 3 nominal`, by the source of their capacities."""
    counts = Counter(link.forward_bytes_per_s.source for link in topology.links)
    parts = [
        f"{counts[s]} {s.value}"
        for s in (Source.MEASURED, Source.USER, Source.NOMINAL, Source.ASSUMED)
        if counts[s]
    ]
    if not parts:
        return "no links known"
    number, _, source = parts[0].partition(" ")
    return ", ".join([f"{plural(int(number), 'link')} {source}", *parts[1:]])


def title_words(topology: Topology) -> str:
    """`k80-16, 16 x Tesla K80`."""
    hosts = f"{len(topology.hosts)} hosts, " if len(topology.hosts) > 1 else ""
    return f"{clean(topology.name)}, {hosts}{devices_words(topology)}"


def topology_sentence(topology: Topology) -> str:
    """`k80-16, 16 x Tesla K80, 47 links nominal`."""
    return f"{title_words(topology)}, {link_source_words(topology)}"


# Members of `Topology.metadata` that tell what to make of its numbers, the most telling first.
_REMARKS = ("assumed", "invented", "pci_bus_ids", "nics", "pcie", "x_bus", "nvlink_domain")


def remarks(topology: Topology) -> list[str]:
    """What was assumed, invented or left out, one line each: `assumed: PCI bus ids`."""
    found = topology.metadata
    return [f"{key.replace('_', ' ')}: {clean(found[key])}" for key in _REMARKS if key in found]


def relation_word(topology: Topology, source: str, target: str) -> str:
    """A cell of the relation matrix: `X`, `NV4`, `PIX` ...; `!` marks refused peer access."""
    if source == target:
        return "X"
    route = topology.route_of_pair.get((source, target))
    if route is None:
        return "-"
    word = "?" if route.path_class is PathClass.UNKNOWN else route.path_class.value
    if route.path_class is PathClass.NVL and route.links:
        lanes = [topology.link_of_id[link] for link in route.links]
        narrow = min(lanes, key=lambda link: link.count)
        prefix = _DEVICE_LINK_PREFIX.get(narrow.kind)
        word = f"{prefix}{narrow.count}" if prefix else word
    return f"{word}!" if route.peer_access is False else word


_NAME_LETTERS = 20
_BUILT_IN, _YOURS = "built in", "yours"
_HEADER = ("name", "devices", "links", "from", "source")


def render_catalogue_text(
    machines: Sequence[tuple[Topology, Path | None]],
    style: TextStyle = PLAIN,
    networks: Sequence[KnownShape] = (),
) -> str:
    """Name, devices, links, and who published it or, if any, which file of the user's it is from.

    Built-in networks are listed after the machines.
    """
    rows = [_row(*each) for each in machines]
    for each in networks:
        source = each.sources[0].partition(":")[0]
        rows.append((each.name, f"{each.hosts} hosts", each.kind, _BUILT_IN, source))
    return lay_out([Table(_HEADER, rows, fold=(4,))], style)


def _row(machine: Topology, path: Path | None) -> tuple[str, str, str, str, str]:
    source = clean(machine.sources[0]).partition(":")[0] if machine.sources else "-"
    where = (_BUILT_IN, source) if path is None else (_YOURS, clean(str(path)))
    names = Counter(short_device_name(d.name, _NAME_LETTERS) for d in machine.devices)
    devices = " + ".join(f"{count} x {name or 'device'}" for name, count in names.items())
    kinds = {link.kind for link in machine.links} - {LinkKind.SMP}
    links = ", ".join(LINK_WORDS[kind] for kind in LinkKind if kind in kinds)
    return clean(machine.name), devices, links, *where
