"""A network of hosts: levels from the top down, who is where, rates, doubts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from toposeat.model.few import cut
from toposeat.model.hostlist import compress_hostlist
from toposeat.model.network import INSIDE_HOSTS, Network, NetworkKind, NetworkLink
from toposeat.model.plural import plural
from toposeat.model.quantity import Quantity
from toposeat.report.parts import Fact, Part, Table, titled_list
from toposeat.report.text import PLAIN, TextStyle, height, lay_out
from toposeat.report.units import clean, format_rate, span

_MOST_SWITCHES = 40
_MOST_LEVELS = 6  # of an overview
_HOSTS_WIDTH = 60
_BESIDE_SWITCHES = 3  # lines: a blank, the header, what is left out
_AXES = "XYZW"


def render_network_text(
    network: Network, style: TextStyle = PLAIN, *, lines: int | None = None
) -> str:
    """The network as text; `lines` are the most that there should be, sources apart; None: all."""
    return lay_out(network_parts(network, lines=lines), style)


def network_words(network: Network) -> str:
    """`fattree:8:4:8: 32 hosts on 12 switches, tree`."""
    kind = {"graph": "graph of switches"}.get(network.kind.value, network.kind.value)
    on = f"{plural(len(network.hosts), 'host')} on {plural(len(network.switches), 'switch')}"
    return f"{clean(network.name)}: {on}, {kind}"


def rate_lines(network: Network) -> list[str]:
    """What host ports and the links of each level carry, a line each."""
    return [f"{name}: {cables} x {rate}" for name, _, cables, rate in _rates(network)]


def network_parts(network: Network, *, lines: int | None = None) -> list[Part]:
    """What there is to say of a network; `lines` as in `render_network_text`."""
    words = network_words(network)
    parts: list[Part] = [Fact("Network", words), Fact("Origin", clean(network.origin))]
    if network.description:
        parts.append(Fact("", clean(network.description)))
    if network.devices_per_host is not None:
        parts.append(Fact("Devices", f"{network.devices_per_host} per host"))
    if network.levels or network.own_fabrics:
        levels = _levels(network)
        shown = levels if lines is None else levels[:_MOST_LEVELS]
        parts += ["", Table(("level", "groups", "hosts in each"), shown, right=(1,))]
        if len(levels) > len(shown):
            parts.append(f"and {len(levels) - len(shown)} more levels")
    rates = ("links", "number", "cables", "rate each")
    parts += ["", Table(rates, _rates(network), right=(1, 2))]
    doubts = ["", *titled_list("Doubts", network.report)] if network.report else []
    most, width = _MOST_SWITCHES, 4 * _HOSTS_WIDTH
    if lines is not None:
        room = lines - height([*parts, *doubts]) - _BESIDE_SWITCHES
        most, width = max(1, min(most, room)), _HOSTS_WIDTH
    rows = _switches(network, most, width)
    parts += ["", Table(("switch", "hosts", "which"), rows, right=(1,), fold=(2,))]
    hidden = len(network.hosts_of_switch()) - len(rows)
    if hidden > 0:
        parts.append(f"and {hidden} more switches with hosts (--json has them all)")
    if network.sources and lines is None:
        parts += ["", *titled_list("Sources", network.sources)]
    return [*parts, *doubts]


def _levels(network: Network) -> list[list[str]]:
    rows = []
    for level in (*network.levels, *network.own_fabrics):
        sizes = sorted(Counter(level.group_of_host).values())
        rows.append([level.name, str(level.groups), span(str(sizes[0]), str(sizes[-1]))])
    return rows


def _rates(network: Network) -> list[list[str]]:
    ports = [port.bytes_per_s for host in network.hosts for port in host.ports]
    rows = [["host ports", str(len(ports)), str(len(ports)), _range(ports)]]
    torus = network.kind is NetworkKind.TORUS

    def name(level: int) -> str:
        if level == INSIDE_HOSTS:
            return "inside hosts"
        return f"along {_AXES[level - 1]}" if torus and level <= len(_AXES) else f"level {level}"

    by_level: dict[int, list[NetworkLink]] = defaultdict(list)
    for link in network.links:
        by_level[link.level].append(link)
    for level, links in sorted(by_level.items()):
        cables = sum(link.count for link in links)
        rates = [link.bytes_per_s for link in links]
        words = "no limit" if level == INSIDE_HOSTS else _range(rates)
        rows.append([name(level), str(len(links)), str(cables), words])
    return rows


def _range(rates: Sequence[Quantity | None]) -> str:
    known = sorted({rate.value for rate in rates if rate is not None})
    if not known:
        return "not stated"
    words = span(format_rate(known[0]), format_rate(known[-1]))
    unknown = sum(rate is None for rate in rates)
    return words + (f", {unknown} not stated" if unknown else "")


def _switches(network: Network, most: int, width: int) -> list[list[str]]:
    hosts: dict[int, list[str]] = defaultdict(list)
    for host in network.hosts:
        for switch in dict.fromkeys(port.switch for port in host.ports):
            hosts[switch].append(host.name)
    rows = []
    for switch, names in list(hosts.items())[:most]:
        listed = compress_hostlist(names)
        rows.append([network.switches[switch], str(len(names)), cut(listed, width)])
    return rows
