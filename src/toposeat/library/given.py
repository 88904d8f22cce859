"""What stands where a noun goes: names, paths, arrays and lists become nouns here, nowhere else."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposeat import mapping, profile, topology
from toposeat.errors import InputError, ToposeatError, UsageError
from toposeat.model.evaluation import Evaluation, MappingResult
from toposeat.model.placement import Placement
from toposeat.model.placement_file import load_placement
from toposeat.model.shell_words import joined_sources
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from toposeat.model.network import Network

    Source = str | PathLike[str]
    GivenTopology = Topology | Source | Sequence[Source] | ArrayLike
    GivenTraffic = Traffic | Source | ArrayLike | Sequence[tuple[float, ...]]
    GivenPlacement = (
        Placement | MappingResult | Evaluation | Source | Iterable[int] | Mapping[int, int]
    )

_FORMS = {
    "topology": "a Topology, a catalogue name, a file, or a square array of bytes/s",
    "traffic": 'a Traffic, a pattern such as "stencil2d:4x4", a file, a square array of bytes (row'
    " = sender), edges [(source, target, bytes), ...], or a networkx graph whose weights are bytes",
    "placement": "a Placement, a MappingResult, a placement file, or a list with a position in"
    " topology.devices for each rank",
    "devices": "positions in topology.devices, such as [0, 1, 2, 3]",
}
_NOUNS = (Topology, Traffic, Placement, MappingResult, Evaluation)


class JoinedHosts(Topology, frozen=True, kw_only=True):
    """Hosts that a network joins: all their devices, and what the search over hosts knows besides.

    `read_from` names what was read, as a placement keeps it.
    """

    machine: mapping.Machine
    read_from: Mapping[str, str]


def topology_from(
    given: Any, *, node: object = None, hosts: str | Sequence[str] | None = None
) -> Topology:
    """The topology that somebody means; for `node` and `hosts` see `calls.read_topology`."""
    if node is not None or hosts is not None:
        return _joined(given, node, hosts)
    if isinstance(given, Topology):
        return given
    if isinstance(given, str | PathLike):
        source = _source(given)
        try:
            return _of_job(topology.read_topology(source), [source])
        except UsageError:
            if _means(source) == "traffic":
                raise misplaced("topology", source) from None
            raise
    if isinstance(given, list | tuple) and given and all(_is_source(each) for each in given):
        sources = [_source(each) for each in given]
        return _of_job(topology.read_topologies(sources), sources)
    if _is_array(given):
        return topology.topology_of_rates(given)
    raise misplaced("topology", given)


def _of_job(machine: Topology, sources: Sequence[str | Path]) -> Topology:
    """What a job may use of the machine that the sources tell of."""
    named = joined_sources([each for each in sources if isinstance(each, str)] or [""])
    return topology.part_of_job(machine, named, os.environ)


def traffic_from(given: object, ranks: int | None = None) -> Traffic:
    """The traffic that somebody means; `ranks` only beside edges."""
    if not isinstance(ranks, int | None):
        raise UsageError(f"ranks is {_kind(ranks)}", hint="give the number of ranks, such as 8")
    if isinstance(given, str | PathLike) and ranks is None:
        source = _source(given)
        try:
            return profile.read_traffic(source)
        except ToposeatError:
            if _means(source) == "topology":
                raise misplaced("traffic", source) from None
            raise
    if isinstance(given, Traffic) and ranks is None:
        return given
    if hasattr(given, "is_directed") and hasattr(given, "edges"):
        given, ranks = _edges_of_graph(given), ranks or len(given)
    if isinstance(given, list | tuple) and all(isinstance(each, tuple) for each in given):
        return profile.traffic_of_edges(given, ranks)
    if ranks is not None:
        raise UsageError("ranks= is given beside what has ranks", hint="give it with edges only")
    if _is_array(given):
        return profile.traffic_of_array(given)
    raise misplaced("traffic", given)


def _edges_of_graph(graph: Any) -> list[tuple[float, ...]]:
    """The edges of a graph of networkx, whose nodes are ranks and whose weights are bytes."""
    if set(graph) != set(range(len(graph))):
        raise UsageError(
            "the nodes of the graph are not the ranks 0, 1, 2, ...",
            hint="networkx.convert_node_labels_to_integers(graph) numbers them",
        )
    edges = [(*ends, size) for *ends, size in graph.edges(data="weight")]
    if any(size is None for *_, size in edges):
        raise UsageError("an edge of the graph has no weight", hint="weight= is its bytes")
    both_ways = [] if graph.is_directed() else [(to, of, size) for of, to, size in edges]
    return edges + both_ways


def placement_from(given: object, role: str = "placement") -> Placement | tuple[int, ...]:
    """The placement that somebody means, or positions in `Topology.devices` for each rank."""
    if isinstance(given, Placement):
        return given
    if isinstance(given, MappingResult | Evaluation):
        return given.device_of_rank
    if isinstance(given, str | PathLike) and not _means(given):
        return load_placement(fspath(given))
    if isinstance(given, Iterable) and not isinstance(given, str | PathLike | Set):
        try:
            if isinstance(given, Mapping):  # device by rank
                given = [given[rank] for rank in range(len(given))]
            return tuple(map(operator.index, given))
        except (KeyError, TypeError):
            pass
    raise misplaced(role, given)


def check_kind(given: object, expected: type, role: str) -> None:
    """Refuse what is not of the kind that a call needs.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(given, expected):
        raise UsageError(
            f"{role} is {_kind(given)}, not {_a(expected.__name__)}",
            hint=f"toposeat.{_MAKER[expected.__name__]} makes one",
        )


