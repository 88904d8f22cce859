"""A network of hosts and what is inside each of them, as the core's machine for large jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial

import numpy as np

from toposeat import _core
from toposeat.errors import InputError, UsageError
from toposeat.evaluation import network_arrays, walk
from toposeat.mapping.fabric import Fabric, domains_of, tray_of
from toposeat.mapping.host_groups import groups_of_network
from toposeat.mapping.link_levels import Level, LinkLevels
from toposeat.mapping.node_links import NodeLinks
from toposeat.mapping.shapes import MAX_SLOTS, Shape
from toposeat.model.evaluation import HostGroup
from toposeat.model.network import INSIDE_HOSTS, Network, NetworkHost, NetworkKind, NetworkLink
from toposeat.model.nics import choose_nics
from toposeat.model.record import Record
from toposeat.model.topology import Link, LinkKind, PathClass, Route, Topology

PORT_BYTES_PER_S = 25e9  # an adapter of 200 Gb/s


def shape_of_network(network: Network, node: Topology) -> Shape:
    """Describe a machine of equal hosts that a network joins.

    Of a node with several hosts, which are trays on one NVSwitch fabric, each host is one tray.
    Each device leaves its host through its nearest adapter. Adapters are dealt out to the ports
    that the network lists; where it lists none, each adapter has one port. A rate that the source
    does not state is that of `Network.rates`. Without one, an adapter has the rate that the node
    states, else 25 GB/s, and the uplinks of a switch carry all that enters it from below. The notes
    say what was assumed.
    """
    machine_of_node, node = node, tray_of(node)
    _check(network, node)
    fabric = Fabric.of(node)
    domains, said = domains_of(network, machine_of_node, fabric)
    plan = _Plan.of(network, node)
    try:
        machine = _core.LargeMachine.cluster(
            _node_model(node, plan, fabric if domains else None),
            switches=len(network.switches),
            links=_directed(network, plan),
            spread=network.spread,
            ports=plan.ports,
            attached=[port for ports in plan.attached for port in ports],
            port_bandwidth=[rate for rates in plan.port_rates for rate in rates],
            port_latency=network.rates.latencies_s[0],
            hosts=list(network.host_names),
            levels=[list(level.group_of_host) for level in network.levels],
            domain=list(domains),
        )
    except ValueError as error:  # what only the core checks
        raise InputError(f"network {network.name}: {error}", hint="use fewer hosts") from error
    devices = len(node.devices)
    return Shape(
        text=f"{network.name} of {node.name}",
        machine=machine,
        slots_per_host=devices,
        hosts=network.host_names,
        words=f"{len(network.hosts)} hosts of {devices} devices ({node.name})"
        f" on {len(network.switches)} switches",
        link_levels=partial(_link_levels, network, node, plan.ports),
        host_groups=partial(groups_of_network, network, plan.ports),
        node=node,
        nic_of_device=_numbered(plan.nic_of_device),
        domain_of_host=domains,
        fabric=fabric if domains else None,
        rails_apart=_rails_apart(network, node),
        notes=(*network.report, *plan.assumed, *said),
    )


def stages_of_network(
    network: Network,
) -> tuple[tuple[tuple[HostGroup, ...], ...], tuple[str, ...]]:
    """Groups of near hosts with what leads out of them, the smallest first; what was assumed.

    Nothing is known of what is inside a host: rates that the source does not state are assumed as
    by `shape_of_network`. No group where the hosts are too many to draw.
    """
    plan = _Plan.of(network, Topology(origin="", devices=()))
    rates = [*plan.link_rates, *(rate for rates in plan.port_rates for rate in rates)]
    stages = groups_of_network(network, plan.ports).nouns(np.repeat(np.array(rates), 2))
    return stages, plan.assumed


def _rails_apart(network: Network, node: Topology) -> str:
    if not any(link.level == INSIDE_HOSTS for link in network.links):
        return ""
    ids = [device.id for device in node.devices]
    routes = (node.route_of_pair.get((a, b)) for a in ids for b in ids if a != b)
    is_nvlink = (route is not None and route.path_class is PathClass.NVL for route in routes)
    return "forwarded" if all(is_nvlink) else "refused"  # NCCL's PXN goes over NVLink


def _check(network: Network, node: Topology) -> None:
    stated = network.devices_per_host
    if stated is not None and stated != len(node.devices):
        raise UsageError(
            f"{network.name!r} has {stated} devices per node, {node.name!r} has"
            f" {len(node.devices)}",
            hint="give the same number in both",
        )
    adapters = adapters_of(ways_out(node)) if network.rails else []
    if adapters and len(adapters) != network.rails:
        raise UsageError(
            f"{node.name!r} has {len(adapters)} NICs, the network {network.rails} rails",
            hint=f"rails={len(adapters)}",
        )
    if len(network.hosts) * len(node.devices) > MAX_SLOTS:
        raise UsageError(f"more than {MAX_SLOTS} slots", hint="name the hosts of the job: --hosts")


class _Plan(Record, frozen=True):
    """The adapter, port and rate of each device and host, and what was assumed for them."""

    nic_of_device: tuple[Route | None, ...]
    port_of_device: tuple[int, ...]
    ports: int
    attached: list[list[int]]  # switch, by host and port
    port_rates: list[list[float]]
    link_rates: list[float]
    assumed: tuple[str, ...]

    @staticmethod
    def of(network: Network, node: Topology) -> _Plan:
        routes = ways_out(node)
        adapters = adapters_of(routes)
        plain = all(len(h.ports) == 1 and not h.ports[0].name for h in network.hosts)
        whole = network.rates.whole_host
        most = max(len(host.ports) for host in network.hosts)
        ports = (1 if whole else max(1, len(adapters))) if plain else most
        assumed: list[str] = []
        own = adapter_rates(node, adapters, whole=whole)
        attached, rates = [], []
        for host in network.hosts:
            attached.append([host.ports[p % len(host.ports)].switch for p in range(ports)])
            rates.append(port_rates(network, host, ports, own, shared=not plain))
        unstated = any(port.bytes_per_s is None for host in network.hosts for port in host.ports)
        if unstated and not network.rates.bandwidths_bytes_per_s:
            what = "host" if whole else "adapter port"
            assumed.append(
                f"the source does not state the rate per {what}: it is the node's own, "
                + " or ".join(f"{rate / 1e9:g} GB/s" for rate in sorted(set(own)))
                if own
                else f"assumed: 25 GB/s per {what}, which the source does not state"
            )
        links, guessed = link_rates(network, rates)
        if guessed:
            assumed.append(
                "assumed: uplinks of a switch carry all that is below it"
                + (f", divided by {network.rates.taper:g}" if network.rates.taper != 1 else "")
            )
        return _Plan(
            nic_of_device=routes,
            port_of_device=ports_of_devices(routes, ports),
            ports=ports,
            attached=attached,
            port_rates=rates,
            link_rates=links,
            assumed=tuple(assumed),
        )


def ways_out(node: Topology) -> tuple[Route | None, ...]:
    """For each device the route to its adapter."""
    chosen = choose_nics(node).nic_of_device
    return tuple(
        node.route_of_pair[device.id, chosen[device.id].id] if device.id in chosen else None
        for device in node.devices
    )


def ports_of_devices(routes: Sequence[Route | None], ports: int) -> tuple[int, ...]:
    """The port of each device, of its way out: adapter k has port k, of as many as there are.

    On a node whose adapters are not known, device k has port k.
    """
    number = {nic: at for at, nic in enumerate(adapters_of(routes))}
    return tuple(
        (number[route.target] if route is not None else 0 if number else at) % ports
        for at, route in enumerate(routes)
    )


def adapters_of(routes: Sequence[Route | None]) -> list[str]:
    """The adapters of the ways out, in the order of devices."""
    return list(dict.fromkeys(route.target for route in routes if route is not None))


def adapter_rates(node: Topology, adapters: Sequence[str], *, whole: bool) -> list[float]:
    """Bytes per second of each adapter, or with `whole` their sum; empty if one is not stated."""
    found = {nic.id: nic.bytes_per_s for nic in node.nics}
    rates = [rate.value for nic in adapters if (rate := found[nic]) is not None]
    if not rates or len(rates) < len(adapters):
        return []
    return [sum(rates)] if whole else rates


def port_rates(
    network: Network, host: NetworkHost, ports: int, own: Sequence[float], *, shared: bool
) -> list[float]:
    """Bytes per second of each port; with `shared`, a listed port is divided among its users."""
    stated = network.rates.bandwidths_bytes_per_s[:1] or own or (PORT_BYTES_PER_S,)
    rates = []
    for port in range(ports):
        here = host.ports[port % len(host.ports)]
        default = stated[port % len(stated)]
        rate = here.bytes_per_s.value if here.bytes_per_s is not None else default
        sharing = len(range(port % len(host.ports), ports, len(host.ports)))
        rates.append(rate / sharing if shared else rate)
    return rates


def link_rates(network: Network, port_rates: list[list[float]]) -> tuple[list[float], bool]:
    """Bytes per second of each link, and whether some are assumed."""
    given = network.rates.bandwidths_bytes_per_s[1:]
    below = _carried(network, port_rates)
    uplinks = _uplinks(network)
    flat = max(sum(rates) for rates in port_rates)
    rates, guessed = [], False
    for link in network.links:
        if link.bytes_per_s is not None:
            rates.append(link.bytes_per_s.value)
        elif link.level <= len(given):
            rates.append(given[link.level - 1])
        elif network.kind is NetworkKind.TORUS:
            rates.append(given[-1] if given else flat)
            guessed = guessed or not given
        else:
            guessed = True
            carried = below.get(link.ends[0], flat) or flat
            rates.append(carried / uplinks[link.ends[0]] / network.rates.taper)
    return rates, guessed


def _carried(network: Network, port_rates: list[list[float]]) -> dict[int, float]:
    """Bytes per second that enter each switch from below, tapered like its uplinks."""
    carried: dict[int, float] = defaultdict(float)
    for host, rates in zip(network.hosts, port_rates, strict=True):
        for port, rate in enumerate(rates):
            carried[host.ports[port % len(host.ports)].switch] += rate
    uplinks = _uplinks(network)
    given = network.rates.bandwidths_bytes_per_s[1:]
    for link in sorted(network.links, key=_by_level):
        below, above = link.ends
        if link.level == INSIDE_HOSTS:
            continue
        if link.bytes_per_s is not None:
            carried[above] += link.bytes_per_s.value
        elif link.level <= len(given):
            carried[above] += given[link.level - 1]
        else:
            carried[above] += carried[below] / uplinks[below] / network.rates.taper
    return carried


def _uplinks(network: Network) -> Counter[int]:
    """How many uplinks each switch has."""
    return Counter(link.ends[0] for link in network.links if link.level != INSIDE_HOSTS)


def _by_level(link: NetworkLink) -> int:
    return link.level


def _directed(network: Network, plan: _Plan) -> list[_core.SwitchLink]:
    """Both directions of every link; the names say where they lead."""
    _, hop = network.rates.latencies_s
    links = []
    for link, rate in zip(network.links, plan.link_rates, strict=True):
        for here, there in (link.ends, link.ends[::-1]):
            links.append(
                _core.SwitchLink(
                    here,
                    there,
                    bandwidth=rate,
                    latency=hop if link.latency_s is None else link.latency_s.value,
                    weight=link.weight,
                    name=f"{network.switches[here]} -> {network.switches[there]}",
                )
            )
    return links


def _link_levels(network: Network, node: Topology, ports: int) -> LinkLevels:
    """Levels in the core's order of links: of switches, of host ports, inside each host."""
    names = _level_names(network)
    cables = [Level(name=names[link.level]) for link in network.links for _ in range(2)]
    adapters = Level(name="host ports", kind=LinkKind.NIC)
    inside = []
    for link in node.links:
        within = partial(Level, name=f"{link.kind.value} in hosts", kind=link.kind)
        inside += [within(), within()]
        inside += [] if link.combined_bytes_per_s is None else [within(is_hop=False)]
    hosts = len(network.hosts)
    return LinkLevels.of_runs([(cables, 1), ([adapters], 2 * hosts * ports), (inside, hosts)])


