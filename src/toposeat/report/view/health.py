"""A verdict on a machine: wiring, what order could gain, and findings, worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from toposeat.model.health import Finding, Health, PossibleGain, Severity, Shape, Wiring
from toposeat.model.quantity import WORTH_SAYING
from toposeat.model.topology import Topology
from toposeat.model.visible_list import order_line
from toposeat.report.parts import Cell, Fact, Line, Part, Table, to_copy
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean, format_percent, format_seconds, plural
from toposeat.report.view.machine import order_words, premise_words, topology_sentence
from toposeat.report.view.mapping import gain_range_words

_MOST_GAINS = 5
_COUNTED = {
    Severity.FAULT: "fault",
    Severity.UNTOLD: "untold fact",
    Severity.DOUBT: "doubt",
}


def render_health_text(topology: Topology | None, health: Health, style: TextStyle = PLAIN) -> str:
    """The verdict at a glance, then what it rests on; `topology` is None where there is none."""
    parts: list[Part] = [Fact("Verdict", verdict_of_health(health))]
    if health.wiring is not None:
        parts.append(Fact("Order", gain_words(health.gains, health.wiring)))
        parts += [*_best_order(topology, health), ""]
    if topology is not None:
        parts.append(Fact("Machine", topology_sentence(topology)))
    if health.wiring is not None:
        wiring = health.wiring
        parts.append(Fact("Wiring", f"{wiring.shape.value}: {clean(wiring.reason)}"))
    shown = [gain for gain in health.gains if gain.share >= WORTH_SAYING][:_MOST_GAINS]
    if shown:
        parts += ["", _gain_table(shown)]
    for title, members in (("", health.findings), ("This node", health.node)):
        if members:
            parts += [
                "",
                *([title] if title else []),
                *(part for each in members for part in _finding(each)),
            ]
    return lay_out(parts, style)


def _best_order(topology: Topology | None, health: Health) -> list[Part]:
    """The order that gains most, and the line that realises it; nothing where none gains."""
    best = health.gains[0] if health.gains else None
    if topology is None or best is None or best.share < WORTH_SAYING:
        return []
    order = order_line(topology, best.device_of_rank)
    return [
        Fact("", order_words(topology, best.device_of_rank)),
        *([to_copy(order)] if order else []),
    ]


def verdict_of_health(health: Health) -> str:
    """`healthy`, or how many faults, untold facts and doubts there are."""
    counts = Counter(finding.severity for finding in (*health.findings, *health.node))
    words = [
        plural(counts[severity], what) for severity, what in _COUNTED.items() if counts[severity]
    ]
    state = health.verdict.value
    return f"{state}: {', '.join(words)}" if words else state


def gain_words(gains: Sequence[PossibleGain], wiring: Wiring) -> str:
    """What order could gain, in a sentence that says what it rests on."""
    if wiring.shape is Shape.UNKNOWN and gains:
        share = format_percent(gains[0].share)
        return f"not known; {share} if distances are as assumed (predicted: {gains[0].words})"
    if not gains:
        return "no order to choose, or no known difference between orders"
    best = gains[0]
    tried = f"of {plural(len(gains), 'pattern')} tried"
    if best.share < WORTH_SAYING:
        bounds = [gain.share_bound for gain in gains]
        proved = all(bound is not None and bound < WORTH_SAYING for bound in bounds)
        sure = ", proved for each" if proved else ""
        return f"nothing to gain: below 1 % of link time {tried}{sure} (predicted)"
    count = sum(gain.share >= WORTH_SAYING for gain in gains)
    saved = f"up to {format_percent(best.share)}"
    depends = ""
    if best.premises is not None and best.premises.is_doubtful:
        saved = gain_range_words(best.premises)
        what = "; ".join(premise_words(each) for each in best.premises.deciding)
        depends = f", depending on {what}" if what else ""
    words = f"may save {saved} of link time: {best.words}"
    return f"{words} (predicted; {count} {tried} gain from it){depends}"


def _gain_table(gains: Sequence[PossibleGain]) -> Table:
    rows = [
        (
            gain.pattern,
            format_seconds(gain.default_s),
            format_seconds(gain.placed_s),
            format_percent(gain.share),
            gain_range_words(gain.premises)
            if gain.premises is not None and gain.premises.is_doubtful
            else "-",
            "?" if gain.share_bound is None else format_percent(gain.share_bound),
        )
        for gain in gains
    ]
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
