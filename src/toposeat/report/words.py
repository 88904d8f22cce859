"""Traffic, placements and mappings in words, which text and HTML share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from toposeat.model.evaluation import Certificate, Evaluation, LinkLoad, MappingResult, PhaseTime
from toposeat.model.placement import Placement
from toposeat.model.premise import PORT_PREMISE, UPLINK_PREMISE, Premises
from toposeat.model.topology import ANY_HOST, Topology
from toposeat.model.traffic import MemorySpace, Traffic
from toposeat.model.visible_list import order_line
from toposeat.report.machine_words import link_words, premise_words
from toposeat.report.time_words import gain_place, gain_share
from toposeat.report.units import (
    clean,
    format_bytes,
    format_change,
    format_percent,
    format_seconds,
    plural,
    three_digits,
)

Figure = tuple[str, str, Callable[[float], str]]  # what, its field, its form

HYBRID = "hybrid"  # the metric whose costs are seconds


def space_bytes(traffic: Traffic, space: MemorySpace) -> int:
    """All bytes whose send buffer was in `space`."""
    return int(traffic.table(space=space).bytes.sum())


def traffic_sentence(traffic: Traffic) -> str:
    """`halo3d, 16 ranks, 41.8 GiB between devices, 0.2 GiB through the host`."""
    device = space_bytes(traffic, MemorySpace.DEVICE)
    host = space_bytes(traffic, MemorySpace.HOST)
    start = f"{clean(traffic.origin)}, {plural(traffic.ranks, 'rank')}"
    if device:
        through = f"{format_bytes(host)} through the host"
        return f"{start}, {format_bytes(device)} between devices, {through}"
    if host:
        return (
            f"{start}, {format_bytes(host)} from host memory"
            " (no device buffers seen, so all of it is mapped)"
        )
    return f"{start}, no bytes sent"


def moved_ranks(result: MappingResult) -> list[int]:
    """Ranks that do not sit where the default puts them."""
    pairs = zip(result.device_of_rank, result.default.device_of_rank, strict=True)
    return [rank for rank, (placed, default) in enumerate(pairs) if placed != default]


def is_default_kept(result: MappingResult) -> bool:
    """Whether the answer is the default placement."""
    return not moved_ranks(result)


def moved_words(result: MappingResult) -> str:
    """`4 ranks moved`, or `default kept`."""
    moved = moved_ranks(result)
    return f"{plural(len(moved), 'rank')} moved" if moved else "default kept"


def line_to_copy(result: MappingResult, topology: Topology) -> str | None:
    """The variables that realise the order; None where none do, or all devices stay as they are."""
    if is_default_kept(result) and len(result.device_of_rank) == len(topology.devices):
        return None
    return order_line(topology, result.device_of_rank)


def cost_words(metric: str) -> str:
    """What the pairwise cost of a metric is called."""
    return "summed message time" if metric == HYBRID else "bytes x pair cost"


def format_cost(metric: str, value: float) -> str:
    """A pairwise cost with its unit: seconds for the hybrid metric, else bytes to nearest pairs."""
    return format_seconds(value) if metric == HYBRID else format_bytes(value)


def format_objective(objective: str, value: float, metric: str = "bandwidth") -> str:
    """A value of the objective with its unit."""
    return format_cost(metric, value) if objective == "cost" else format_seconds(value)


def objective_words(objective: str, metric: str = "bandwidth") -> str:
    """What the objective minimises, in words."""
    return {
        "time": "link time",
        "congestion": "worst link congestion",
        "cost": cost_words(metric),
    }.get(objective, clean(objective))


def certificate_words(
    certificate: Certificate, metric: str = "bandwidth", *, reasoned: bool = True
) -> str:
    """What was proved, as one sentence (plus the solver's reason, where `reasoned`)."""
    goal = objective_words(certificate.objective, metric)
    value = format_objective(certificate.objective, certificate.value, metric)
    if certificate.word == "proved":
        sentence = f"Proved optimal for {goal} ({value}): no placement has a lower value."
    elif certificate.word == "bounded":
        sentence = (
            f"Bounded for {goal} ({value}): with nominal numbers no placement has a lower value,"
            " with other assumed numbers one may."
        )
    elif certificate.gap is not None and certificate.lower_bound is not None:
        bound = format_objective(certificate.objective, certificate.lower_bound, metric)
        sentence = (
            f"Not proved optimal for {goal}: {value}, at most {format_percent(certificate.gap)}"
            f" above the lower bound ({bound})."
        )
    else:
        sentence = f"Heuristic for {goal} ({value}): no bound known, a better placement may exist."
    reason = clean(certificate.reason).rstrip(".")
    return f"{sentence} Because: {reason}." if reason and reasoned else sentence


def range_words(premises: Premises | None) -> str | None:
    """The range of the gain, and what it depends on; None where neither is in doubt."""
    if premises is None or not premises.is_open:
        return None
    what = [premise_words(each) for each in premises.deciding]
    if premises.untold_pairs:
        pairs = plural(len(premises.untold_pairs), "pair")
        what.append(f"whether device links join {pairs} of GPUs, which no source tells")
    saves = f"saves {gain_range_words(premises)} of the default's link time"
    if premises.gain_range == (0.0, 0.0):
        saves = "another order may gain or lose"
    if premises.of_phases:
        saves += ", between all phases one after the other and the slowest alone"
    if premises.of_phases and not what:
        return f"{saves}."
    depends = f", depending on {'; '.join(what)}" if what else ""
    return f"{saves}{depends}. {_settling(premises)}"


def _settling(premises: Premises) -> str:
    """What a user can do about a doubt."""
    of_network = [each.what in (PORT_PREMISE, UPLINK_PREMISE) for each in premises.deciding]
    rates = "the network's rates in GB/s: -t NETWORK,bandwidth=PORT:UPLINK"
    if not any(of_network):
        return "`toposeat measure` settles it."
    if all(of_network) and not premises.untold_pairs:
        return f"State {rates}."
    return f"`toposeat measure` settles it, and {rates}."


def gain_range_words(premises: Premises) -> str:
    """`8 % to 50 %`; a negative share is a loss."""
    low, high = premises.gain_range
    if not premises.is_doubtful:
        return format_percent(high)
    return f"{format_percent(low)} to {format_percent(high)}"


def busiest_words(topology: Topology, evaluation: Evaluation) -> str:
    """The busiest link of a placement in words, or that there is none."""
    busy = busiest(evaluation.links)
    return link_words(topology, busy.link) if busy else "none"


def busiest(links: Sequence[LinkLoad]) -> LinkLoad | None:
    """The most congested link that carries anything."""
    used = [load for load in links if load.congestion_s > 0]
    return max(used, key=lambda load: load.congestion_s) if used else None


def mpi_share(traffic: Traffic) -> float | None:
    """Share of the profiled run inside recorded MPI calls, over all ranks; None when not timed."""
    if not traffic.timed:
        return None
    wall = sum(info.wall_s for info in traffic.rank_info)
    mpi = sum(info.mpi_s for info in traffic.rank_info)
    return min(mpi / wall, 1.0) if wall > 0 else None


def run_share_words(result: MappingResult, traffic: Traffic) -> str | None:
    """How far the predicted change can reach into the whole run; None when nothing was timed.

    Amdahl's law with the share of the profiled run that placement can shorten: at most
    1 / (1 - share x (1 - after / before)).
    """
    share = gain_share(traffic)
    if share is None:
        return None
    spends = f"your run spends {format_percent(share)} of its time {gain_place(traffic)}"
    start = f"Prediction is of link time only; {spends}"
    before, after = result.default.predicted_s, result.placed.predicted_s
    if is_default_kept(result) or before <= 0 or after >= before:
        return start + "."
    at_most = 1 / (1 - share * (1 - after / before)) if share < 1 or after > 0 else float("inf")
    return f"{start}, so expect at most about {three_digits(at_most)}x."


KEPT = "kept the default"  # how a note begins that says why a placement was not taken


def verdict_words(result: MappingResult) -> str:
    """The outcome in one sentence."""
    if is_default_kept(result):
        goal = objective_words(result.objective, result.metric)
        if result.uniform:
            return f"Nothing to gain from order: every placement has the same {goal} here."
        if result.certificate.word == "proved":
            return (
                f"No gain: the default placement is kept, because it is proved optimal for {goal}."
            )
        why = f"nothing better was found for {goal}"
        if any(note.startswith(KEPT) for note in result.notes):
            why = "no gain is certain"
        return f"No gain: the default placement is kept, because {why}."
    ranks = f"{len(moved_ranks(result))} of {plural(len(result.device_of_rank), 'rank')}"
    changes = ", ".join(_change_words(*figure) for figure in _figures_told(result))
    return f"Predicted {outcome_word(result)} from moving {ranks}: {changes}."


def _figures_told(result: MappingResult) -> list[tuple[str, float, float]]:
    """What was minimised and the link time; where figures contradict each other, all of them."""
    figures = _figures_of_merit(result)
    if outcome_word(result) == "change":
        return figures
    names = {"link time", objective_words(result.objective, result.metric)}
    return [figure for figure in figures if figure[0] in names]


def _figures_of_merit(result: MappingResult) -> list[tuple[str, float, float]]:
    """What the outcome is judged by, before and after: times, and the cost where it was asked."""
    before, after = result.default, result.placed
    figures = [
        ("link time", before.predicted_s, after.predicted_s),
        ("worst link congestion", before.max_congestion_s, after.max_congestion_s),
    ]
    if result.objective == "cost":
        figures.insert(0, (cost_words(result.metric), before.cost, after.cost))
    return figures


def fastest_words(times: Sequence[tuple[str, float]], what: str) -> str:
    """Which of several placements is predicted to be fastest, and how much is gained by it.

    Args:
        times: names and predicted seconds; the first is what the others are compared with.
        what: the time that the seconds are of.
    """
    base, before = times[0]
    name, after = min(times, key=lambda each: each[1])
    if after >= before:
        return f"No gain: {clean(base)} is predicted to be the fastest ({format_seconds(before)})."
    change = _change_words(what, before, after)
    return f"Predicted gain from {clean(name)} over {clean(base)}: {change}."


def outcome_word(result: MappingResult) -> str:
    """`gain`, `loss` (a solver that was asked for a bad placement gives one) or `change`."""
    figures = _figures_of_merit(result)
    signs = {(after > before) - (after < before) for _, before, after in figures} - {0}
    return {frozenset({-1}): "gain", frozenset({1}): "loss"}.get(frozenset(signs), "change")


def _change_words(name: str, before: float, after: float) -> str:
    """`link time 5.03 ms to 1.68 ms (-67 %)`."""
    show = format_bytes if name == cost_words("bandwidth") else format_seconds
    if before == after:
        return f"{name} unchanged ({show(before)})"
    return f"{name} {show(before)} to {show(after)} ({format_change(before, after)})"


def phase_words(before: Sequence[PhaseTime], after: Sequence[PhaseTime]) -> str:
    """What each phase takes alone, all one after the other, and the slowest alone."""
    times = [
        f"{clean(old.label)} {format_seconds(old.seconds)}"
        + ("" if old.seconds == new.seconds else f" to {format_seconds(new.seconds)}")
        for old, new in zip(before, after, strict=True)
    ]
    if len(times) < 2:
        return times[0]
    both = [[phase.seconds for phase in phases] for phases in (before, after)]
    total = _change_words("one after the other", sum(both[0]), sum(both[1]))
    slowest = _change_words("the slowest alone", max(both[0]), max(both[1]))
    return f"{'; '.join(times)}; {total}, {slowest}"


def tree_words(before: Sequence[PhaseTime], after: Sequence[PhaseTime]) -> str:
    """What all-reduces by trees take between nodes, in each phase; "" where there are none."""
    times = [
        _change_words(clean(old.label), old.trees_s, new.trees_s)
        for old, new in zip(before, after, strict=True)
        if old.trees_s is not None and new.trees_s is not None
    ]
    return f"{'; '.join(times)}, between nodes, if its all-reduces go by trees" if times else ""


ROW_OF_OBJECTIVE = {"time": 0, "congestion": 1, "cost": 4}  # of `table_rows`


def table_rows(
    before: Evaluation, after: Evaluation, metric: str = "bandwidth"
) -> list[tuple[str, str, str, str]]:
    """Rows of the before/after table: what, default, placed, change. All values are predicted."""
    figures: list[Figure] = [
        ("link time", "predicted_s", format_seconds),
        ("worst link congestion", "max_congestion_s", format_seconds),
        ("mean link congestion", "mean_congestion_s", format_seconds),
        ("hop-bytes", "hop_bytes", format_bytes),
        (cost_words(metric), "cost", partial(format_cost, metric)),
    ]
    return figure_rows(before, after, figures)


def figure_rows(
    before: object, after: object, figures: Sequence[Figure]
) -> list[tuple[str, str, str, str]]:
    """What, before, after, change; figures that are not known of both are left out."""
    rows = []
    for words, name, form in figures:
        b, a = getattr(before, name), getattr(after, name)
        if b is not None and a is not None:
            rows.append((words, form(b), form(a), format_change(b, a)))
    return rows


def placement_rows(placement: Placement) -> list[tuple[str, ...]]:
    """Rank, host, local rank, device, PCI bus id, UUID, CPUs, memory node and NIC of each seat."""
    return [
        (
            str(seat.rank),
            "any" if seat.host == ANY_HOST else seat.host,
            str(seat.local_rank),
            f"D{seat.index}",
            seat.pci_bus_id or "-",
            seat.uuid or "-",
            seat.cpus or "-",
            "-" if seat.memory_node is None else str(seat.memory_node),
            seat.nic or "-",
        )
        for seat in placement.seats
    ]