_MAKER = {
    "MappingResult": "map_traffic",
    "MapOptions": "MapOptions",
    "Placement": "placement_of",
    "Topology": "read_topology",
}


def _joined(given: object, node: object, hosts: str | Sequence[str] | None) -> Topology:
    """Hosts that a network joins, with all their devices."""
    if node is None:
        raise UsageError("hosts= needs node=", hint="say what is in each host: node='hgx-h100'")
    if not isinstance(given, str | PathLike):
        raise UsageError(f"{_kind(given)} is no network", hint="give a file, or a shape's name")
    if not isinstance(hosts, str | list | tuple | None) or not all(map(_is_source, hosts or ())):
        raise UsageError(f"hosts is {_kind(hosts)}", hint='give "node[1-8]", or a list of names')
    network: Network = topology.read_network(fspath(given))
    if hosts is not None:
        names = topology.hosts_of(hosts) if isinstance(hosts, str) else tuple(hosts)
        network = topology.allocated(network, names)
    machine = mapping.Machine.of_network(network, topology_from(node))
    if machine.topology is None:
        raise UsageError(
            f"{machine.name} has too many devices to list (at most {mapping.MOST_DEVICES})",
            hint="name fewer hosts with hosts=; the command line takes any number",
        )
    listed = hosts if hosts is None or isinstance(hosts, str) else ",".join(hosts)
    named = {"source": given, "node": node, "hosts": listed}
    return JoinedHosts(
        **{name: getattr(machine.topology, name) for name in Topology.__dataclass_fields__},
        machine=machine,
        read_from={name: str(each) for name, each in named.items() if _is_source(each)},
    )


def _source(given: str | PathLike[str]) -> str | Path:
    return given if isinstance(given, str) else Path(given)


def _is_source(given: object) -> bool:
    return isinstance(given, str | PathLike)


def _is_array(given: Any) -> bool:
    """Whether it has rows: an array, a list of lists, a data frame."""
    if isinstance(given, (*_NOUNS, str, bytes)):
        return False
    return hasattr(given, "__array__") or isinstance(given, list | tuple)


def _is_pattern(text: str) -> bool:
    try:
        profile.pattern_traffic(text)
    except (UsageError, InputError):
        return False
    return True


def both(topology: object, traffic: object) -> tuple[Topology, Traffic]:
    """The topology and the traffic that somebody means.

    Raises:
        UsageError: the two are swapped, or are something else.
    """
    if (_means(topology), _means(traffic)) == ("traffic", "topology"):
        raise UsageError("topology and traffic are swapped", hint="the topology comes first")
    return topology_from(topology), traffic_from(traffic)


def misplaced(role: str, given: object) -> UsageError:
    """For an argument that is something else."""
    return UsageError(f"{role} is {_kind(given)}", hint=f"give {_FORMS[role]}")


def _means(given: object) -> str:
    """The argument that something is good for; "" if for none."""
    if isinstance(given, Topology):
        return "topology"
    if isinstance(given, Traffic):
        return "traffic"
    if isinstance(given, str):
        if topology.machine_path(given):
            return "topology"
        return "traffic" if _is_pattern(given) else ""
    return "placement" if isinstance(given, _NOUNS) else ""


def _kind(given: Any) -> str:
    """`a Traffic`, `the int 3`, `None`."""
    name = type(given).__name__
    if given is None or isinstance(given, str):
        return f"{given!r:.60}"
    return f"the {name} {given!r}" if isinstance(given, int | float) else _a(name)


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
