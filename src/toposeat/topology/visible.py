"""The GPUs of a node that a process may use: the visibility variables that it inherited."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from toposeat.errors import UnavailableError
from toposeat.model.few import few
from toposeat.model.shell_words import names_this
from toposeat.model.topology import Device, Topology, Vendor
from toposeat.model.visible_list import (
    DEVICE_VARIABLES,
    SECOND_LISTS,
    VARIABLES_OF_VENDOR,
    visible_number,
)
from toposeat.topology.constants import CGROUP, THREADS


def without_devices(machine: Topology, gone: Set[str]) -> Topology:
    """The machine without some devices, by id, and without what was told of them."""
    return replace(
        machine,
        devices=tuple(d for d in machine.devices if d.id not in gone),
        links=tuple(x for x in machine.links if gone.isdisjoint(x.ends)),
        pairs=tuple(p for p in machine.pairs if gone.isdisjoint((p.source, p.target))),
        routes=tuple(r for r in machine.routes if gone.isdisjoint((r.source, r.target))),
    )


def part_of_job(machine: Topology, source: str | None, environment: Mapping[str, str]) -> Topology:
    """What a job may use of the machine that `source` names: of this one its `own_part`."""
    return own_part(machine, environment) if names_this(source) else machine


def own_part(machine: Topology, environment: Mapping[str, str]) -> Topology:
    """What a job may use of this machine, its devices and CPUs."""
    from toposeat.topology.live.job_cpus import with_cpus_of_job  # noqa: PLC0415

    return visible_part(with_cpus_of_job(machine, environment), environment)


def said_of_lists(part: Topology) -> tuple[str, ...]:
    """What `own_part` has to say of lists: devices and CPUs that are left out, and a doubt."""
    lists = (*DEVICE_VARIABLES, CGROUP, THREADS)
    return tuple(line for line in part.report if line.startswith(lists))


def visible_part(machine: Topology, environment: Mapping[str, str]) -> Topology:
    """The node with the devices that the variables of their vendors leave, in the lists' order.

    The rest are its `others`. A list is read as the vendor's runtime reads it: numbers or the
    beginnings of UUIDs, up to the first that is no device; Intel's chooses and does not order. A
    list of slices or tiles that are no devices of the machine is left to the runtime.

    Raises:
        UnavailableError: no device is left.
    """
    left: list[Device] = []
    second: list[str] = []
    lists: list[str] = []
    report = machine.report
    for vendor in dict.fromkeys(device.vendor for device in machine.devices):
        own = [device for device in machine.devices if device.vendor is vendor]
        names = [name for name in VARIABLES_OF_VENDOR.get(vendor, ()) if name in environment]
        numbers = [visible_number(own, device) for device in own]
        for text in dict.fromkeys(environment[name] for name in names):
            own = _listed(text, dict(zip(numbers, own, strict=True)), vendor)
            numbers = [str(at) for at in range(len(own))]
        left += own
        lists += [f"{name}={environment[name]}" for name in names]
        if vendor is Vendor.NVIDIA and names and _may_count_otherwise(machine, environment):
            report += (
                "CUDA_VISIBLE_DEVICES is taken to count by PCI bus ids, but without"
                " CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA puts the fastest product first: set it, or list"
                " UUIDs",
            )
        second += [name for name in names if name != VARIABLES_OF_VENDOR[vendor][0]]
    if not left:
        raise UnavailableError(
            "the visibility variables of the job leave no GPU",
            hint="ask the job for GPUs (Slurm: --gpus-per-node=N --gpu-bind=none)",
        )
    if second:
        machine = replace(machine, metadata={**machine.metadata, SECOND_LISTS: " ".join(second)})
    machine = replace(machine, report=report) if report != machine.report else machine
    if left == list(machine.devices):
        return machine
    others = tuple(device for device in machine.devices if device not in left)
    part = without_devices(machine, {device.id for device in others})
    if others:
        left_out = few(f"D{device.index}" for device in others)
        report += (f"{', '.join(lists)} leaves out {left_out}: no rank is placed there",)
    return replace(part, devices=tuple(left), others=(*machine.others, *others), report=report)


def _may_count_otherwise(machine: Topology, environment: Mapping[str, str]) -> bool:
    """Whether numbers in NVIDIA's list may be of another order than that of bus ids."""
    own = [device for device in machine.devices if device.vendor is Vendor.NVIDIA]
    counts = any(word.strip().isdigit() for word in environment["CUDA_VISIBLE_DEVICES"].split(","))
    in_order = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    return counts and not in_order and len({device.name for device in own}) > 1


def _listed(text: str, by_number: Mapping[str, Device], vendor: Vendor) -> list[Device]:
    """The devices that a list names, each once."""
    present, first = list(by_number.values()), text.strip().lower()
    if vendor is Vendor.INTEL and not first:  # an empty mask is none
        return present
    named: dict[str, Device] = {}
    for word in map(str.strip, text.split(",")):
        alike = [d for d in present if word and (d.uuid or "").lower().startswith(word.lower())]
        found = by_number.get(word) or (alike[0] if len(alike) == 1 else None)
        if found is None:
            break
        named[found.id] = found
    if not named and (first.startswith("mig-") or "." in first):
        return present
    return [d for d in present if d.id in named] if vendor is Vendor.INTEL else [*named.values()]
