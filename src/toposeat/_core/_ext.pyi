"""Compiled core of toposeat. Private: use toposeat._core."""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


class Network:
    """
    Devices, link capacities and routes as numbers; immutable.

    Directed pair (i, j) of devices is entry i * devices + j of `route_begin` (one entry more than
    pairs), `cap` and `latency`. Capacities and caps are bytes per second and may be infinite,
    latencies are seconds per message. `route_reverse` says that a link is walked backwards.
    Pairs with one number in `limit_of_pair` share that entry of `pair_limits`; a pair with a number
    in `curve_of_pair` has that list of (bytes, seconds, bytes per second); -1: none.

    Raises:
        ValueError: if sizes, numbers or indices do not fit together.
    """

    def __init__(self, *, devices: int, forward: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], backward: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], combined: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], route_begin: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], route_link: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], route_reverse: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], cap: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], latency: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], pair_limits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, limit_of_pair: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, curves: Sequence[Sequence[tuple[float, float, float]]] = [], curve_of_pair: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None: ...

    @property
    def devices(self) -> int: ...

    @property
    def links(self) -> int:
        """Number of links."""

class RankTraffic:
    """
    Bytes and messages of directed rank pairs, each pair at most once; immutable.

    `sizes` says how message sizes spread about their flow's mean: (factor, share of messages).
    For `rounds` of the messages their sender waits before it goes on to another rank; None: for none.

    Raises:
        ValueError: on a rank out of range, a pair twice, a rank to itself, or a number that is
            negative or not finite.
    """

    def __init__(self, *, ranks: int, source: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], target: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], messages: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Sequence[tuple[float, float]] = [(1.0, 1.0)], rounds: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None: ...

    @property
    def ranks(self) -> int: ...

    def __len__(self) -> int: ...

def shortest_routes(n_vertices: int, links: Sequence[tuple[int, int, float, float]], forwards: Sequence[bool], sources: Sequence[int], targets: Sequence[int]) -> list[list[list[int]]]:
    """
    Least-latency routes, as link numbers in order, for every source and target.

    `links` holds (vertex, vertex, latency in seconds, bandwidth). Ties go to fewer links, then to
    the higher bottleneck bandwidth, then to smaller link numbers; a route back is the route out
    reversed. Vertices that do not forward are never passed through, but may be ends.

    Returns:
        routes[i][j] from sources[i] to targets[j]; empty if there is none or both are one vertex.

    Raises:
        ValueError: on a vertex that does not exist, a link from a vertex to itself, a latency
            outside 0..1000 s or a bandwidth that is not greater than zero.
    """

