"""What links and pairs carry where no source states it, as the facts of all sources settle it.

Readers draw links by their kind and give each assumed number its premises. Here, once all facts are
known, each premise gets the interval that they leave: of this processor, of this PCIe generation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, prod
from typing import Any

from msgspec import Struct

from toposeat.model.processor import CPU_NAME, processor_of
from toposeat.model.quantity import (
    Premise,
    Quantity,
    Source,
    assumed,
    is_of_this_machine,
    nominal,
    quantity_fields,
)
from toposeat.model.topology import ComponentKind, Device, Link, LinkKind, Nic, PathClass, Topology
from toposeat.topology import constants as k
from toposeat.topology.premises import PCIE_RATE, scaled
from toposeat.topology.processors import Family, family_of, unknown
from toposeat.topology.products import pcie_generation_of, pcie_width_of

NODES_PER_SOCKET = "nodes_per_socket"  # of a topology's metadata: memory nodes, if told
NCCL_TRANSPORT = "NCCL's transport"  # the premise of a ring's steps across host bridges


def settled(facts: Topology) -> Topology:
    """The facts with each assumed number as they settle it.

    A device's own link has the width and generation that are told of the device.
    """
    family = family_of_machine(facts)
    of_family = {each.what: each for each in family.numbers.values()}
    now: dict[str, Premise] = {}
    factor: dict[str, float] = {}
    for premise in facts.premises:
        told = of_family.get(premise.what, premise)
        if premise.what == PCIE_RATE.what and (generation := _told_generation(facts.devices)):
            factor[premise.what] = k.pcie_bytes_per_s(generation) / k.GB_PER_S / premise.nominal
            continue
        now[premise.what] = told
        factor[premise.what] = told.nominal / premise.nominal

    def restated(record: Any) -> Any:
        numbers = {name: getattr(record, name) for name in quantity_fields(type(record))}
        changed = {
            name: _restated(number, factor, now)
            for name, number in numbers.items()
            if number is not None and number.premises
        }
        return replace(record, **changed) if changed else record

    ends: dict[str, Device | Nic] = {d.id: d for d in facts.devices}
    ends |= {nic.id: nic for nic in facts.nics}
    return replace(
        facts,
        links=tuple(_own_link(_sockets(restated(x), family), ends) for x in facts.links),
        routes=tuple(map(restated, facts.routes)),
        premises=tuple(now.values()),
    )


def _sockets(link: Link, family: Family) -> Link:
    """The link; both directions of one between sockets that nothing tells are as the family's."""
    rate, told = link.forward_bytes_per_s, link.combined_bytes_per_s
    if rate.premises != (family.sockets.what,) or is_of_this_machine(told):
        return link
    return replace(link, combined_bytes_per_s=scaled(rate, family.sockets_both.nominal))


def _restated(number: Quantity, factor: dict[str, float], now: dict[str, Premise]) -> Quantity:
    kept = tuple(what for what in number.premises if what in now or what not in factor)
    value = number.value * prod(factor.get(what, 1.0) for what in number.premises)
    return Quantity(value, Source.ASSUMED if kept else Source.NOMINAL, premises=kept)


def family_of_machine(topology: Topology) -> Family:
    """The family of its processors; an unknown one has the numbers of all with such PCIe."""
    processor = processor_of(topology)
    name = topology.metadata.get(CPU_NAME, "")
    found = family_of(processor.told if processor else (), name)
    drawn = Counter(component.kind for component in topology.components)
    nodes_per_socket = drawn[ComponentKind.NUMA] / (drawn[ComponentKind.PACKAGE] or inf)
    found = unknown(generation_of(topology)) if found is unknown() else found
    return found.with_nodes(float(topology.metadata.get(NODES_PER_SOCKET, nodes_per_socket)))


def generation_of(topology: Topology) -> int:
    """The PCIe generation of a machine: as told, else of its devices, else the usual one."""
    drawn = topology.metadata.get("pcie_generation", "")
    if drawn.isdecimal():
        return int(drawn)
    told = [generation for d in topology.devices if (generation := pcie_generation_of(d))]
    return min(told, default=int(drawn[:1] or k.DEFAULT_PCIE_GENERATION))


def _told_generation(devices: Sequence[Device]) -> int | None:
    """The least PCIe generation of the devices where it is known of all."""
    told = [pcie_generation_of(device) for device in devices]
    known = [each for each in told if each]
    return min(known) if known and len(known) == len(told) else None


