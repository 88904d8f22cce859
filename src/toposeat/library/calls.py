"""The functions of `import toposeat`.

Where a noun goes they take what names or holds one as well (`given.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from toposeat import evaluation, launch, mapping, pipeline, report, topology
from toposeat.errors import UsageError
from toposeat.library import given
from toposeat.model import placement_file
from toposeat.model.evaluation import MappingResult
from toposeat.model.map_options import MapOptions
from toposeat.model.placement import Placement
from toposeat.model.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from toposeat.library.given import GivenPlacement, GivenTopology, GivenTraffic
    from toposeat.model.evaluation import Evaluation
    from toposeat.model.group_rate import GroupRate
    from toposeat.model.traffic import Traffic

    Path_ = str | PathLike[str]


def machine_names() -> list[str]:
    """Names of the machines of the catalogue, which `read_topology` takes."""
    return list(topology.catalogue_names())


def read_topology(
    source: GivenTopology,
    *,
    node: GivenTopology | None = None,
    hosts: str | Sequence[str] | None = None,
) -> Topology:
    """A machine: this one, one of the catalogue, of a file, or of an array of rates.

    Args:
        source: `"this"`, a name (`machine_names()`), a synthetic string such as `"tree:2:2:4"`, a
            file of any known format, several files of one machine in a list, or an array of shape
            (devices, devices) in bytes/s, row = source. With `node`: a network of hosts.
        node: what is inside each host of a network, as `source`.
        hosts: those of the network that are meant, in this order: a list of names, a hostlist such
            as `"node[1-8]"`, or `"job"`; None: all.

    Raises:
        InputError: a file that is missing, damaged or of unknown format.
        UsageError: a name that means nothing, another kind of object.
        UnavailableError: `"this"` machine has no GPU.
    """
    return given.topology_from(source, node=node, hosts=hosts)


def read_traffic(source: GivenTraffic, *, ranks: int | None = None) -> Traffic:
    """Who sends how much to whom: of a file, of a pattern, or of numbers.

    Args:
        source: a profile or another tool's file, a pattern such as `"stencil2d:4x4"`, a square
            array of bytes (row = sender), edges `[(source, target, bytes), ...]`, or a networkx
            graph whose nodes are ranks and whose weights are bytes, each way where it has no
            direction.
        ranks: how many ranks the edges are of, where some have none.

    Raises:
        InputError: a file or numbers that are no traffic.
        UsageError: neither a file nor a pattern, another kind of object.
    """
    return given.traffic_from(source, ranks)


def map_traffic(
    topology: GivenTopology, traffic: GivenTraffic, options: MapOptions | None = None
) -> MappingResult:
    """Choose a device for every rank.

    Args:
        topology: the machine, or what `read_topology` takes.
        traffic: who talks to whom, or what `read_traffic` takes.
        options: what to minimise, how to search, what to keep to.

    Returns:
        The predictions for the placement and for the default, and what is proved.

    Raises:
        UsageError: arguments that make no sense, also constraints that contradict each other.
        ToposeatError: more ranks than devices, where they may not share them.
    """
    machine, messages = given.both(topology, traffic)
    if options is not None:
        given.check_kind(options, MapOptions, "options")
    if isinstance(machine, given.JoinedHosts):
        path = pipeline.StackPath()
        return pipeline.map_on_path(machine.machine, messages, options or MapOptions(), path)
    return pipeline.map_traffic(machine, messages, options)


def evaluate(
    topology: GivenTopology,
    traffic: GivenTraffic,
    placement: GivenPlacement,
    *,
    metric: str = "bandwidth",
) -> Evaluation:
    """Predict what a placement costs.

    Args:
        topology: the machine, or what `read_topology` takes.
        traffic: who talks to whom, or what `read_traffic` takes.
        placement: a placement, its file, a result, or a position in `topology.devices` of each
            rank. Ranks may share a device.
        metric: of the pairwise cost: latency, bandwidth, distance or hybrid.

    Raises:
        UsageError: arguments that make no sense.
        InputError: a placement that does not fit the traffic and the topology.
    """
    machine, messages = given.both(topology, traffic)
    return evaluation.evaluate(machine, messages, given.placement_from(placement), metric=metric)


def group_rate(topology: GivenTopology, devices: Iterable[int], speeds: str = "exact") -> GroupRate:
    """The rate of a collective of NCCL or RCCL on some devices of one node.

    Where no source tells the processor, it is the geometric middle of the least and the most that
    families of them allow, between `low` and `high`; its rings are those of a middle one.

    Args:
        topology: the node, or what `read_topology` takes.
        devices: positions in `topology.devices`, in any order.
        speeds: `exact` (capacities as the topology has them), or `nccl` (NCCL's own numbers, to
            compare with what it logs).

    Raises:
        UsageError: arguments that make no sense.
        InputError: two devices without a route.
    """
    members = given.placement_from(devices, "devices")
    if isinstance(members, Placement):
        raise given.misplaced("devices", members)
    machine = given.topology_from(topology)
    found = evaluation.group_rate(machine, members, speeds)
    if speeds == "nccl" or found.low == found.high:
        return found
    rate = pipeline.open_machine(machine).set_rate(found.devices)
    cut = max(found.cut_bytes_per_s, rate)
    return structs.replace(found, bytes_per_s=rate, cut_bytes_per_s=cut)


def placement_of(
    result: MappingResult,
    topology: GivenTopology,
    traffic: GivenTraffic,
    *,
    traffic_name: str = "",
) -> Placement:
    """Where each rank goes: device, and as far as is known CPUs, memory node and NIC.

    Args:
        result: of `map_traffic` with this topology and this traffic.
        topology: the machine, or what `read_topology` takes.
        traffic: who talks to whom, or what `read_traffic` takes.
        traffic_name: kept in the placement for `toposeat compare`; where the traffic is given by
            name that is known.

    Raises:
        UsageError: arguments that make no sense.
    """
    given.check_kind(result, MappingResult, "result")
    machine, messages = given.both(topology, traffic)
    if result.ranks != messages.ranks:
        raise UsageError(
            f"a result for {result.ranks} ranks; the traffic has {messages.ranks}",
            hint="give the topology and the traffic that were mapped",
        )
    names = [str(each) if isinstance(each, str | Path) else "" for each in (topology, traffic)]
    joined = machine if isinstance(machine, given.JoinedHosts) else None
    return pipeline.placement_of(
        result,
        machine if joined is None else joined.machine,
        messages,
        traffic_name=traffic_name or names[1],
        machine_source=names[0] if joined is None else joined.read_from,
    )


def load_placement(path: Path_) -> Placement:
    """Read a placement file."""
    return placement_file.load_placement(_path(path))


def save_placement(placement: Placement, path: Path_, *, overwrite: bool = False) -> None:
    """Write a placement, whole or not at all, for `toposeat run -p`."""
    given.check_kind(placement, Placement, "placement")
    placement_file.save_placement(placement, _path(path), overwrite=overwrite)


def save_topology(topology: Topology, path: Path_, *, overwrite: bool = False) -> None:
    """Write a topology file, whole or not at all, which `read_topology` reads."""
    from toposeat.topology import save_topology as save  # noqa: PLC0415 - the argument hides it

    given.check_kind(topology, Topology, "topology")
    save(topology, _path(path), overwrite=overwrite)


def draw(
    topology: GivenTopology,
    traffic: GivenTraffic | None = None,
    placement: GivenPlacement | None = None,
) -> str:
    """Draw a machine, or what its links carry by default and in a placement.

    Args:
        topology: the machine, or what `read_topology` takes.
        traffic: who talks to whom, or what `read_traffic` takes; with a placement.
        placement: as for `evaluate`.

    Returns:
        The text of an SVG file.

    Raises:
        UsageError: arguments that make no sense.
        InputError: a placement that does not fit the traffic and the topology.
    """
    if (traffic is None) != (placement is None):
        raise UsageError(
            "a traffic is drawn with a placement", hint="draw(topology, traffic, placement)"
        )
    machine = given.topology_from(topology)
    if traffic is None or placement is None:
        return report.topology_svg(machine)
    messages = given.traffic_from(traffic)
    seats = given.placement_from(placement)
    if isinstance(seats, Placement):
        seats = evaluation.device_positions(seats, machine, messages.ranks)
    (result,) = mapping.assess(machine, messages, [seats])
    return report.mapping_svg(result, machine, messages)


def environment_of(placement: Placement, rank: int | None) -> dict[str, str]:
    """See `Placement.environment`."""
    mode, _ = launch.visibility_of(placement, None)
    if rank is None:
        try:
            return dict(launch.export_placement(placement, "env", visibility=mode).environment)
        except UsageError as error:
            hint = "environment(rank) has the variables of one rank"
            raise UsageError(error.message, hint=hint) from None
    if not 0 <= rank < placement.ranks:
        raise UsageError(f"there is no rank {rank}", hint=f"ranks are 0 to {placement.ranks - 1}")
    return launch.rank_environment(placement, rank, mode)


def rates_of(topology: Topology) -> NDArray[Any]:
    """See `Topology.rates`."""
    return evaluation.pair_rates(topology)


def notebook_html(noun: object) -> str:
    """A noun as a notebook shows it."""
    return report.notebook_html(noun)


def _path(path: object) -> str:
    if not isinstance(path, str | PathLike):
        raise UsageError(f"path is {path!r:.60}", hint="give the name of a file")
    return fspath(path)