class Congestion:
    """Result of congestion(); arrays have one entry per link."""

    @property
    def max_s(self) -> float: ...

    @property
    def mean_s(self) -> float:
        """Over the links that some route uses."""

    @property
    def hop_bytes(self) -> float: ...

    @property
    def seconds(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def forward_bytes(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def backward_bytes(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

class FlowTimes:
    """Result of flow_times()."""

    @property
    def seconds(self) -> float: ...

    @property
    def finish_s(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """One per flow, in the order of the traffic."""

    @property
    def start_s(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """When each flow has paid its latency, and begins to move bytes."""

    @property
    def waiting_rank(self) -> int | None:
        """The rank whose rounds take longer than all flows; None if none do."""

    @property
    def last_flow(self) -> int | None:
        """The first flow that finishes last; None without flows."""

    @property
    def bottleneck(self) -> int | None:
        """
        Link that limited it at its end; None if its pair's cap or latency did.
        """

def congestion(network: Network, traffic: RankTraffic, device_of_rank: Sequence[int]) -> Congestion:
    """
    Bytes and congestion of every link under an assignment.

    Raises:
        ValueError: unless device_of_rank names a device for each rank.
    """

def flow_time(network: Network, traffic: RankTraffic, device_of_rank: Sequence[int]) -> float:
    """
    Seconds until the last flow of a phase finishes under max-min fair sharing.

    All flows are issued together; each moves bytes after messages x latency of its pair. Rounds
    are a floor: no rank is done before it has waited for all of its own.
    core/include/toposeat/flow/flow.hpp states the model.

    Raises:
        ValueError: unless device_of_rank names a device for each rank.
    """

def flow_time_each(network: Network, traffic: RankTraffic, placements: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """
    flow_time of each row of a (placements, ranks) array.

    Raises:
        ValueError: unless each row names a device for each rank.
    """

def max_congestion_each(network: Network, traffic: RankTraffic, placements: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """
    Highest congestion of a link for each row of a (placements, ranks) array.

    Raises:
        ValueError: unless each row names a device for each rank.
    """

def figures_each(network: Network, traffic: RankTraffic, cost: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], assignments: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]:
    """
    All figures of each row of a (placements, ranks) array, as a (placements, 5) array.

    The columns: maximum and mean congestion in seconds, hop-bytes, the sum of bytes x cost (a
    devices x devices array), and seconds until the last flow finishes.

    Raises:
        ValueError: unless each row names a device for each rank, and `cost` has a row and a
            column for each device.
    """

def schedule_times(network: Network, phases: Sequence[RankTraffic], repeats: int, device_of_rank: Sequence[int], barrier: bool) -> tuple[float, Annotated[NDArray[numpy.float64], dict(shape=(None,))]]:
    """
    Seconds until the last flow of a schedule finishes, and until each phase of each repeat does.

    With `barrier`, a phase begins when the one before it is done; without, a rank goes on when all
    its own flows are. core/include/toposeat/flow/schedule.hpp states the model.

    Raises:
        ValueError: unless device_of_rank names a device for each rank, phases have the same ranks,
            and there are at most 2^22 flows over all repeats.
    """

def flow_times(network: Network, traffic: RankTraffic, device_of_rank: Sequence[int]) -> FlowTimes:
    """
    As flow_time, with start and finish of each flow and what limited the last one.

    Raises:
        ValueError: unless device_of_rank names a device for each rank.
    """

class MapAnswer:
    """Result of map_ranks()."""

    @property
    def device_of_rank(self) -> list[int]: ...

    @property
    def value(self) -> float:
        """Of the objective asked for."""

    @property
    def lower_bound(self) -> float | None:
        """No placement has less; None if not known."""

    @property
    def proved(self) -> bool:
        """Value and lower bound agree within 1e-9."""

    @property
    def kept_default(self) -> bool: ...

    @property
    def uniform(self) -> bool:
        """All placements are equally good."""

    @property
    def interrupted(self) -> bool:
        """The search was stopped by SIGINT."""

    @property
    def solver(self) -> str: ...

    @property
    def notes(self) -> list[str]: ...

class MapRequest:
    """
    What is asked of a mapper; immutable.

    `cost` is devices x devices, what a byte between two devices costs, with the cost of a copy
    within a device on the diagonal; `message_cost` the same for a message, or None. `devices` lists
    those that may be used, in default order (none: all), `slots` how many ranks each takes (none: one);
    `pins` holds (rank, device) pairs, `allowed` for each rank its devices (an empty list: all), `hosts`
    the number of the host of every device (none: one host).
    Objectives: cost, congestion, time. Solvers: auto, exact, search, default, random.

    Raises:
        ValueError: on an unknown name, a rank that does not exist, or a cost that is not square.
    """

    def __init__(self, network: Network, traffic: RankTraffic, cost: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], *, message_cost: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, devices: Sequence[int] = [], pins: Sequence[tuple[int, int]] = [], slots: Sequence[int] = [], allowed: Sequence[Sequence[int]] = [], hosts: Sequence[int] = [], objective: str = 'time', solver: str = 'auto', budget_s: float = 1.0, seed: int = 1) -> None: ...

class Symmetry:
    """Permutations that keep a square table and, with it, a network."""

    def __init__(self, colours: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], network: Network | None = None) -> None: ...

    def representatives(self, fixed: Sequence[int], candidates: Sequence[int]) -> list[int]:
        """
        Candidates, in order, but those that a symmetry which fixes `fixed` maps an earlier to.
        """

def map_ranks(request: MapRequest, *, interruptible: bool = False) -> MapAnswer:
    """
    Chooses a device for every rank.

    If `interruptible` (main thread only), the first SIGINT ends the search: the best placement
    so far is returned.

    Raises:
        ValueError: if the ranks do not fit, or devices and pins contradict each other.
    """

def default_ranks(request: MapRequest) -> list[int]:
    """
    Where ranks go without a mapper: host by host, within a host round the devices.
    """

def seating_conflict(request: MapRequest) -> tuple[list[int], list[int]] | None:
    """
    Ranks that cannot all be seated and the devices they may use; None if all ranks can.
    """

class SwitchLink:
    """One direction of a link between two switches."""

    def __init__(self, source: int, target: int, *, bandwidth: float, latency: float, weight: float, name: str) -> None: ...

class NodeModel:
    """
    A node of a cluster: matrices of pairs, lists of links of each way. Through its fabric, which joins nodes of one domain: cost, latency, pace.
    """

    def __init__(self, *, cost: Sequence[float], latency: Sequence[float], pace: Sequence[float], within: Sequence[Sequence[int]], out: Sequence[Sequence[int]], into: Sequence[Sequence[int]], port: Sequence[int], exit_cost: Sequence[float], exit_latency: Sequence[float], bandwidth: Sequence[float], names: Sequence[str], to_fabric: Sequence[Sequence[int]] = [], from_fabric: Sequence[Sequence[int]] = [], fabric: Sequence[float] = [0.0, 0.0, 0.0]) -> None: ...

class LargeMachine:
    """
    A machine of many slots whose distances are computed, not stored.

    Raises (all constructors):
        ValueError: sizes, costs or bandwidths out of range.
    """

    @staticmethod
    def hierarchy(arities: Sequence[int], costs: Sequence[float], bandwidths: Sequence[float], latencies: Sequence[float]) -> LargeMachine:
        """Groups of groups, everything from the leaf level up."""

    @staticmethod
    def torus(*, extents: Sequence[int], nodes_per_router: int, devices_per_node: int, node_cost: float, router_cost: float, step_cost: Sequence[float], device_bandwidth: float, node_bandwidth: float, step_bandwidth: Sequence[float], node_latency: float, step_latency: float, open: bool = False) -> LargeMachine: ...

    @staticmethod
    def dragonfly(*, sizes: Sequence[int], costs: Sequence[float], bandwidths: Sequence[float], latencies: Sequence[float]) -> LargeMachine:
        """
        sizes: groups, routers, nodes, devices; costs: on a node, on a router, more per local hop, more per global hop; bandwidths: device, node, local, global; latencies: node, local, global.
        """

    @staticmethod
    def cluster(node: NodeModel, *, switches: int, links: Sequence[SwitchLink], spread: bool, ports: int, attached: Sequence[int], port_bandwidth: Sequence[float], port_latency: float, hosts: Sequence[str], levels: Sequence[Sequence[int]], domain: Sequence[int] = []) -> LargeMachine:
        """
        Equal nodes on a network of switches; attached and port_bandwidth are hosts x ports, levels say of every host which group it is in, coarse levels first; domain, which hosts their own fabric joins.
        """

    @property
    def slots(self) -> int: ...

    @property
    def links(self) -> int: ...

    @property
    def links_of_order(self) -> int:
        """
        How many links, the first, have loads that depend on the order of equal hosts; 0 where that
        is not known.
        """

    def distance(self, a: int, b: int) -> float: ...

    def route(self, a: int, b: int) -> list[int]:
        """Numbers of the links from slot a to slot b."""

    def capacity(self, link: int) -> float: ...

    @property
    def capacities(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """Bytes per second of every link."""

    def link_name(self, link: int) -> str: ...

class NodeOrders:
    """
    The phases of a job whose nodes may get their hosts in any order.

    Raises:
        ValueError: domains, or no machine of hosts on a network.
    """

    def __init__(self, machine: LargeMachine, phases: Sequence[tuple[RankTraffic, Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], float]]) -> None:
        """
        Of each phase the flows of ranks, the slot of each rank with node v on host v, and the
        seconds below which no order takes it.
        """

    def seconds(self, host_of_node: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> list[float]:
        """Seconds of each phase."""

    def improve(self, start: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], *, slowest_s: float, enough_s: float, steps: int, seed: int = 1, interruptible: bool = False) -> tuple[Annotated[NDArray[numpy.uint32], dict(shape=(None,))], int, bool]:
        """
        The best order found from a start within so many steps (a move, and each message that it
        gives another way), none of whose phases takes longer than `slowest_s`, or the first that
        takes `enough_s`; how many orders were looked at, and whether that were all, or nothing can
        be gained.
        """

    @property
    def messages(self) -> int:
        """Between pairs of nodes."""

class LargeCandidate:
    """One placement that map_large() looked at."""

    @property
    def name(self) -> str: ...

    @property
    def cost(self) -> float:
        """Sum over flows of bytes x distance."""

    @property
    def cpu_s(self) -> float:
        """CPU seconds that its making took."""

    @property
    def also(self) -> list[str]:
        """Other ways that led to the same placement."""

    @property
    def predicted(self) -> bool: ...

    @property
    def busiest_s(self) -> float: ...

    @property
    def busiest_link(self) -> int: ...

    @property
    def mean_s(self) -> float: ...

    @property
    def latency_s(self) -> float: ...

    @property
    def predicted_s(self) -> float: ...

class LargeAnswer:
    """Result of map_large()."""

    @property
    def slot_of_rank(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]: ...

    @property
    def default(self) -> LargeCandidate: ...

    @property
    def placed(self) -> LargeCandidate: ...

    @property
    def candidates(self) -> list[LargeCandidate]: ...

    def slots_of(self, candidate: int) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
        """The slot of each rank that a candidate, by its number, had chosen."""

    @property
    def kept_default(self) -> bool: ...

    @property
    def interrupted(self) -> bool:
        """The search was stopped by SIGINT."""

    @property
    def notes(self) -> list[str]: ...

def map_large(machine: LargeMachine, traffic: RankTraffic, *, objective: str, solver: str, budget_s: float, seed: int, progress: Callable[[str, float], None] | None = None, interruptible: bool = False) -> LargeAnswer:
    """
    Chooses a slot for every rank of a large job.

    Objectives: cost, congestion, time. Solvers: auto, default, random.
    `progress` is told a stage and the share of it that is done. If `interruptible` (main
    thread only), SIGINT ends the search, and the best so far is returned.

    Raises:
        ValueError: if the ranks do not fit.
    """

def large_cost(machine: LargeMachine, traffic: RankTraffic, slots: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> float:
    """Sum over directed flows of bytes x distance; slots may be shared."""

def large_prediction(machine: LargeMachine, traffic: RankTraffic, slots: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> LargeCandidate:
    """Cost and predicted times of one placement."""

def large_loads(machine: LargeMachine, traffic: RankTraffic, slots: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[LargeCandidate, Annotated[NDArray[numpy.float64], dict(shape=(None,))]]:
    """
    Cost and predicted times of one placement, and the bytes over each link.
    """

class SearchRecord:
    """Result of search_pairwise()."""

    @property
    def placement(self) -> list[int]: ...

    @property
    def cost(self) -> float: ...

    @property
    def moves(self) -> int: ...

    @property
    def seconds(self) -> float: ...

    @property
    def seconds_to_best(self) -> float: ...

def search_pairwise(flow: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], distance: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], *, strategy: str = 'auto', seed: int = 1, budget_s: float = 1.0, moves: int = 9223372036854775807, target: float = -1.0, thread_time: bool = False) -> SearchRecord:
    """
    Searches a permutation p with little sum of flow[i, j] * distance[p[i], p[j]].

    Strategies: auto, tabu, iterated, memetic. Ends after so many moves, at a cost of `target`, or
    after `budget_s` seconds: of this thread's CPU time if `thread_time`, else as the clock on
    the wall shows.

    Raises:
        ValueError: if the matrices are not square, of one size and finite.
    """

class RingRate:
    """The rate of a group on a set of devices"""

    @property
    def bytes_per_s(self) -> float: ...

    @property
    def cut_bytes_per_s(self) -> float: ...

    @property
    def rings(self) -> list[list[int]]: ...

def ring_rate(members: int, *, capacity: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], route_begin: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], uses: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], flow_cap: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], path_class: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], switched: bool, levels: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], stop_below: float, most_rings: int, steps: int) -> RingRate:
    """Search rings over the members of a group"""
