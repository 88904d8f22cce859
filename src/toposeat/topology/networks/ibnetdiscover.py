"""InfiniBand fabrics: `ibnetdiscover`, `ibnetdiscover --ports`, and ibsim's net files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from toposeat.model.network import Network, NetworkLink
from toposeat.model.quantity import Quantity, Source
from toposeat.topology.networks.builder import NetworkBuilder, switch_levels
from toposeat.topology.readers.file_text import FileText

ORIGIN = "ibnetdiscover"
_NODE = re.compile(
    r"^(Switch|Ca|Hca|Rt)[ \t]+(\d{1,3})[ \t]+\"([^\"]+)\"[ \t]*(?:#[ \t]*(?:\"([^\"]*)\")?.*)?$",
    re.IGNORECASE,
)
_PORT = re.compile(
    r"^\[(\d{1,3})\](?:\([0-9a-fx]+\))?[ \t]+\"([^\"]+)\"[ \t]*\[(\d{1,3})\](?:\([0-9a-fx]+\))?"
    r"[ \t]*(.*)$",
    re.IGNORECASE,
)
_RATE = re.compile(r"\b(1|2|4|8|12)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b", re.IGNORECASE)
_END = r"(SW|CA|RT)[ \t]+(\d{1,6})[ \t]+(\d{1,3})[ \t]+(0x[0-9a-f]{1,16})"
_PORTS_LINE = re.compile(
    rf"^{_END}[ \t]+(\S+)[ \t]+(\S+)[ \t]*"
    rf"(?:-[ \t]+{_END}[ \t]+\([ \t]*'(.*)'[ \t]+-[ \t]+'(.*)'[ \t]*\))?",
    re.IGNORECASE,
)
_FACTORY_NAME = re.compile(r"MT\d+ ")
_LONGEST = 2000  # characters of a line
_QUOTED = re.compile(r"\"([^\"]*)\"")
_ATTRIBUTE = re.compile(r"^(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=", re.IGNORECASE)
_TROUBLE = re.compile(r"ibwarn|ibpanic|iberror|can't open|failed|discover fail", re.IGNORECASE)
# Data rate of one lane in bytes/s, after the line code (InfiniBand Architecture, volume 2).
LANE_BYTES_PER_S = {
    "SDR": 0.25e9,
    "DDR": 0.5e9,
    "QDR": 1e9,
    "FDR10": 1.25e9,
    "FDR": 14.0625e9 * 64 / 66 / 8,
    "EDR": 3.125e9,
    "HDR": 6.25e9,
    "NDR": 12.5e9,
    "XDR": 25e9,
}
_HINT = "save it again as root or with read access to /dev/infiniband: ibnetdiscover > FILE"


_End = tuple[str, int]  # of a cable: a node's GUID or id, and its port
_Ends = tuple[_End, _End]


@dataclass
class _Node:
    """A switch or an adapter, by its GUID or id."""

    is_switch: bool
    line: int
    name: str = ""
    described: bool = True  # false: only seen from the other end


@dataclass
class _Fabric:
    nodes: dict[str, _Node] = field(default_factory=dict)
    # Bytes/s and line of each cable, by its ends, the smaller first, so that it counts once.
    cables: dict[_Ends, tuple[float | None, int]] = field(default_factory=dict)
    cable_of_port: dict[_End, _Ends] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)  # ports with two cables

    def add(self, a: _End, b: _End, rate: float | None, line: int) -> None:
        """Note a cable, which may be told from both ends."""
        ends = (a, b) if a <= b else (b, a)
        for port in ends:
            other = self.cable_of_port.setdefault(port, ends)
            if other != ends:
                self.doubts.append(
                    f"line {line}: port {port[1]} of {port[0][:40]} has another cable in line"
                    f" {self.cables[other][1]}"
                )
        known = self.cables.get(ends)
        if known is None or (known[0] is None and rate is not None):
            self.cables[ends] = (rate, line)


def parse(file: FileText) -> Network:
    """The graph of switches with the adapters of every host, without SHARP aggregation nodes."""
    builder = NetworkBuilder(path=file.path)
    fabric = _read(file, builder)
    if not fabric.nodes:
        trouble = next((n for n, x in enumerate(file.lines, 1) if _TROUBLE.search(x)), None)
        raise builder.error("no switch and no adapter: the tool failed", trouble, _HINT)
    return _network(file, builder, fabric)


def _read(file: FileText, builder: NetworkBuilder) -> _Fabric:
    fabric = _Fabric()
    here: str | None = None
    for number, raw in enumerate(file.lines, start=1):
        line = raw.strip()
        if not line:
            continue
        if len(line) > _LONGEST:
            raise builder.error(f"a line of {len(line)} characters", number, _HINT)
        if line.startswith("#") or _ATTRIBUTE.match(line):
            continue
        if match := _NODE.match(line):
            here = match.group(3)
            kind, name = match.group(1).lower(), match.group(4)
            node = _declare(fabric, here, kind == "switch", name or "", number)
            if node.described and node.line != number:
                raise builder.error(f"{here} is described again", number, _HINT)
            node.described, node.line = True, number
        elif (match := _PORT.match(line)) and here is not None:
            end = (match.group(2), int(match.group(3)))
            _declare_far_end(fabric, end[0], match.group(4), number)
            fabric.add((here, int(match.group(1))), end, _rate(match.group(4)), number)
        elif match := _PORTS_LINE.match(line):
            _ports_line(fabric, match, number)
        elif not _TROUBLE.search(line):
            raise builder.error(f"unknown line: {line[:50]!r}", number, _HINT)
        else:
            builder.report.append(f"line {number}: the tool said: {line[:120]}")
    if fabric.doubts:
        builder.report.append(
            f"{len(fabric.doubts)} ports have two cables, all are kept: {fabric.doubts[0]}"
        )
    return fabric


def _declare_far_end(fabric: _Fabric, key: str, comment: str, line: int) -> None:
    """What is at the other end of a cable, for files that do not describe it themselves.

    Real ids begin with the kind; ibsim's do not, and it describes all nodes.
    """
    match = _QUOTED.search(comment)
    if key[:2] in ("S-", "H-") and match and key not in fabric.nodes:
        fabric.nodes[key] = _Node(key.startswith("S-"), line, match.group(1), described=False)


def _declare(fabric: _Fabric, key: str, is_switch: bool, name: str, line: int) -> _Node:
    node = fabric.nodes.get(key)
    if node is None:
        node = fabric.nodes[key] = _Node(is_switch, line, name)
    elif not node.name:
        node.name = name
    return node


def _ports_line(fabric: _Fabric, match: re.Match[str], line: int) -> None:
    """One line of `--ports`: an end, and the other end where a cable is plugged in."""
    kind, _, port, guid, width, speed, *other, name, other_name = match.groups()
    _declare(fabric, guid.lower(), kind.upper() != "CA", name or "", line)
    if other[0] is not None:
        far_kind, _, far_port, far_guid = other
        _declare(fabric, far_guid.lower(), far_kind.upper() != "CA", other_name or "", line)
        ends = (guid.lower(), int(port)), (far_guid.lower(), int(far_port))
        fabric.add(*ends, _rate(width + speed), line)


def _rate(text: str) -> float | None:
    match = _RATE.search(text)
    if match:
        return int(match.group(1)) * LANE_BYTES_PER_S[match.group(2).upper()]
    return None


def _network(file: FileText, builder: NetworkBuilder, fabric: _Fabric) -> Network:
    switches = _switch_names(fabric)
    for name in switches.values():
        builder.switch(name)
    trunks: dict[tuple[int, int], list[float | None]] = {}
    skipped: Counter[str] = Counter()
    for ends, (rate, line) in fabric.cables.items():
        for key, _ in ends:
            if key not in fabric.nodes:
                raise builder.error(f"{key[:40]} is not described", line, _HINT)
        inner = [key for key, _ in ends if fabric.nodes[key].is_switch]
        if len(inner) == 2 and inner[0] != inner[1]:
            pair = sorted(builder.switches[switches[key]] for key in inner)
            trunks.setdefault((pair[0], pair[1]), []).append(rate)
        elif len(inner) == 1:
            (key,) = (key for key, _ in ends if not fabric.nodes[key].is_switch)
            owner = _host_of_adapter(fabric, key)
            if owner is None:
                skipped["SHARP aggregation node"] += 1
                continue
            builder.port(
                owner[0],
                builder.switches[switches[inner[0]]],
                line,
                bytes_per_s=_stated(rate),
                name=owner[1],
            )
        else:
            skipped["cable without a switch, or back to the same switch"] += 1
    builder.report += [f"left out: {count} x {what}" for what, count in skipped.items()]
    if not builder.hosts:
        raise builder.error("no adapter of a host is connected to a switch", None, _HINT)
    used = {port.switch for each in builder.hosts.values() for port in each}
    builder.links += list(_links(len(builder.switches), trunks, used))
    return builder.build(name=file.name, origin=ORIGIN)


def _host_of_adapter(fabric: _Fabric, key: str) -> tuple[str, str] | None:
    """A host's name, which is the first word of its adapter's description, and the adapter's.

    None for the aggregation nodes of switches (SHARP), which are no hosts.
    """
    name = fabric.nodes[key].name or key
    if "aggregation node" in name.lower():
        return None
    if _FACTORY_NAME.match(name):  # never set: all adapters of a kind have it
        return key, name.strip()
    host, _, adapter = name.strip().partition(" ")
    return host, adapter.strip()


def _switch_names(fabric: _Fabric) -> dict[str, str]:
    """What switches call themselves; with the GUID where several have the same name."""
    named = {k: n.name.strip() or k for k, n in fabric.nodes.items() if n.is_switch}
    count = Counter(named.values())
    return {key: name if count[name] == 1 else f"{name} {key}" for key, name in named.items()}


def _stated(rate: float | None) -> Quantity | None:
    """The bytes/s that the hardware states of a link, after the line code; None if not known."""
    return None if rate is None else Quantity(rate, Source.NOMINAL)


def _links(
    switches: int, trunks: dict[tuple[int, int], list[float | None]], used: Iterable[int]
) -> Iterator[NetworkLink]:
    """Cables between the same two switches as one link, from the lower switch to the upper one."""
    flat = [NetworkLink(ends=pair) for pair in trunks]
    level = switch_levels(switches, flat, set(used))
    for (a, b), rates in trunks.items():
        below, above = (a, b) if (level[a], a) <= (level[b], b) else (b, a)
        known = [rate for rate in rates if rate is not None]
        yield NetworkLink(
            ends=(below, above),
            bytes_per_s=_stated(sum(known) * len(rates) / len(known) if known else None),
            count=len(rates),
            level=max(level[a], level[b], 1),
        )
