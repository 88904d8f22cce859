"""Worlds in which what the tool reads is not what paces the copies: eight GPUs each.

`pcie_box` is what `nvidia-smi topo -m` tells of two sockets with two PCIe switches each and two
GPUs below each switch; it states no number, so that every capacity is assumed. Truths are made from
it or are machines of the catalogue. EMULATED: nothing here is a real machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from toposeat.model.pair import LinkKind, Pair
from toposeat.model.quantity import Quantity, Source
from toposeat.model.route import PathClass
from toposeat.model.topology import Link, Topology
from toposeat.topology import read_topology
from toposeat.topology.graph.routes import with_routes

GPUS = 8


class Premise(StrEnum):
    """How what is told stands to the truth."""

    TRUE = "as told"
    INSIDE = "inside the range"  # a number that no source states, within what is assumed of it
    UNSAID = "unsaid"  # something that the source cannot say
    FALSE = "false"  # the source says something that is not so


@dataclass(frozen=True, kw_only=True)
class World:
    """One pair of told and true machine, and what paces copies beside the links.

    `engines` are the copy engines of a device (0: no limit), `reads` what a copy that the target
    drives reaches of one that the source drives.
    """

    name: str
    premise: Premise
    told: Topology
    truth: Topology
    engines: int = 0
    reads: float = 1.0


def worlds() -> Iterator[World]:
    """All of them, in the order of the table."""
    box = pcie_box()
    inside, unsaid = Premise.INSIDE, Premise.UNSAID

    def of(name: str, premise: Premise, truth: Topology, **more: float) -> World:
        return World(name=name, premise=premise, told=box, truth=truth, **more)  # type: ignore[arg-type]

    yield of("as told", Premise.TRUE, box)
    yield of("sockets carry three times as much", inside, changed(box, LinkKind.SMP, carries=3))
    yield of("sockets are full duplex", inside, changed(box, LinkKind.SMP, both=2.0))
    yield of("PCIe is full duplex", inside, changed(box, LinkKind.PCIE, both=2.0))
    yield of("PCIe carries little both ways", inside, changed(box, LinkKind.PCIE, both=1.25))
    yield of("other switches are staged", unsaid, staged(box))
    yield of("one copy engine", unsaid, box, engines=1)
    yield of("reads at half of writes", unsaid, box, reads=0.5)
    yield of("one GPU at a quarter of its lanes", unsaid, one_slow(box, "pcie:gpu1-switch0", 4))
    yield of("one uplink at half its rate", unsaid, one_slow(box, "pcie:switch1-bridge1", 2))
    flat = topo_text(lambda i, j: "PHB" if i // 4 == j // 4 else "SYS")
    yield World(name="PCIe switches hidden", premise=unsaid, told=flat, truth=box)
    dgx = read_topology("dgx-1v")
    yield World(
        name="NVLinks not told (mesh)", premise=unsaid, told=nccl_file(dgx, "0x1db1"), truth=dgx
    )
    bridged = read_topology("h100-pcie-8-bridged")
    yield World(
        name="bridges not told", premise=unsaid, told=nccl_file(bridged, "0x2331"), truth=bridged
    )
    hgx = read_topology("hgx-h100")
    yield World(name="NVSwitch not told", premise=unsaid, told=nccl_file(hgx, "0x2330"), truth=hgx)
    yield World(
        name="bridges told, none there",
        premise=Premise.FALSE,
        told=bridged,
        truth=without_links(bridged),
    )
    yield World(
        name="rows in another order",
        premise=Premise.FALSE,
        told=topo_text(lambda i, j: _relation(i % 4 * 2 + i // 4, j % 4 * 2 + j // 4)),
        truth=box,
    )


def _relation(i: int, j: int) -> str:
    if i // 2 == j // 2:
        return "PIX"
    return "NODE" if i // 4 == j // 4 else "SYS"


def pcie_box() -> Topology:
    """Two sockets, two switches each, two GPUs each, as `topo -m` tells it."""
    return topo_text(_relation)


def topo_text(relation: Callable[[int, int], str]) -> Topology:
    """The machine that the text of `nvidia-smi topo -m` with these relations makes."""
    head = "\t".join(["", *(f"GPU{i}" for i in range(GPUS)), "CPU Affinity", "NUMA Affinity"])
    rows = [
        "\t".join(
            [
                f"GPU{i}",
                *(" X " if i == j else relation(i, j) for j in range(GPUS)),
                "0-31" if i < GPUS // 2 else "32-63",
                str(2 * i // GPUS),
            ]
        )
        for i in range(GPUS)
    ]
    return read_text("\n".join([head, *rows]) + "\n\nLegend:\n\n  X    = Self\n", "box.txt")


def changed(box: Topology, kind: LinkKind, *, carries: float = 1, both: float = 0) -> Topology:
    """The box with other links of a kind.

    Args:
        box: the machine.
        kind: of the links that change.
        carries: factor on their capacities; caps of pairs stay.
        both: both directions together, as a multiple of one; 0: as it was, times `carries`.
    """

    def new(link: Link) -> Link:
        if link.kind is not kind:
            return link
        one = times(link.forward_bytes_per_s, carries)
        together = link.combined_bytes_per_s
        if both:  # the truth, whatever is assumed of such links
            together = Quantity(one.value * both, Source.USER)
        elif together is not None:
            together = times(together, carries)
        return replace(
            link,
            forward_bytes_per_s=one,
            backward_bytes_per_s=times(link.backward_bytes_per_s, carries),
            combined_bytes_per_s=together,
        )

    return with_routes(replace(box, links=tuple(map(new, box.links))))


def one_slow(box: Topology, link_id: str, divisor: float) -> Topology:
    """The box with one link at a fraction of its capacity."""
    part = changed(
        replace(box, links=tuple(each for each in box.links if each.id == link_id)),
        LinkKind.PCIE,
        carries=1 / divisor,
    ).links[0]
    links = tuple(part if each.id == link_id else each for each in box.links)
    return with_routes(replace(box, links=links))


def staged(box: Topology) -> Topology:
    """The box whose pairs below different switches copy through host memory, at 0.4 of the rate."""
    pairs = tuple(
        Pair(
            source=route.source,
            target=route.target,
            peer_access=False,
            cap_bytes_per_s=times(route.cap_bytes_per_s, 0.4),
        )
        for route in box.routes
        if route.path_class is not PathClass.PIX and route.cap_bytes_per_s is not None
    )
    return with_routes(replace(box, pairs=pairs))


def nccl_file(machine: Topology, product: str) -> Topology:
    """What NCCL's topology file of a cloud tells of a machine: its PCIe tree and no device link.

    Args:
        machine: the truth; GPUs below one PCIe switch stay below one.
        product: PCI device id of its GPUs, the only word about them.
    """
    switch_of = {
        device.id: next(
            other
            for link in machine.links
            if link.kind is LinkKind.PCIE and device.id in link.ends
            for other in link.ends
            if other != device.id
        )
        for device in machine.devices
    }
    text = ['<system version="1">']
    number = 0
    for node in sorted({device.numa_node or 0 for device in machine.devices}):
        text.append(f'<cpu numaid="{node}" affinity="{1 << node:08x}" arch="x86_64">')
        near = [device for device in machine.devices if (device.numa_node or 0) == node]
        for switch in dict.fromkeys(switch_of[device.id] for device in near):
            text.append(
                f'<pci busid="{node:04x}:f{number:x}:00.0" class="0x060400"'
                ' link_speed="16 GT/s" link_width="16">'
            )
            number += 1
            for device in near:
                if switch_of[device.id] == switch:
                    text.append(
                        f'<pci busid="{device.pci_bus_id}" class="0x030200" vendor="0x10de"'
                        f' device="{product}" link_speed="16 GT/s" link_width="16"/>'
                    )
            text.append("</pci>")
        text.append("</cpu>")
    return read_text("\n".join([*text, "</system>\n"]), "cloud.xml")


def without_links(machine: Topology) -> Topology:
    """The machine's PCIe part alone."""
    kept = (LinkKind.PCIE, LinkKind.SMP)
    nics = {nic.id for nic in machine.nics}
    links = [each for each in machine.links if each.kind in kept and not nics & {*each.ends}]
    return with_routes(replace(machine, links=tuple(links), pairs=(), nics=()))


def read_text(text: str, name: str) -> Topology:
    """A file's machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text(text)
        return read_topology(str(path))


def times(quantity: Quantity, factor: float) -> Quantity:
    return replace(quantity, value=quantity.value * factor)
