"""The machine of a job as `tune` plans it: this node, or all nodes that the launch line may use."""

from __future__ import annotations

import json
import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from msgspec import field

from toposeat import launch, mapping, topology
from toposeat.errors import InputError, UnavailableError, UsageError
from toposeat.launch import LauncherKind, LaunchLine
from toposeat.model.cpu_list import RESERVED
from toposeat.model.few import first_few
from toposeat.model.hostlist import compress_hostlist, short_name
from toposeat.model.network import Network
from toposeat.model.plural import plural
from toposeat.model.record import Record
from toposeat.model.topology import Topology
from toposeat.pipeline.node_discovery import discovery_command, nodes_of_answers


class MachineSource(Record, frozen=True, kw_only=True):
    """What the user says of the machine: `-t`, `--node`, `--hosts`, and CPUs; None is not said."""

    topology: str | None = None
    node: str | None = None
    hosts: str | None = None
    reserved: str | None = None

    def less(self, node: Topology, more: str = "") -> Topology:
        """A node without the CPUs that are reserved, and `more`."""
        cpus = ",".join(filter(None, (self.reserved, more)))
        return mapping.with_reserved_cpus(node, cpus) if cpus else node


class JobMachine(Record, frozen=True, kw_only=True):
    """The machine of a job, what to say of it, and the devices that the line's counts leave.

    Of a machine whose devices cannot be listed, `node` is what of each host the job uses, `nodes`
    what each of them has said that it is, and `sources` says where `compare` finds the network.
    """

    machine: mapping.Machine
    words: tuple[str, ...]
    devices: tuple[int, ...] | None = None  # positions; None: all
    node: Topology | None = None
    nodes: tuple[Topology, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


def machine_of_job(
    line: LaunchLine,
    source: MachineSource,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
) -> JobMachine:
    """Find out what the job will run on.

    Without `-t`, a job on one host is this node; the nodes of any other are discovered by one
    process on each, which the job's own launcher starts. So are those below a network without
    `--node`.
    """
    allocation = launch.allocation_of(line, environment)
    is_network = source.topology is not None and topology.is_network(source.topology)
    is_plain = not is_network and source.node is None and source.hosts is None
    if is_plain and source.topology is not None:
        return _one(source.less(_own(source.topology, environment)))
    if is_plain and _is_here(line, allocation):
        return _one(source.less(_this(line, environment)))
    if source.topology is not None and not is_network:
        raise UsageError("--node and --hosts need a network", hint="name the network with -t")
    named = _named_hosts(source, allocation, environment)
    if source.node is None:
        progress("Topology  asking the nodes of the job")
        nodes = discovered_nodes(line, environment, named)
        order = allocation.hosts if allocation is not None else tuple(nodes)
        hosts = _hosts_of(named or order, nodes)
    else:
        hosts = named or _network_hosts(source)
        node = _own(source.node, environment)
        _check_one_host(node)
        nodes = dict.fromkeys(hosts, node)
    # Equal nodes are seated alike, so that what one keeps is kept on all.
    kept = {node.metadata.get(RESERVED, "") for node in nodes.values()}
    if source.reserved or len(kept) > 1:
        nodes = {host: source.less(n, ",".join(filter(None, kept))) for host, n in nodes.items()}
    hosts = _first_hosts(line, hosts)
    in_slurm = line.kind is LauncherKind.SRUN or "SLURM_JOB_NODELIST" in environment
    network = topology.network_of_hosts(source.topology, hosts, in_slurm=in_slurm)
    if source.node is None:
        network = topology.with_told_domains(network, [nodes[host] for host in hosts])
    room = {host: len(nodes[host].devices) for host in hosts}
    if sum(room.values()) > mapping.MOST_DEVICES:
        counts = _ranks_of_hosts(line, room, allocation, environment)
        return _shape(network, hosts, nodes, counts, source)
    machine = mapping.join_hosts(network, [nodes[host] for host in hosts])
    counts = _ranks_of_hosts(line, room, allocation, environment)
    alike = len(_kinds(hosts, nodes)) == 1
    shape = mapping.shape_of_network(network, nodes[hosts[0]]) if alike else None
    return JobMachine(
        machine=replace(mapping.Machine.of(machine), shape=shape),
        words=_words(network, hosts, nodes),
        devices=_devices_of_counts(machine, counts),
        nodes=tuple(nodes[host] for host in hosts) if alike and source.node is None else (),
    )


def _shape(
    network: Network,
    hosts: Sequence[str],
    nodes: Mapping[str, Topology],
    counts: Mapping[str, int],
    source: MachineSource,
) -> JobMachine:
    """Equal nodes of which the job uses equally many devices, as one large machine."""
    kinds = _kinds(hosts, nodes)
    used: dict[int, list[str]] = defaultdict(list)
    for host in hosts:
        devices = len(nodes[host].devices)
        used[min(counts.get(host, devices), devices)].append(host)
    unlike = [f"{compress_hostlist(own)} with {_devices_of(nodes[own[0]])}" for own in kinds]
    if len(kinds) == 1:
        unlike = [
            f"{count} ranks on each of {compress_hostlist(own)}" for count, own in used.items()
        ]
    if len(unlike) > 1:
        most = max(kinds if len(kinds) > 1 else list(used.values()), key=len)
        raise InputError(
            f"more than {mapping.MOST_DEVICES} devices are planned on equal nodes only, and these"
            f" differ: {first_few(unlike, 4, '; ')}",
            hint=f"tune for the equal ones: --hosts {compress_hostlist(most)}, with -N {len(most)}"
            f" and as many ranks as they take; or for at most {mapping.MOST_DEVICES} devices",
        )
    (count,) = used
    whole = nodes[hosts[0]]
    gone = frozenset(device.id for device in whole.devices[count:])
    node = topology.without_devices(whole, gone) if gone else whole
    return JobMachine(
        machine=replace(mapping.Machine.of_network(network, node), lists=None),
        words=_words(network, hosts, nodes),
        node=node,
        nodes=() if source.node is not None else tuple(nodes[host] for host in hosts),
        sources={
            "hosts": compress_hostlist(hosts),
            **({} if source.topology is None else {"source": source.topology}),
        },
    )


def _one(machine: Topology) -> JobMachine:
    devices = plural(len(machine.devices), "device")
    words = f"Topology  {machine.name}, {devices} ({machine.origin})"
    said = topology.said_of_lists(machine)
    return JobMachine(machine=mapping.Machine.of(machine), words=(words, *said))


def _own(source: str, environment: Mapping[str, str]) -> Topology:
    """The machine; of this one what is the job's."""
    return topology.part_of_job(topology.read_topology(source), source, environment)


def _this(line: LaunchLine, environment: Mapping[str, str]) -> Topology:
    hint = "to ask the nodes of the job, say on how many it runs: srun -N NODES"
    try:
        node = _own("this", environment)
    except UnavailableError as error:
        if line.kind is not LauncherKind.SRUN:
            raise
        raise UnavailableError(error.message, hint=hint) from error
    if line.kind is LauncherKind.SRUN and (line.ranks or 0) > len(node.devices):
        raise InputError(
            f"{line.ranks} ranks do not fit on the {len(node.devices)} devices of this node",
            hint=hint,
        )
    return node


def runs_here(line: LaunchLine, environment: Mapping[str, str]) -> bool:
    """Whether the job runs on this node, as far as its line and environment say."""
    return _is_here(line, launch.allocation_of(line, environment))


def _is_here(line: LaunchLine, allocation: launch.Allocation | None) -> bool:
    if allocation is None:
        return line.kind is not LauncherKind.SRUN or not line.has({"N", "nodes"})
    return [short_name(each) for each in allocation.hosts] == [short_name(socket.gethostname())]


# ---- hosts


def _named_hosts(
    source: MachineSource, allocation: launch.Allocation | None, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Hosts that the user or the job names; () where the launcher chooses them."""
    if source.hosts is not None:
        return topology.hosts_of(source.hosts, environment)
    return () if allocation is None else allocation.hosts


def _network_hosts(source: MachineSource) -> tuple[str, ...]:
    assert source.topology is not None, "a node without a network is refused"
    return topology.read_network(source.topology).host_names


def _hosts_of(wanted: Sequence[str], nodes: dict[str, Topology]) -> tuple[str, ...]:
    """The wanted hosts, each of which has answered; nodes get their names."""
    by_name = {short_name(host): node for host, node in nodes.items()}
    silent = [host for host in wanted if short_name(host) not in by_name]
    if silent:
        raise InputError(
            f"no answer from {compress_hostlist(silent)}: the nodes that answered are called"
            f" {compress_hostlist(nodes)}"
        )
    nodes.update({host: by_name[short_name(host)] for host in wanted})
    return tuple(wanted)


def _first_hosts(line: LaunchLine, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """As many hosts as the line says, the first ones of the job."""
    count = _number(line, "nodes")
    return hosts if count is None else hosts[:count]


def discovered_nodes(
    line: LaunchLine, environment: Mapping[str, str], hosts: Sequence[str]
) -> dict[str, Topology]:
    """What the nodes of a job say that they are, by host name; see `launch.node_answers`."""
    command = partial(discovery_command, named_by=line.family.named_by)
    answers = launch.node_answers(line, command, environment, hosts=hosts)
    found = nodes_of_answers(answers)
    ordered = sorted(found, key=lambda host: (len(host), host))
    return {host: found[host] for host in ordered}


def _check_one_host(node: Topology) -> None:
    if len(node.hosts) != 1:
        raise InputError(
            f"{node.name!r} has {len(node.hosts)} hosts", hint="give the topology of one node"
        )


# ---- how many ranks a host takes


def _number(line: LaunchLine, what: str) -> int | None:
    """The number behind an option of the line's table: `nodes` or `per_host`."""
    table = line.table
    text = None if table is None else line.value(getattr(table, what))
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _ranks_of_hosts(
    line: LaunchLine,
    room: Mapping[str, int],
    allocation: launch.Allocation | None,
    environment: Mapping[str, str],
) -> dict[str, int]:
    """How many ranks the line puts on each host, where it or the job says so.

    An even share is not asked of hosts that have fewer devices. `room` is the devices of each host.
    """
    line = launch.torchrun_below(line) or line  # whose ranks they are
    hosts, total = tuple(room), sum(room.values())
    each, nodes = _number(line, "per_host"), _number(line, "nodes")
    if each is not None:
        return dict.fromkeys(hosts, each)
    if nodes == len(hosts) and line.ranks is not None:
        least, more = divmod(line.ranks, nodes)
        share = {host: least + (at < more) for at, host in enumerate(hosts)}
        return share if all(room[host] >= count for host, count in share.items()) else {}
    if allocation is None or launch.oversubscribes(line, environment):
        return {}
    places = {host: allocation.slots[host] for host in hosts if host in allocation.slots}
    usable = sum(min(count, places.get(host, count)) for host, count in room.items())
    if line.ranks is not None and usable < line.ranks <= total:
        few = ", ".join(f"{host} {count}" for host, count in places.items() if count < room[host])
        raise InputError(
            f"{allocation.source} leaves places for {usable} of {line.ranks} ranks on"
            f" {total} devices ({few[:80]})",
            hint=allocation.how_to_get(len(hosts), -(-line.ranks // len(hosts))),
        )
    return places


def devices_of_job(
    machine: mapping.Machine,
    ranks: int,
    command: Sequence[str] | None,
    environment: Mapping[str, str],
) -> tuple[int, ...] | None:
    """Positions of the devices for which the scheduler's job has places, as `run` counts them.

    Args:
        machine: the hosts of the job.
        ranks: of the traffic.
        command: the line that will start them; None: srun, or mpirun outside of Slurm.
        environment: of the job.

    Returns:
        None: all of them.
    """
    if machine.topology is None:
        return None
    if command is None:
        in_slurm = "SLURM_JOB_ID" in environment
        kind = LauncherKind.SRUN if in_slurm else LauncherKind.OPENMPI
        words = ["srun" if in_slurm else "mpirun", "-n", str(ranks), "./app"]
        line = launch.parse_launch_line(words, identify=lambda _: kind)
    else:
        line = launch.parse_launch_line(command)
    room = Counter(device.host for device in machine.topology.devices)
    allocation = launch.allocation_of(line, environment)
    if allocation is not None:  # whose names may be longer or shorter
        slots = {short_name(host): count for host, count in allocation.slots.items()}
        own = {host: slots[short_name(host)] for host in room if short_name(host) in slots}
        allocation = replace(allocation, slots=own)
    counts = _ranks_of_hosts(line, room, allocation, environment)
    return _devices_of_counts(machine.topology, counts)


def _devices_of_counts(machine: Topology, counts: Mapping[str, int]) -> tuple[int, ...] | None:
    """The first devices of each host, as many as it takes ranks; None where that is all."""
    used: dict[str, int] = defaultdict(int)
    left = []
    for position, device in enumerate(machine.devices):
        used[device.host] += 1
        if used[device.host] <= counts.get(device.host, used[device.host]):
            left.append(position)
    return tuple(left) if left and len(left) < len(machine.devices) else None


# ---- what to say


def _words(
    network: Network, hosts: Sequence[str], nodes: Mapping[str, Topology]
) -> tuple[str, ...]:
    """The nodes in groups of equal ones, and the network above them."""
    kinds = _kinds(hosts, nodes)
    above = {port.switch for host in network.hosts for port in host.ports}
    switches = plural(len(above), "leaf switch") if len(above) > 1 else "1 switch"
    shown = [f"{compress_hostlist(own)}: {_devices_of(nodes[own[0]])}" for own in kinds]
    unlike = f" of {len(kinds)} kinds, kept apart" if len(kinds) > 1 else ""
    said = [
        f"Topology  {plural(len(hosts), 'node')}{unlike}, {switches}"
        f" ({network.origin}), {sum(len(nodes[host].devices) for host in hosts)} devices",
        *(f"          {each}" for each in shown[:8]),
    ]
    said += [f"          and {len(shown) - 8} more kinds"] if len(shown) > 8 else []
    domains: dict[int, list[str]] = defaultdict(list)
    for host, group in zip(
        hosts, network.domain.group_of_host if network.domain else (), strict=False
    ):
        domains[group].append(host)
    if domains:
        joined = map(compress_hostlist, domains.values())
        said.append(f"          NVLink joins {first_few(joined, 8, '; ')}")
    said += [f"          {note}" for note in network.report if note.startswith("assumed")]
    return tuple(said)


def _kinds(hosts: Sequence[str], nodes: Mapping[str, Topology]) -> list[list[str]]:
    """The hosts in groups of those whose nodes are equal."""
    kind_of = {
        id(node): _kind_of_node(node) for node in {id(n): n for n in nodes.values()}.values()
    }
    groups: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        groups[kind_of[id(nodes[host])]].append(host)
    return list(groups.values())


def _devices_of(node: Topology) -> str:
    names: dict[str, int] = defaultdict(int)
    for device in node.devices:
        names[device.name or f"{device.vendor.value} GPU"] += 1
    words = ", ".join(f"{count} x {name}" for name, count in names.items())
    hidden = len(node.hidden) + len(node.others)
    return f"{words} ({hidden} hidden)" if hidden else words


def _kind_of_node(node: Topology) -> str:
    """What equal nodes have in common: all but the names of the node and its devices."""
    document = topology.topology_document(node)
    for member in ("name", "metadata", "report"):
        document.pop(member, None)
    for member in ("devices", "nics", "components"):
        for part in document.get(member, ()):
            part.pop("uuid", None)
            part.pop("host", None)
    return json.dumps(document, sort_keys=True)
