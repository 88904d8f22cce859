"""Checks of what no source tells: device links of pairs, near CPUs and memory nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from toposeat.model.health import Finding, Severity
from toposeat.model.topology import Device, Topology, Vendor
from toposeat.topology.health.pairs import Pairs, few
from toposeat.topology.products import products_named
from toposeat.topology.untold import is_denied, untold_affinities, untold_pairs

# What lists all device links of a node, and its affinities.
LISTING = {
    Vendor.NVIDIA: "nvidia-smi topo -m",
    Vendor.AMD: "rocm-smi --showtopo",
    Vendor.INTEL: "xpu-smi topology -m",
}
_MOST_PRODUCTS = 4


def untold_links(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Pairs that may have NVLink, xGMI or Xe Link, one finding for each kind of device."""
    device_of = {device.id: device for device in topology.devices}
    kinds: dict[tuple[Vendor, str, bool], list[str]] = defaultdict(list)
    for a, b in untold_pairs(topology):
        first, second = device_of[a], device_of[b]
        denied = is_denied(topology, first)
        key = (first.vendor, _which(first if first.name else second), denied)
        kinds[key].append(f"{pairs.name[a]}-{pairs.name[b]}")
    for (vendor, which, denied), names in kinds.items():
        every = len(names) == len(pairs.all)
        count = f"all {len(names)} pairs" if every else f"{len(names)} of {len(pairs.all)} pairs"
        untold = Finding(
            severity=Severity.UNTOLD,
            code="links-untold",
            subject="" if every else few(names),
            detail=f"no source tells whether device links join {count}: {which}",
            hint=_hint(vendor),
        )
        yield (
            untold
            if not denied
            else replace(
                untold,
                code="links-denied",
                detail=f"the source lists no device links of {count}, but {which}",
                hint="see why they are off (nvidia-smi nvlink -s), or measure: toposeat measure",
            )
        )


def _hint(vendor: Vendor) -> str:
    command = LISTING.get(vendor, LISTING[Vendor.NVIDIA])
    return f"on that node: {command} > links.txt, and give it as well: -t links.txt"


def _which(device: Device) -> str:
    """What is known of a device's product, as a clause."""
    known = products_named(device.name)
    if not device.name:
        return "their product is not known either"
    if not known:
        return f"{device.name} is not a product that toposeat knows"
    names = [each.name for each in known]
    if len(names) > 1:
        words = ", ".join(names[:_MOST_PRODUCTS]) + (" ..." if names[_MOST_PRODUCTS:] else "")
        return f"{device.name} may be {words}"
    if known[0].always:
        return f"{names[0]} always has some, and boards join it in several ways"
    return f"{names[0]} may have bridges"


def untold_affinity(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Devices whose near CPUs and memory node are not known, where that matters."""
    names = [pairs.name[id] for id in untold_affinities(topology)]
    if names:
        yield Finding(
            severity=Severity.UNTOLD,
            code="affinity-untold",
            subject=few(names),
            detail=f"neither near CPUs nor memory node of {len(names)} devices is known, and there"
            " are several memory nodes: their ranks are bound to none",
            hint="on that node, in an allocation of all its CPUs: toposeat discover -o node.json",
        )
