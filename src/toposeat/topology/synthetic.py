"""Synthetic machines from one line of text.

    tree:2:2:4                sizes from the root down: 16 devices on PCIe switches
    tree:2:2:4,bw=12/6/6      GB/s per direction of each level, from the devices up
    pcie:2:2:4                sockets, switches per socket, devices per switch
    nvswitch:8                every device has one link to a crossbar
    full:8                    a direct link between each two devices
    ring:8, mesh:4x4, torus:4x4x2   direct links between neighbours; devices forward

Sizes are separated by `:` or `x`. Options after a comma: `bw=` GB/s per direction (one number, or
one per level of a tree), `lat=` microseconds of every link.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from math import prod

from toposeat.errors import UsageError
from toposeat.model.topology import ComponentKind, Device, FactKind, LinkKind, Topology
from toposeat.topology import constants as k
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.premises import without_premises

_SOCKETS = 26.8e9  # bytes/s of one direction between NUMA nodes, where none is given
MAX_DEVICES = 256
_MAX_TEXT = 300  # messages quote parts of it
_FORM = re.compile(r"([a-z]+):([0-9]+(?:[:x][0-9]+)*)((?:,[a-z]+=[^,]*)*)", re.ASCII)
_HINT = (
    "forms: tree:2:2:4  pcie:2:2:4  nvswitch:8  full:8  ring:8  mesh:4x4  torus:4x4x2,"
    " each with ,bw=GB/s ,lat=us"
)


@dataclass(frozen=True, slots=True)
class _Request:
    """One parsed synthetic string; bandwidths in bytes/s, None where the kind's default holds."""

    text: str
    sizes: tuple[int, ...]
    bandwidths: tuple[float, ...] = ()
    latency_s: float | None = None

    def bandwidth(self, default: float, level: int = 0) -> float:
        if not self.bandwidths:
            return default
        return self.bandwidths[min(level, len(self.bandwidths) - 1)]

    def latency(self, default: float) -> float:
        return default if self.latency_s is None else self.latency_s


def looks_synthetic(text: str) -> bool:
    """Whether `text` starts like a synthetic machine."""
    kind, colon, _ = text.partition(":")
    return bool(colon) and kind in _KINDS


def synthetic_topology(text: str) -> Topology:
    """The machine that a synthetic string describes; see the module's text for the forms."""
    match = _FORM.fullmatch(text.strip()) if len(text) <= _MAX_TEXT else None
    if match is None or match.group(1) not in _KINDS:
        raise UsageError(f"not a synthetic machine: {text[:80]!r}", hint=_HINT)
    kind, sizes_text, options = match.groups()
    sizes = tuple(int(s[:9]) for s in re.split("[:x]", sizes_text))
    write, (low, high) = _KINDS[kind]
    count = prod(sizes)
    if not low <= len(sizes) <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise UsageError(f"{kind} takes {wanted} sizes, got {len(sizes)}", hint=_HINT)
    if min(sizes) < 1 or count > MAX_DEVICES:
        raise UsageError(
            f"{text!r} asks for {count} devices", hint=f"1 to {MAX_DEVICES} are possible"
        )
    request = _with_options(_Request(text, sizes), options, levels=len(sizes))
    builder = GraphBuilder(  # what is asked for is what a flow gets
        flows_fill_links=True, tells=set(FactKind) - {FactKind.PEER_ACCESS}
    )
    for i in range(count):
        builder.devices.append(Device(id=f"gpu{i}", index=i, forwards=kind in _FORWARDING))
    write(builder, request)
    machine = builder.build(
        name=text.strip(),
        origin="synthetic",
        description=f"synthetic {kind} of {count} devices",
    )
    return without_premises(machine)  # a synthetic machine has no unknowns


def _with_options(request: _Request, text: str, *, levels: int) -> _Request:
    bandwidths: tuple[float, ...] = ()
    latency: float | None = None
    for option in filter(None, text.split(",")):
        key, _, value = option.partition("=")
        numbers = tuple(_positive(option, part) for part in value.split("/"))
        if key == "bw" and len(numbers) in (1, levels):
            bandwidths = tuple(n * k.GB_PER_S for n in numbers)
        elif key == "lat" and len(numbers) == 1:
            latency = numbers[0] * k.MICROSECOND
        elif key in ("bw", "lat"):
            raise UsageError(f"{option!r} has {len(numbers)} numbers", hint=_HINT)
        else:
            raise UsageError(f"unknown option {key!r} in {request.text!r}", hint=_HINT)
    return _Request(request.text, request.sizes, bandwidths, latency)