def _level_names(network: Network) -> dict[int, str]:
    """The name of the links of each level, by the kind of the network."""
    levels = sorted({link.level for link in network.links})
    if network.kind is NetworkKind.TORUS and levels and levels[-1] <= len("XYZW"):
        return {level: f"{'XYZW'[level - 1]} links" for level in levels}
    if network.kind is NetworkKind.DRAGONFLY:
        named = {1: "local links", 2: "global links"}
        return {level: named.get(level, f"level {level} links") for level in levels}
    known = {INSIDE_HOSTS: "between rails", 1: "leaf uplinks"}
    return {level: known.get(level, f"level {level} uplinks") for level in levels}


def _numbered(routes: Sequence[Route | None]) -> tuple[int, ...]:
    """The adapter of each device, by number; a device without one is an adapter of its own."""
    number: dict[str, int] = {}
    return tuple(
        number.setdefault(f"alone {at}" if route is None else route.target, len(number))
        for at, route in enumerate(routes)
    )


def _node_model(node: Topology, plan: _Plan, fabric: Fabric | None) -> _core.NodeModel:
    arrays = network_arrays(node)
    n = len(node.devices)
    rate = arrays.isolated_rate().reshape(n, n)
    np.fill_diagonal(rate, np.inf)
    pace = 1 / rate
    cost = (pace + pace.T) / 2
    links = NodeLinks.of(node)
    within = [
        []
        if a.id == b.id
        else links.used(list(walk(node.link_of_id, node.route_of_pair[a.id, b.id])))
        for a in node.devices
        for b in node.devices
    ]
    out = [[] if r is None else list(walk(node.link_of_id, r)) for r in plan.nic_of_device]
    latency = arrays.latency().reshape(n, n)
    np.fill_diagonal(latency, 0)
    return _core.NodeModel(
        cost=cost.ravel().tolist(),
        latency=latency.ravel().tolist(),
        pace=pace.ravel().tolist(),
        within=within,
        out=[links.used(steps) for steps in out],
        into=[links.used([(link, not back) for link, back in steps[::-1]]) for steps in out],
        port=list(plan.port_of_device),
        exit_cost=[
            _exit_pace(route, steps) / 2
            for route, steps in zip(plan.nic_of_device, out, strict=True)
        ],
        exit_latency=[sum(link.latency_s.value for link, _ in steps) for steps in out],
        bandwidth=links.bandwidth,
        names=links.names,
        to_fabric=() if fabric is None else fabric.to_switch,
        from_fabric=() if fabric is None else fabric.from_switch,
        fabric=(0, 0, 0) if fabric is None else (fabric.cost, fabric.latency, fabric.pace),
    )


def _exit_pace(route: Route | None, steps: list[tuple[Link, bool]]) -> float:
    """Seconds per byte of a single flow between a device and its adapter."""
    if route is None:
        return 0.0
    rates = [
        (link.backward_bytes_per_s if back else link.forward_bytes_per_s).value
        for link, back in steps
    ]
    if route.cap_bytes_per_s is not None:
        rates.append(route.cap_bytes_per_s.value)
    least = min(rates)
    if not least > 0:
        raise InputError(
            f"device {route.source} cannot reach adapter {route.target}: a link is down",
            hint="correct the node's topology",
        )
    return 1 / least
