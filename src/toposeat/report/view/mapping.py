"""Mappings and placements in words and as text. Every number here is predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.evaluation import (
    KEPT,
    OF_SEARCH,
    RINGS,
    TREES,
    Candidate,
    Certificate,
    Evaluation,
    MappingResult,
    PhaseTime,
)
from toposeat.model.plural import plural
from toposeat.model.quantity import Premises
from toposeat.model.rank_info import cpu_doubt, file_doubt
from toposeat.model.scenario import Worth
from toposeat.model.topology import PathClass, Topology, Vendor
from toposeat.model.traffic import Traffic
from toposeat.model.visible_list import order_line
from toposeat.report.parts import (
    Cell,
    Fact,
    Line,
    Part,
    Table,
    Words,
    facts,
    gain_cell,
    sentences,
    to_copy,
)
from toposeat.report.text import PLAIN, TextStyle, fitting, height, lay_out
from toposeat.report.units import (
    NO_SHARE,
    clean,
    format_bytes,
    format_gain,
    format_percent,
    format_range,
    format_rate,
    format_seconds,
    format_share,
    known,
    three_digits,
)
from toposeat.report.view.loads import busiest_change, latency_share, levels_and_links
from toposeat.report.view.machine import (
    device_code,
    host_words,
    order_words,
    premise_words,
    topology_sentence,
)
from toposeat.report.view.traffic import buffer_words, gain_place, gain_share, traffic_sentence
from toposeat.report.view.transport import transport_first

HYBRID = "hybrid"  # the metric whose costs are seconds


def moved_words(result: MappingResult) -> str:
    """`4 ranks moved`, or `default kept`."""
    moved = result.moved_ranks
    return f"{plural(len(moved), 'rank')} moved" if moved else "default kept"


def line_to_copy(result: MappingResult, topology: Topology) -> str | None:
    """The variables that realise the order; None where none do, or all devices stay as they are.

    On several hosts they would not: the order of nodes is no variable.
    """
    if len(topology.hosts) > 1:
        return None
    if result.kept_default and len(result.device_of_rank) == len(topology.devices):
        return None
    return order_line(topology, result.device_of_rank)


class Figure(NamedTuple):
    """A number of a placement: its name, the member of `Evaluation` that holds it, and its form."""

    name: str
    member: str
    form: Callable[[float], str]

    def of(self, evaluation: Evaluation) -> float:
        """The number of a placement."""
        return float(getattr(evaluation, self.member))


def figures_of(metric: str = "bandwidth") -> dict[str, Figure]:
    """By objective, or name: all that is predicted of a placement; the cost is that of a metric.

    A cost has its unit: seconds for the hybrid metric, else bytes to nearest pairs.
    """
    cost = Figure("bytes x pair cost", "cost", format_bytes)
    if metric == HYBRID:
        cost = Figure("summed message time", "cost", format_seconds)
    return {
        "time": Figure("link time", "predicted_s", format_seconds),
        "congestion": Figure("worst link congestion", "max_congestion_s", format_seconds),
        "mean": Figure("mean link congestion", "mean_congestion_s", format_seconds),
        "hops": Figure("hop-bytes", "hop_bytes", format_bytes),
        "cost": cost,
    }


def _figure(objective: str, metric: str) -> Figure:
    """What the objective minimises; of one that is not known its own name, in seconds."""
    unknown = Figure(clean(objective), "predicted_s", format_seconds)
    return figures_of(metric).get(objective, unknown)


def ends_of(premises: Premises | None) -> tuple[tuple[float, float], ...]:
    """The ends of the values of default and order, where nominal ones are of no machine."""
    return (premises and premises.between) or ()


def certificate_words(
    certificate: Certificate,
    metric: str = "bandwidth",
    *,
    reasoned: bool = True,
    premises: Premises | None = None,
) -> str:
    """What was proved, as one sentence (plus the solver's reason, where `reasoned`)."""
    goal, _, form = _figure(certificate.objective, metric)
    ends = ends_of(premises)
    value = format_range(ends[1], form) if ends else form(certificate.value)
    tried = "" if not certificate.orders_tried else f"; {_tried_words(certificate)}"
    if certificate.word == "proved":
        sentence = f"Proved optimal for {goal} ({value}): no placement has a lower value."
    elif certificate.word == "bounded":
        sentence = (
            f"Bounded for {goal} ({value}): with nominal numbers no placement has a lower value,"
            " with other assumed numbers one may."
        )
    elif certificate.gap is not None and certificate.lower_bound is not None:
        bound = "with nominal numbers" if ends else f"({form(certificate.lower_bound)})"
        sentence = (
            f"Not proved optimal for {goal}: {value}, at most {format_percent(certificate.gap)}"
            f" above the lower bound {bound}{tried}."
        )
    else:
        sentence = (
            f"Heuristic for {goal} ({value}): no bound known, a better placement may exist{tried}."
        )
    reason = clean(certificate.reason).rstrip(".")
    return f"{sentence} Because: {reason}." if reason and reasoned else sentence


def _tried_words(certificate: Certificate) -> str:
    return f"{certificate.orders_tried:,} orders of nodes tried"


def range_words(premises: Premises | None) -> str | None:
    """The range of the gain, and what it depends on; None where neither is in doubt."""
    if premises is None or not premises.is_doubtful:
        return None
    has_nominal = premises.between is None
    words = {x.what: premise_words(x, has_nominal=has_nominal) for x in premises.assumed}
    what = [words.get(each, clean(each)) for each in premises.depends_on]
    depends = f", depending on {'; '.join(what)}" if what else ""
    number = f" in {premises.scenarios} scenarios" if premises.scenarios > 1 else ""
    return f"{gain_range_words(premises)} of the default's link time{number}{depends}."


def against_words(premises: Premises | None) -> str | None:
    """Where an order is slower, the worst first; None where it is so nowhere."""
    if premises is None or not premises.against:
        return None
    worst, *others = premises.against
    more = f"; slower in {plural(len(others), 'more scenario')}" if others else ""
    return f"costs {format_percent(-worst.share)} with {clean(worst.scenario)}{more}"


def other_order_words(premises: Premises | None) -> str | None:
    """What another order may save where the default is kept; None: nothing."""
    if premises is None or premises.open_gain is None:
        return None
    gain = premises.open_gain
    return f"another order saves {format_percent(gain.share)} with {clean(gain.scenario)}"


def _barred(result: MappingResult, topology: Topology | None) -> list[Part]:
    """The order that only its loss in some scenario keeps from being taken, with its line."""
    barred = None if result.premises is None else result.premises.barred
    if barred is None:
        return []
    saves = f"saves {format_percent(barred.share)} with nominal numbers"
    costs = f"{format_share(barred.worst.share)} with {clean(barred.worst.scenario)}"
    if topology is None:
        return [Fact("Barred", f"another order of nodes {saves}, but {costs}")]
    order = order_words(topology, barred.device_of_rank)
    line = order_line(topology, barred.device_of_rank)
    return [Fact("Barred", f"{order} {saves}, but {costs}"), *([to_copy(line)] if line else [])]


def settling_words(*premises: Premises | None) -> str | None:
    """What settles doubts, each with its command; None where nothing is to be settled."""
    told = (each for of_gain in premises if of_gain is not None for each in of_gain.settles)
    return "; ".join(dict.fromkeys(f"{clean(x.what)}: {x.command}" for x in told)) or None


def gain_range_words(premises: Premises) -> str:
    """`saves 8 % to 50 %`; where the least is a loss `costs 3 % to saves 20 %`."""
    low, high = premises.gain_range
    if low <= -NO_SHARE:
        return f"{format_share(low)} to {format_share(high)}"
    return f"saves {format_percent(max(0.0, low))} to {format_percent(high)}"


def _between_words(premises: Premises, goal: str) -> str:
    """What is saved where no single figure is of a machine."""
    return f"{gain_range_words(premises)} of {goal}, by processor"


WHOLE_RUN = "Whole run"  # what `reach_words` is shown as


def reach_words(result: MappingResult, topology: Topology | None, traffic: Traffic) -> str | None:
    """How far the predicted change reaches into the whole run; None when that is not known.

    In seconds where the ranks ran on this machine; else, and where more link time is predicted than
    was measured in MPI, only Amdahl's law with the share of the run that placement can shorten: at
    most 1 / (1 - share x (1 - after / before)).
    """
    share = gain_share(traffic)
    if share is None or cpu_doubt(traffic.rank_info):
        return None
    before, after = result.default.predicted_s, result.placed.predicted_s
    run = sum(info.wall_s for info in traffic.rank_info) / len(traffic.rank_info)
    saves = not result.kept_default and 0 <= after < before
    is_known = 0 < before <= share * run and _ran_there(result, topology, traffic)
    if result.premises is not None and result.premises.between is not None:
        is_known, after = False, before * (1 - result.premises.gain_range[1])
    saved = before - after if is_known else share * (1 - after / before) * run if saves else 0.0
    little = "Little of the run: " if saves and saved < result.min_gain * run else ""
    if is_known:
        times = f"{format_seconds(before)} of {format_seconds(share * run)} {gain_place(traffic)}"
        part = f"saves {format_seconds(saved)} of {format_seconds(run)}"
        reach = f"{part} ({format_percent(saved / run)})"
        link = f"the default's link time is {times} (predicted of measured)"
        return f"{little}{reach}; {link}." if saves else f"{link[0].upper()}{link[1:]}."
    your = "your" if little else "Your"
    spends = f"{little}{your} run spends {format_percent(share)} of its time {gain_place(traffic)}"
    if not saves:
        return f"{spends} (measured where it was recorded)."
    at_most = run / (run - saved) if saved < run else float("inf")
    so = f"so expect at most about {three_digits(at_most)}x"
    return f"{spends} (measured where it was recorded), {so}."


def _ran_there(result: MappingResult, topology: Topology | None, traffic: Traffic) -> bool:
    """Whether the ranks were recorded on the hosts, or on the devices, that they are mapped to."""
    from toposeat.model.hostlist import short_name  # noqa: PLC0415 - most traffic has no times

    hosts = result.hosts if topology is None else topology.hosts
    of_machine = {short_name(host) for host in hosts}
    if all(info.host and short_name(info.host) in of_machine for info in traffic.rank_info):
        return True
    pci = set() if topology is None else {device.pci_bus_id for device in topology.devices}
    return all(info.device_pci_bus_id in pci - {None} for info in traffic.rank_info)


def said_of(result: MappingResult) -> list[Cell]:
    """Verdict, in the colour of a gain or a loss, range and proof, as they stand on a picture."""
    look = {"gain": "better", "loss": "worse"}.get(outcome_word(result), "")
    said = [Cell(proof_words(result, reasoned=False))]
    if words := range_words(result.premises):
        said = [Cell(f"Range: {words}"), *said]
    return [Cell(verdict_words(result), "" if result.kept_default else look), *said]


def verdict_words(result: MappingResult) -> str:
    """The outcome in one sentence."""
    if result.kept_default:
        goal, _, form = _figure(result.objective, result.metric)
        if result.uniform:
            return f"Nothing to gain from order: every placement has the same {goal} here."
        if result.certificate.word == "proved":
            return (
                f"No gain: the default placement is kept, because it is proved optimal for {goal}."
            )
        why = f"nothing better was found for {goal}"
        if result.certificate.proved:
            why = f"it is proved optimal for {goal} with nominal numbers"
        elif result.certificate.orders_tried:
            bound = result.certificate.lower_bound
            why = f"none is better for {goal}: {_tried_words(result.certificate)}"
            if bound is not None:
                why += f", best bound {form(bound)}"
        if result.premises is not None and result.premises.barred is not None:
            why = "what saves time with nominal numbers costs too much otherwise"
        return f"No gain: the default placement is kept, because {why}."
    ranks = f"{len(result.moved_ranks)} of {plural(len(result.device_of_rank), 'rank')}"
    outcome, premises = outcome_word(result), result.premises
    changes = ", ".join(_change_words(n, b, a, form) for n, b, a, form in _told(result))
    if premises is not None and premises.between is not None:
        changes = _between_words(premises, _figure(result.objective, result.metric).name)
    if premises is None or premises.verdict is not Worth.POSSIBLE:
        return f"Predicted {outcome} from moving {ranks}: {changes}."
    if outcome != "gain" and premises.between is None:
        most = format_percent(premises.gain_range[1])
        changes += f" with nominal numbers, saves up to {most} otherwise"
    return f"Possible gain from moving {ranks}: {changes}."


_Change = tuple[str, float, float, Callable[[float], str]]  # name, before, after, form


def _told(result: MappingResult) -> list[_Change]:
    """What was minimised and the link time; where figures contradict each other, all of them."""
    found = _judged_by(result)
    names = found if outcome_word(result) == "change" else ("time", result.objective)
    return [change for name, change in found.items() if name in names]


def _judged_by(result: MappingResult) -> dict[str, _Change]:
    """What the outcome is judged by, before and after: times, and the cost where it was asked."""
    names = ("cost",) * (result.objective == "cost") + ("time", "congestion")
    figures = [(name, figures_of(result.metric)[name]) for name in names]
    before, after = result.default, result.placed
    return {n: (each.name, each.of(before), each.of(after), each.form) for n, each in figures}


def fastest_words(
    times: Sequence[tuple[str, float]], what: str, premises: Sequence[Premises | None] = ()
) -> str:
    """Which placement is predicted to be fastest, and how much of a time (`what`) is gained by it.

    `times` are names and seconds; the first is what the others are compared with. `premises` are
    those of each gain over it.
    """
    base, before = times[0]
    at = min(range(len(times)), key=lambda each: times[each][1])
    name, after = times[at]
    if after >= before:
        is_between = any(map(ends_of, premises))
        said = "with nominal numbers" if is_between else f"({format_seconds(before)})"
        return f"No gain: {clean(base)} is predicted to be the fastest {said}."
    own = premises[at] if premises else None
    change = (
        _between_words(own, what) if own and own.between else _change_words(what, before, after)
    )
    return f"Predicted gain from {clean(name)} over {clean(base)}: {change}."


def outcome_word(result: MappingResult) -> str:
    """`gain`, `loss` (a solver that was asked for a bad placement gives one) or `change`."""
    changes = _judged_by(result).values()
    signs = {(after > before) - (after < before) for _, before, after, _ in changes} - {0}
    return {frozenset({-1}): "gain", frozenset({1}): "loss"}.get(frozenset(signs), "change")


def _change_words(
    name: str, before: float, after: float, show: Callable[[float], str] = format_seconds
) -> str:
    """Of times, or of what `show` is the form of: `link time 5.03 ms to 1.68 ms (saves 67 %)`."""
    if before == after:
        return f"{name} unchanged ({show(before)})"
    return f"{name} {show(before)} to {show(after)} ({format_gain(before, after)})"


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


def way_words(before: Sequence[PhaseTime], after: Sequence[PhaseTime], way: str) -> str | None:
    """What phases take if all-reduces between nodes go by TREES or by RINGS; None: as usual."""
    times = [
        _change_words(clean(old.label), old.by(way), new.by(way))
        for old, new in zip(before, after, strict=True)
        if old.other(way) is not None and new.other(way) is not None
    ]
    return f"{'; '.join(times)}, if all-reduces between nodes go by {way}" if times else None


_SMALL_CALL = 1 << 16  # bytes over an edge: links move them in less time than their latency


def small_calls(traffic: Traffic) -> str | None:
    """That no latency is predicted of a library's groups, where their calls are small."""
    nbytes, calls = (sum(getattr(x, n) for x in traffic.groups) for n in ("bytes", "messages"))
    if nbytes >= _SMALL_CALL * calls:
        return None
    size = format_bytes(nbytes / calls)
    return f"not predicted of groups, whose calls are small here: {size} over an edge each"


_MOST_GROUPS = 4


_NEAREST_FIRST = tuple(PathClass)


_REACH_WORDS = {
    PathClass.NVL: "on device links",
    PathClass.C2C: "on chip-to-chip links",
    PathClass.PIX: "below one PCIe switch",
    PathClass.PXB: "below PCIe switches",
    PathClass.PHB: "through a host bridge",
    PathClass.NODE: "between host bridges",
    PathClass.SYS: "across sockets",
    PathClass.NET: "across hosts",
}


def group_lines(result: MappingResult, topology: Topology, traffic: Traffic) -> list[str]:
    """Groups whose devices have another rate than by default, one line each, at most four.

    Where that changes, it is told how far a group reaches: the nearest kind of path that joins all
    of its devices.
    """
    ranks_of = {each.name or f"group {each.id}": each.ranks for each in traffic.communicators}
    changed = []
    for old, new in zip(result.default.groups, result.placed.groups, strict=True):
        if not (old.bytes_per_s and new.bytes_per_s):
            continue
        if abs(new.bytes_per_s / old.bytes_per_s - 1) > 0.01:
            ranks = ranks_of.get(old.name, ())
            reach = [
                _reach(topology, [row[rank] for rank in ranks])
                for row in (result.default.device_of_rank, result.placed.device_of_rank)
            ]
            ways = ["" if reach[0] == reach[1] or not each else f" ({each})" for each in reach]
            rates = format_rate(old.bytes_per_s), format_rate(new.bytes_per_s)
            told = " to ".join(f"{rate}{way}" for rate, way in zip(rates, ways, strict=True))
            if ends_of(result.premises):
                before, after = (each or "on another path" for each in reach)
                told = f"{before} before, now {after}"
            changed.append(f"{clean(old.name)}: {told}")
    more = len(changed) - _MOST_GROUPS
    return changed[:_MOST_GROUPS] + ([f"and {more} more"] if more > 0 else [])


def _reach(topology: Topology, devices: Sequence[int]) -> str:
    """`across sockets`: of the paths that join all devices, the farthest that is needed."""
    ids = [topology.devices[device].id for device in devices]
    left, joined, reach = set(ids[1:]), set(ids[:1]), PathClass.NVL
    while left:
        ways = [
            (_NEAREST_FIRST.index(topology.route_of_pair[a, b].path_class), b)
            for a in joined
            for b in left
            if (a, b) in topology.route_of_pair
        ]
        if not ways:
            return ""
        farthest, nearest = min(ways)
        reach = max(reach, _NEAREST_FIRST[farthest], key=_NEAREST_FIRST.index)
        left.discard(nearest)
        joined.add(nearest)
    return _REACH_WORDS.get(reach, "") if len(ids) > 1 else ""


_LINES = 13  # of the whole answer, unless all is asked for or more of them weaken the verdict
_LEAST_MORE = 3  # of them for what does not, however long the order is
_MOST_NOTES = 2  # of them for notes
_IMPORTANT = ("Phases", "Latency", "Topology", "Traffic", "Busiest", "Trees", "Rings")


def render_mapping_text(
    result: MappingResult,
    topology: Topology | None,
    traffic: Traffic,
    style: TextStyle = PLAIN,
    *,
    verbose: bool = False,
) -> str:
    """What is gained, the order with the line to copy, and why, within 13 lines.

    What weakens the verdict is told whatever room there is, and of the rest what is more important
    first. `topology` is None where devices are not listed. If `verbose`, also all figures, before
    and after, the seats, loads by level, what was tried and the proof's reason.
    """
    parts: list[Part] = [*_answer(result, topology, traffic), ""]
    if verbose:
        parts += [*_subject(result, topology, traffic)]
        parts += mapping_reasons(result, topology, traffic)
        parts += ["", *_details(result, topology, style)]
    else:
        said = sorted(result.notes, key=_rank_of_note)
        barred = sentences(note for note in said if _rank_of_note(note) == 0)
        others = [[note] for note in sentences(said[len(barred) :])]
        notes = [*barred, *fitting(others, _MOST_NOTES - height(barred))]
        why = [*_subject(result, topology, traffic), *_why(result, topology, traffic)]
        by_name = {part.name: part for part in why if isinstance(part, Fact)}
        told: list[Part] = [by_name.pop(n) for n in _weakening(result) if n in by_name]
        more = [[by_name[name]] for name in _IMPORTANT if name in by_name]
        told += fitting(more, max(_LINES - height([*parts, *notes, *told]), _LEAST_MORE))
        parts += [part for part in why if part in told]
        left = max(_LINES - height(parts), _MOST_NOTES)
        parts += [*barred, *fitting(others, left - height(barred))]
    if result.explanation is not None and topology is not None:
        from toposeat.report.view.explanation import explanation_parts  # noqa: PLC0415 - 7 ms

        parts += ["", *explanation_parts(result.explanation, topology)]
    return lay_out(parts, style)


# How notes on the search begin, as the core makes them: they come after all others.
_LAST = (OF_SEARCH, f"{KEPT}: no better")


def _rank_of_note(note: str) -> int:
    """Why nothing changes comes first, what is said of the search last."""
    if note.startswith(_LAST):
        return 2
    return 0 if note.startswith(KEPT) else 1


def _answer(result: MappingResult, topology: Topology | None, traffic: Traffic) -> list[Part]:
    """The verdict, the order, and the line that realises it where one does."""
    before, after = result.default.predicted_s, result.placed.predicted_s
    parts: list[Part] = transport_first(result.transport, 1 - after / before if before else 0.0)
    parts.append(Fact("Verdict", verdict_words(result)))
    parts += facts(**{WHOLE_RUN: reach_words(result, topology, traffic)})
    parts += [Fact("", words) for words in filter(None, [buffer_words(traffic)])]
    doubts = (cpu_doubt(traffic.rank_info), file_doubt(traffic.rank_info))
    parts += [Fact("Doubt", words) for words in filter(None, doubts)]
    if topology is None:
        order = f"nodes by first rank: {host_words(result.hosts_by_first_rank)}"
        parts.append(Fact("Order", f"{order} ({moved_words(result)})"))
        return [*parts, *_barred(result, topology)]
    order = order_words(topology, result.device_of_rank)
    parts += [Fact("Order", f"{order} ({moved_words(result)})")]
    line = line_to_copy(result, topology)
    if line:
        parts.append(to_copy(line))
    elif (
        not result.kept_default
        and topology.devices[result.device_of_rank[0]].vendor is Vendor.INTEL
    ):
        parts.append("(no line to copy: ZE_AFFINITY_MASK keeps Level Zero's own order)")
    return [*parts, *_barred(result, topology)]


def _subject(result: MappingResult, topology: Topology | None, traffic: Traffic) -> list[Part]:
    machine = f"{clean(result.topology)}: {plural(result.slots, 'slot')}"
    if topology is not None:
        machine = topology_sentence(topology)
    return facts(Topology=machine, Traffic=traffic_sentence(traffic))


def _details(result: MappingResult, topology: Topology | None, style: TextStyle) -> list[Part]:
    """Seats, figures, levels, links and candidates, as far as the machine has them."""
    parts: list[Part] = [] if topology is None else [*_seats(result, topology, style), ""]
    both = (("default", result.default), ("placed", result.placed))
    parts += [before_after(result), *levels_and_links(both)]
    return parts + [part for table in candidate_table(result) for part in ("", table)]


def mapping_reasons(
    result: MappingResult, topology: Topology | None, traffic: Traffic
) -> list[Part]:
    """All of why, and how the placement was found."""
    groups = [] if topology is None else group_lines(result, topology, traffic)
    return [
        *_why(result, topology, traffic, reasoned=True),
        *(Fact("Groups", line) for line in groups),
        *sentences(result.notes),
        Fact("Mapping", _how(result)),
    ]


def _why(
    result: MappingResult, topology: Topology | None, traffic: Traffic, *, reasoned: bool = False
) -> list[Part]:
    """Why, the most telling first; with the solver's reason where `reasoned`."""
    before, after = result.default.phases, result.placed.phases
    if ends_of(result.premises):
        before, after = (), ()  # whose seconds are of no machine
    phases = phase_words(before, after) if after else None
    judged = None if outcome_word(result) == "loss" else result.premises  # it was asked for
    said = {
        "Busiest": None if ends_of(result.premises) else busiest_change(result, topology),
        "Latency": latency_share(result.placed) or small_calls(traffic),
        "Proof": proof_words(result, reasoned=reasoned),
        "Range": range_words(result.premises),
        "Against": against_words(judged),
        "Others": other_order_words(judged),
        "Settles": settling_words(judged),
        "Phases": phases,
        **{way.capitalize(): way_words(before, after, way) for way in (TREES, RINGS)},
    }
    order = [*said]
    if result.certificate.word == "heuristic" and result.stages:  # what is known comes first
        order.remove("Phases")
        order.insert(1, "Phases")
    return facts(**{name: said[name] for name in order})


def _weakening(result: MappingResult) -> list[str]:
    """The facts that weaken the verdict, or say how far it holds: they are never left out."""
    told = ["Range", "Against", "Others", "Settles", "Proof"]
    if outcome_word(result) == "loss" or result.kept_default:
        return told
    both = result.default.phases, result.placed.phases
    before, after = ([phase.seconds for phase in phases] for phases in both)
    if len(before) > 1 and max(after) >= max(before):
        told.append("Phases")
    for way in (TREES, RINGS):
        other = [[phase.other(way) or 0.0 for phase in phases] for phases in both]
        if any(new > old for old, new in zip(*other, strict=True)):
            told.append(way.capitalize())
    return told


def proof_words(result: MappingResult, *, reasoned: bool = True) -> str:
    """What was proved of a result; see `certificate_words`."""
    return certificate_words(
        result.certificate, result.metric, reasoned=reasoned, premises=result.premises
    )


def _how(result: MappingResult) -> str:
    if result.solver == "given":
        return "given, not searched for"
    metric = f", {clean(result.metric)} metric" if result.objective == "cost" else ""
    memory = result.peak_memory_bytes
    used = "" if memory is None else f", {format_bytes(memory)} of memory"
    return (
        f"objective {clean(result.objective)}{metric}, solver {clean(result.solver)},"
        f" {format_seconds(result.solve_seconds)}{used}"
    )


def _seats(result: MappingResult, topology: Topology, style: TextStyle) -> list[Part]:
    """Two rows, rank over device, cut into blocks that fit the width."""
    ranks, *_, devices = seat_rows(result, topology).values()
    width = max(len(cell.words) for cell in (*ranks, *devices)) + 1
    per_line = max(1, (style.width - 9) // width)
    if per_line >= 8:
        per_line -= per_line % 8 if len(devices) > per_line else 0
    lines: list[Part] = []
    for start in range(0, len(devices), per_line):
        lines += [""] if lines else []
        for name, row in (("rank    ", ranks), ("device  ", devices)):
            cells = row[start : start + per_line]
            shown = (Cell(f"{each.words:>{width}}", each.look or "strong") for each in cells)
            lines.append(Line((Cell(name, "strong"), *shown)))
    return lines


def before_after(result: MappingResult) -> Table:
    """Default against placed; every number is predicted."""
    shown: list[tuple[Words, ...]] = []
    premises, ends = result.premises, ends_of(result.premises)
    for name, figure in figures_of(result.metric).items():
        before, after = figure.of(result.default), figure.of(result.placed)
        values, change = [figure.form(before), figure.form(after)], format_gain(before, after)
        if premises is not None and ends and name == result.objective:
            values = [format_range(each, figure.form) for each in ends]
            change = "0 %" if result.kept_default else gain_range_words(premises)
        elif ends and figure.form is format_seconds:
            continue
        name_cell = Cell(figure.name, mark="objective" if name == result.objective else "")
        shown.append((name_cell, *values, gain_cell(change)))
    header = ("predicted", "default", "placed", "saves")
    return Table(header, shown, right=(1, 2, 3), caption="Predicted (nothing here was measured)")


def seat_rows(result: MappingResult, topology: Topology) -> dict[str, list[Cell]]:
    """Ranks, their devices by default and, if it differs, as placed; moved ranks stand out."""
    moved = set(result.moved_ranks)
    codes = [device_code(topology, d) for d in result.default.device_of_rank]
    rows = {
        "rank": [Cell(str(rank)) for rank in range(len(codes))],
        "default": [Cell(code) for code in codes],
    }
    if moved:
        placed = [device_code(topology, d) for d in result.device_of_rank]
        rows["placed"] = [Cell(c, "moved" if r in moved else "") for r, c in enumerate(placed)]
    return rows


_SHOWN_CANDIDATES = 8
_SHOWN_NAMES = 3  # of the same placement


def host_table(result: MappingResult, most: int) -> tuple[Table, int]:
    """Ranks of the first hosts, and how many hosts are left out."""
    ranks_of_host: dict[int, list[int]] = {}
    for rank, host in enumerate(result.host_numbers):
        ranks_of_host.setdefault(host, []).append(rank)
    rows = [
        (result.hosts[host], format_cpu_list(ranks))
        for host, ranks in sorted(ranks_of_host.items())[:most]
    ]
    caption = f"Ranks of each host; a host has {plural(result.slots_per_host, 'device')}"
    return Table(("host", "ranks"), rows, caption=caption), len(ranks_of_host) - len(rows)


def candidate_table(result: MappingResult) -> list[Part]:
    """The best few of the placements that were tried, by what was asked for."""
    rows = [
        (
            _candidate_name(each),
            known(each.predicted_s, format_seconds),
            format_bytes(each.cost),
            format_seconds(each.cpu_s),
        )
        for each in sorted(result.candidates, key=lambda each: each.value(result.objective))[
            :_SHOWN_CANDIDATES
        ]
    ]
    return [Table(("candidate", "time", "cost", "CPU"), rows, right=(1, 2, 3))] if rows else []


def _candidate_name(candidate: Candidate) -> str:
    """The name, with the first few other candidates that gave the same placement."""
    if not candidate.also:
        return clean(candidate.name)
    also = [*map(clean, candidate.also)]
    if len(also) > _SHOWN_NAMES:
        also[_SHOWN_NAMES:] = [f"{len(also) - _SHOWN_NAMES} more"]
    return f"{clean(candidate.name)} (also: {', '.join(also)})"