def _positive(option: str, text: str) -> float:
    if not re.fullmatch(r"\d{1,7}(\.\d{1,6})?", text, re.ASCII) or float(text) <= 0:
        raise UsageError(f"{option!r}: expected a number above 0, got {text!r}", hint=_HINT)
    return float(text)


def _write_tree(builder: GraphBuilder, request: _Request) -> None:
    """Level by level from the root; level 0 is that of the devices' own links."""
    parents = [builder.component(ComponentKind.HOST_BRIDGE, "root")]
    for depth, size in enumerate(request.sizes):
        level = len(request.sizes) - 1 - depth
        children: list[str] = []
        for parent in parents:
            for _ in range(size):
                child = (
                    builder.component(ComponentKind.SWITCH, f"switch{level}.{len(children)}")
                    if level
                    else f"gpu{len(children)}"
                )
                children.append(child)
                builder.pcie(
                    child,
                    parent,
                    bytes_per_s=request.bandwidth(k.pcie_bytes_per_s(4), level),
                    latency_s=request.latency(
                        k.LATENCY_PCIE_BRIDGE if level else k.LATENCY_PCIE_ENDPOINT
                    ),
                )
        parents = children


def _write_pcie(builder: GraphBuilder, request: _Request) -> None:
    sockets, switches, devices = request.sizes
    nodes: list[str] = []
    for socket in range(sockets):
        node = builder.component(ComponentKind.NUMA, f"numa{socket}", numa_node=socket)
        nodes.append(node)
        bridge = builder.component(ComponentKind.HOST_BRIDGE, f"bridge{socket}", numa_node=socket)
        uplink = request.bandwidth(k.pcie_bytes_per_s(4), 1)
        builder.fabric(bridge, node, bytes_per_s=switches * uplink)
        for number in range(socket * switches, (socket + 1) * switches):
            switch = builder.component(ComponentKind.SWITCH, f"switch{number}", numa_node=socket)
            builder.pcie(
                switch,
                bridge,
                bytes_per_s=uplink,
                latency_s=request.latency(k.LATENCY_PCIE_BRIDGE),
            )
            for device in range(number * devices, (number + 1) * devices):
                builder.pcie(
                    f"gpu{device}",
                    switch,
                    bytes_per_s=request.bandwidth(k.pcie_bytes_per_s(4)),
                    latency_s=request.latency(k.LATENCY_PCIE_ENDPOINT),
                )
    for a, b in combinations(nodes, 2):
        builder.smp(a, b, bytes_per_s=request.bandwidth(_SOCKETS, 2))


def _write_nvswitch(builder: GraphBuilder, request: _Request) -> None:
    builder.component(ComponentKind.NVSWITCH, "nvswitch0")
    for device in builder.devices:
        _direct(builder, request, device.id, "nvswitch0", k.LATENCY_NVSWITCH_PORT)


def _write_full(builder: GraphBuilder, request: _Request) -> None:
    for a, b in combinations(builder.devices, 2):
        _direct(builder, request, a.id, b.id)


def _write_grid(builder: GraphBuilder, request: _Request, *, wrap: bool) -> None:
    """Row-major: the first dimension varies slowest. A dimension of 2 has one link, no wrap."""
    sizes = request.sizes
    for here in product(*(range(size) for size in sizes)):
        for dimension, size in enumerate(sizes):
            step = here[dimension] + 1
            if step >= size and not (wrap and size > 2):
                continue
            there = (*here[:dimension], step % size, *here[dimension + 1 :])
            _direct(builder, request, f"gpu{_number(here, sizes)}", f"gpu{_number(there, sizes)}")


def _number(place: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    number = 0
    for position, size in zip(place, sizes, strict=True):
        number = number * size + position
    return number


def _direct(
    builder: GraphBuilder, request: _Request, a: str, b: str, latency: float = k.LATENCY_NVLINK
) -> None:
    builder.link(
        LinkKind.NVLINK,
        a,
        b,
        bytes_per_s=request.bandwidth(k.NVLINK_UNKNOWN.data_sheet),
        latency_s=request.latency(latency),
    )


_FORWARDING = frozenset({"ring", "mesh", "torus"})
_Writer = Callable[[GraphBuilder, _Request], None]
_KINDS: dict[str, tuple[_Writer, tuple[int, int]]] = {
    "tree": (_write_tree, (1, 8)),
    "pcie": (_write_pcie, (3, 3)),
    "nvswitch": (_write_nvswitch, (1, 1)),
    "full": (_write_full, (1, 1)),
    "ring": (partial(_write_grid, wrap=True), (1, 1)),
    "mesh": (partial(_write_grid, wrap=False), (1, 6)),
    "torus": (partial(_write_grid, wrap=True), (1, 6)),
}