def rate_of_own_link(end: Device | Nic, generation: int | None) -> Quantity | None:
    """One direction of a device's own PCIe link, where its state is told; else None.

    `generation` is that of the machine, for a device that does not tell its own.
    """
    generation = pcie_generation_of(end) or generation
    if end.pcie is None or generation is None:
        return None
    return nominal(k.pcie_bytes_per_s(generation, pcie_width_of(end)))


def _own_link(link: Link, ends: Mapping[str, Device | Nic]) -> Link:
    """The link, no faster than its one device says; a rate of this machine stays."""
    drawn = link.forward_bytes_per_s
    if link.kind is not LinkKind.PCIE or drawn.source.is_of_this_machine:
        return link
    own = [ends[id] for id in link.ends if id in ends]
    told = rate_of_own_link(own[0], None) if len(own) == 1 else None
    if told is None or told.value >= drawn.value:
        return link
    both = link.combined_bytes_per_s
    if both is not None:
        named = tuple(what for what in both.premises if what not in drawn.premises)
        both = replace(both, value=both.value * told.value / drawn.value, premises=named)
    return replace(
        link, forward_bytes_per_s=told, backward_bytes_per_s=told, combined_bytes_per_s=both
    )


# ---- copies between devices that share no switch


class CopyRates(Struct, frozen=True):
    """What one direct copy reaches by the way it takes through a processor."""

    family: Family

    def of(
        self, path_class: PathClass, links: float, *, across: bool
    ) -> tuple[float, tuple[str, ...]]:
        """Bytes/s of a copy over PCIe links that carry `links`, and what it rests on.

        `links` are bytes/s of the narrowest one; `across` is from one socket to another.
        """
        if across:
            held = self.family.flow_across
            flow = held.nominal * k.GB_PER_S
            return (flow, (held.what,)) if flow <= links else (links, ())
        if path_class in (PathClass.PHB, PathClass.NODE, PathClass.SYS):
            share = self.family.host_bridge
            return links * share.nominal, (share.what,) if share.low < share.high else ()
        return links, ()

    def both_ways(self, cap: Quantity) -> Quantity | None:
        """Both directions together of a pair whose flows are held between sockets."""
        if self.family.flow_across.what not in cap.premises:
            return None
        return scaled(cap, self.family.flow_across_both.nominal)

    @property
    def transport(self) -> Premise:
        """NCCL's own choice: direct copies, or staging whatever the driver allows."""
        share = self.family.staged_within
        return Premise(
            what=NCCL_TRANSPORT,
            low=min(1.0, share.low),
            nominal=1.0,
            high=1.0,
            unit="of the rate of direct copies",
            source="NCCL stages in host memory where a path crosses a host bridge, but for two GPUs"
            " on AMD processors, unless NCCL_P2P_LEVEL says otherwise.",
        )


def copy_rates(topology: Topology) -> CopyRates | None:
    """Those of the machine's processors; None where a flow is told to fill its links."""
    if topology.flows_fill_links:
        return None
    return CopyRates(family_of_machine(topology))


def copy_premises(topology: Topology) -> tuple[Premise, ...]:
    """What the caps of a machine's pairs may rest on."""
    rates = copy_rates(topology)
    if rates is None:
        return ()
    return rates.family.flow_across, rates.family.host_bridge, rates.transport


# ---- copies through host memory


class StagedRates(Struct, frozen=True):
    """What copies through host memory reach: those of the driver, and NCCL's."""

    family: Family
    x16: float  # bytes/s of a link of the machine's generation

    @classmethod
    def of_machine(cls, topology: Topology) -> StagedRates:
        """Those of the machine's processors."""
        return cls(family_of_machine(topology), k.pcie_bytes_per_s(generation_of(topology)))

    @property
    def premises(self) -> tuple[Premise, ...]:
        """What they rest on."""
        family = self.family
        copied = family.copied_within, family.copied_across
        return (*copied, family.staged_within, family.staged_across)

    def of(self, *, across: bool, siblings: bool = False) -> tuple[Quantity, Quantity]:
        """A copy of the driver, and a step of NCCL's ring, in a socket or between two.

        The uplink of `siblings`, which are below one switch, carries a copy up and down.
        """
        share = self.family.copied_siblings.nominal if siblings else 1.0
        copied, ringed = (
            (self.family.copied_across, self.family.staged_across)
            if across
            else (self.family.copied_within, self.family.staged_within)
        )
        return assumed(copied.nominal * share * self.x16, copied), assumed(
            ringed.nominal * self.x16, ringed
        )

    def both_ways(self, copied: Quantity, *, siblings: bool) -> Quantity:
        """Both directions of a pair's staged copies together."""
        family = self.family
        both = family.copied_siblings_both if siblings else family.copied_both
        return scaled(copied, both.nominal)
