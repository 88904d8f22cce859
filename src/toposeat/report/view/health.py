"""A verdict on a machine: wiring, what order could gain, and findings, worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from toposeat.model.health import (
    Finding,
    Health,
    JobOrder,
    OrderEffect,
    PossibleGain,
    Severity,
    Shape,
    Wiring,
)
from toposeat.model.plural import plural
from toposeat.model.quantity import WORTH_SAYING
from toposeat.model.topology import Topology
from toposeat.model.visible_list import order_line
from toposeat.report.parts import Cell, Fact, Line, Part, Table, Words, facts, to_copy
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean, format_percent, format_range, format_seconds, span
from toposeat.report.view.machine import order_words, topology_sentence
from toposeat.report.view.mapping import ends_of, gain_range_words, settling_words
from toposeat.report.view.transport import transport_first

_MOST_GAINS = 5
_COUNTED = {
    Severity.FAULT: "fault",
    Severity.UNTOLD: "unknown fact",
    Severity.DOUBT: "doubt",
}


def render_health_text(
    topology: Topology | None, health: Health, command: str = "", style: TextStyle = PLAIN
) -> str:
    """The verdict at a glance, then what it rests on; `topology` is None where there is no machine.

    `command` asks for one job: it is shown where the order depends on that.
    """
    best = max((gain.share for gain in health.gains), default=0.0)
    parts: list[Part] = transport_first(health.transport, best)
    parts.append(Fact("Verdict", verdict_of_health(health)))
    for_all, labelled = _orders_of(health)
    if health.wiring is not None:
        parts.append(Fact("Order", gain_words(health, health.wiring)))
        if topology is not None and for_all is not None:
            parts += [
                Fact("", order_words(topology, for_all.device_of_rank)),
                *_line_of(topology, for_all),
            ]
        elif command and _is_a_question(health, health.wiring):
            parts.append(to_copy(command))
        if best < WORTH_SAYING:  # which a fact may change
            parts += facts(Settles=settling_words(*(gain.premises for gain in health.gains)))
        parts.append("")
    if topology is not None:
        parts.append(Fact("Machine", topology_sentence(topology)))
    if health.wiring is not None:
        wiring = health.wiring
        parts.append(Fact("Wiring", f"{wiring.shape.value}: {clean(wiring.reason)}"))
    if topology is not None:
        for order in labelled:
            parts += ["", *_labelled(topology, order)]
    shown = [gain for gain in health.gains if gain.share >= WORTH_SAYING][:_MOST_GAINS]
    if shown:
        parts += ["", _gain_table(shown), *_depends(shown)]
    for title, members in (("", health.findings), ("This node", health.node)):
        if members:
            parts += [
                "",
                *([title] if title else []),
                *(part for each in members for part in _finding(each)),
            ]
    return lay_out(parts, style)


def _orders_of(health: Health) -> tuple[JobOrder | None, Sequence[JobOrder]]:
    """The order that is slower for no job, if there is one, and those for some kinds of jobs.

    None where the machine does not tell its pairs apart: what is assumed of them is no reason.
    """
    if health.wiring is None or health.wiring.shape is Shape.UNKNOWN or not health.orders:
        return None, ()
    first, *rest = health.orders
    return (None, health.orders) if first.kinds else (first, rest)


def _is_a_question(health: Health, wiring: Wiring) -> bool:
    """Whether some order gains, and which one depends on the job."""
    gains = any(gain.share >= WORTH_SAYING for gain in health.gains)
    return gains and wiring.shape is not Shape.UNKNOWN and _orders_of(health)[0] is None


def _line_of(topology: Topology, order: JobOrder) -> list[Part]:
    """The line that realises an order, if one does."""
    line = order_line(topology, order.device_of_rank)
    return [to_copy(line)] if line else []


def _labelled(topology: Topology, order: JobOrder) -> list[Part]:
    """The jobs that an order is for, what it costs others, and its line or else its devices."""
    said: list[Part] = [
        Fact("For", f"{each.kind} ({_count_words(each, each.faster)}): saves {_range_words(each)}")
        for each in order.saves
    ]
    costs = [
        f"{each.kind} up to {format_percent(-each.low)} ({_count_words(each, each.slower)})"
        for each in order.costs
    ]
    said.append(Fact("Costs", ", ".join(costs) if costs else "no other kind of job anything"))
    words = Fact("", order_words(topology, order.device_of_rank))
    return [*said, *(_line_of(topology, order) or [words])]


def _range_words(effect: OrderEffect) -> str:
    """`37 % to 64 %`, of the patterns that gain."""
    least = min(low for low, _ in effect.faster)
    return span(format_percent(max(0.0, least)), format_percent(effect.high))


def _count_words(effect: OrderEffect, those: Sequence[tuple[float, float]]) -> str:
    """`2 of 4 patterns`."""
    return f"{len(those)} of {plural(len(effect.patterns), 'pattern')}"


def verdict_of_health(health: Health) -> str:
    """`healthy`, or how many faults, untold facts and doubts there are."""
    counts = Counter(finding.severity for finding in (*health.findings, *health.node))
    words = [
        plural(counts[severity], what) for severity, what in _COUNTED.items() if counts[severity]
    ]
    state = health.verdict.value
    return f"{state}: {', '.join(words)}" if words else state


def gain_words(health: Health, wiring: Wiring) -> str:
    """What order could gain, in a sentence that says what it rests on."""
    gains = health.gains
    if wiring.shape is Shape.UNKNOWN and gains:
        share = format_percent(gains[0].share)
        return f"not known; {share} if distances are as assumed (predicted: {gains[0].kind})"
    if not gains:
        return "no order to choose, or no known difference between orders"
    own = (gain.premises for gain in gains if gain.share < WORTH_SAYING)
    most = max((each.gain_range[1] for each in own if each and each.between), default=0.0)
    if gains[0].share < WORTH_SAYING <= most:
        return f"saves up to {format_percent(most)}, depending on the processor (predicted)"
    if gains[0].share < WORTH_SAYING:
        bounds = [gain.share_bound for gain in gains]
        proved = all(bound is not None and bound < WORTH_SAYING for bound in bounds)
        sure = ", proved for each" if proved else ""
        tried = plural(len(gains), "pattern")
        return f"nothing to gain: below 1 % of link time of {tried} tried{sure} (predicted)"
    for_all, _ = _orders_of(health)
    if for_all is None:
        return (
            "depends on the job: an order that is faster for one kind of job is slower for another"
            " (predicted). toposeat map finds the order for one job"
        )
    saved = ", ".join(
        f"{_range_words(each)} for {each.kind} ({_count_words(each, each.faster)})"
        for each in for_all.saves
    )
    count = f"{len(for_all.saves)} of {plural(len(for_all.effects), 'kind')} of jobs gain from it"
    return f"saves link time: {saved} (predicted; {count}, none is slower)"


def _depends(gains: Sequence[PossibleGain]) -> list[Part]:
    """What the ranges of gains depend on, and what settles them."""
    known = [gain.premises for gain in gains if gain.premises is not None]
    words = dict.fromkeys(what for premises in known for what in premises.depends_on)
    depends = [f"Ranges depend on {'; '.join(words)}."] if words else []
    return [*depends, *facts(Settles=settling_words(*known))]


def _gain_table(gains: Sequence[PossibleGain]) -> Table:
    rows: list[tuple[Words, ...]] = []
    for gain in gains:
        ends = ends_of(gain.premises)
        rows.append(
            (
                gain.pattern,
                *(format_range(each, format_seconds) for each in ends),
                *map(format_seconds, () if ends else (gain.default_s, gain.placed_s)),
                Cell("-" if ends else format_percent(gain.share), "" if ends else "better"),
                gain_range_words(gain.premises).removeprefix("saves ")
                if gain.premises is not None and gain.premises.is_doubtful
                else "-",
                "?" if gain.share_bound is None else format_percent(gain.share_bound),
            )
        )
    return Table(
        ("predicted for", "default", "best found", "saves", "may save", "at most"),
        rows,
        right=(1, 2, 3, 4, 5),
        only_used=True,
    )


def _finding(finding: Finding) -> list[Part]:
    where = f"{clean(finding.subject)}: " if finding.subject else ""
    words = Line((Cell(finding.code, "strong"), f"  {where}{clean(finding.detail)}"))
    said: list[Part] = [Fact(Cell(finding.severity.value, finding.severity.value), words, 7)]
    if finding.hint:
        said.append(Fact("", f"hint: {clean(finding.hint)}", 7))
    return said
