"""Runs: what was measured, what each rank got, how orders compare on a clock, and a running job."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from toposeat.model.evaluation import MappingResult
from toposeat.model.plural import plural
from toposeat.model.protocol import Advice, ProtocolRule, Stack
from toposeat.model.route import CopyProtocol
from toposeat.model.runs import (
    ClockedPattern,
    ClockedResult,
    Gain,
    RunRecord,
    SeatVerdict,
)
from toposeat.model.shell_words import shell_line, shell_word
from toposeat.model.topology import Topology
from toposeat.report.parts import (
    Cell,
    Fact,
    Part,
    Table,
    Words,
    facts,
    gain_cell,
    sentences,
    to_copy,
)
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean, format_bytes, format_seconds, format_share
from toposeat.report.view.differences import rank_differences

_MOST = 9  # causes that are told after a run
_NO_SPREAD = "one repeat only: no spread, so {}; use --repeats 5"
_MEANING = "saves = mean of paired ratios, with its 95 % interval; A/A = the {} against itself"


def render_verdict(record: RunRecord, style: TextStyle = PLAIN) -> str:
    """The verdict, then only what differs from the plan: a dozen lines at most, and one of time.

    A cause is said once for all ranks that have it, also where it names a device of each.
    """
    parts: list[Part] = [_verdict(record)]
    told = [*rank_differences(record.seats, alike=True), *record.notes]
    parts += sentences(told[:_MOST])
    if len(told) > _MOST:
        parts += sentences([f"{len(told) - _MOST} causes more: run with -o FILE, then report FILE"])
    parts.append(f"Took {format_seconds(record.wall_s)}, exit code {record.exit_code}")
    return lay_out(parts, style)


def _verdict(record: RunRecord) -> str:
    """`16 ranks as planned on 4 nodes`."""
    if not record.placement:
        return "No placement: ranks are where the launcher put them"
    if not record.seats:
        return "No rank was asked what it got"
    counts = Counter(seat.verdict for seat in record.seats)
    hosts = len({seat.host for seat in record.seats if seat.host})
    where = f" on {plural(hosts, 'node')}" if hosts else ""
    ranks = len(record.seats)
    wrong, unknown = counts[SeatVerdict.MISMATCH], counts[SeatVerdict.NOT_CHECKED]
    if wrong:
        rest = f", {unknown} not checked" if unknown else ""
        return f"{wrong} of {plural(ranks, 'rank')}{where} not as planned{rest}"
    if unknown == ranks and not hosts and record.exit_code:
        return f"No rank reported what it got: the launcher ended with code {record.exit_code}"
    if unknown == ranks:
        return f"{plural(ranks, 'rank')}{where}, not all of the plan checked"
    silent = sum(not seat.host for seat in record.seats)
    rest = f", {silent} not heard" if silent else ""
    rest += f", not all of the plan checked for {unknown - silent}" if unknown > silent else ""
    heard = f"{ranks - silent} of " if silent else ""
    return f"{heard}{plural(ranks, 'rank')} as planned{where}{rest}"


def render_run_text(record: RunRecord, style: TextStyle = PLAIN) -> str:
    """What was run, how long it took (measured), and the verdict on every rank."""
    return lay_out(run_parts(record), style)


def run_parts(record: RunRecord) -> list[Part]:
    """The run, its seats, what differs from the plan, and notes."""
    repeats = f", {plural(record.repeats, 'run')}" if record.repeats > 1 else ""
    placed_by = f"{clean(record.placement)}, visibility {clean(record.visibility)}"
    parts: list[Part] = [
        Fact("Run", clean(shell_line(record.command))),
        Fact("Placed by", placed_by if record.placement else "the launcher"),
        Fact("Where", f"{clean(record.host)}, {clean(record.started_at)}"),
        Fact(
            "Measured",
            f"wall time {format_seconds(record.wall_s)}{repeats}, exit code {record.exit_code}",
        ),
    ]
    if record.seats:
        parts += ["", _seats(record), "", _verdict(record)]
        parts += sentences(rank_differences(record.seats))
    return parts + sentences(record.notes)


def _seats(record: RunRecord) -> Table:
    header = ("rank", "host", "pci", "visible devices", "cpus", "memory", "nic", "verdict")
    rows: list[list[Words]] = []
    for seat in record.seats:
        known = (seat.host, seat.pci_bus_id, seat.visible_devices, seat.cpus, seat.memory_policy)
        look = seat.verdict.name.lower().replace("_", "-")
        cells = (each or "-" for each in (*known, seat.nic))
        rows.append([str(seat.rank), *cells, Cell(seat.verdict.value, look)])
    caption = "As seen from inside each rank"
    return Table(header, rows, (0,), fold=(3, 4, 7), only_used=True, caption=caption)


def render_pattern_text(result: ClockedPattern, style: TextStyle = PLAIN) -> str:
    """The verdict, what was compared and how often, and one row per message size."""
    order = " ".join(map(str, result.device_of_rank))
    kept = " (the default: nothing is gained)" if result.is_default_kept else ""
    one = result.results[0]
    again = "default, placed, random, default again" if result.randoms else "default, placed, again"
    said = facts(
        Clocked=f"{_word(one)}: {one.what}",
        Pattern=f"{clean(result.pattern)}, {result.ranks} ranks on {result.topology}",
        Runs=f"{plural(len(one.default_s), 'repeat')} of {again}, taking turns; {result.buffers}"
        f" buffers; {_MEANING.format('default')}",
        Where=f"{_where(one)}, {clean(result.mpi)}",
        Line=clean(shell_line(one.command)),
        Placed=f"device of rank 0, 1, ...: {order}{kept}",
        Predicted=f"by {result.algorithm}; the MPI chose its own" if result.algorithm else None,
    )
    verdict = Fact("Verdict", pattern_verdict(result))
    return lay_out([verdict, "", *said, "", _size_table(result), *sentences(result.notes)], style)


def pattern_verdict(result: ClockedPattern) -> str:
    """The largest gain and where, and how many sizes show no difference."""
    if result.is_default_kept:
        return "the default order is kept: no order is predicted to be faster"
    if len(result.results[0].default_s) < 2:
        return _NO_SPREAD.format("no verdict")
    placed = [each.orders[0] for each in result.results]
    clear = {
        size: order.gain.mean
        for size, each, order in zip(result.sizes, result.results, placed, strict=True)
        if not each.is_noise(order)
    }
    if not clear:
        return "no measurable difference at any size; keep the default"
    best = max(clear, key=lambda size: clear[size])
    return (
        f"{gain_words(clear[best])} at {format_bytes(best)}, {_word(result.results[0])};"
        f" no measurable difference at {len(placed) - len(clear)} of {plural(len(placed), 'size')}"
    )


def _size_table(result: ClockedPattern) -> Table:
    word = _word(result.results[0])
    rows: list[list[Words]] = []
    for size, each in zip(result.sizes, result.results, strict=True):
        placed, *random = each.orders
        rows.append(
            [
                format_bytes(size),
                _median((*each.default_s, *each.again_s)),
                _median(placed.seconds),
                _measured(placed.gain.mean, is_noise=each.is_noise(placed)),
                interval(placed.gain),
                spread(each.control),
                spread(random[0].gain if random else None),
                "-" if placed.predicted is None else _predicted(placed.predicted),
            ]
        )
    clocked = ("default", "placed", "saves", "95 % interval", "A/A", f"{result.randoms} random")
    header = ["\nmessage", *(f"{each}\n{word}" for each in clocked), "saves\npredicted"]
    return Table(header, rows, right=range(len(header)), only_used=True)


def _word(result: ClockedResult) -> str:
    return "emulated" if result.emulated else "measured"


def gain_words(share: float) -> str:
    """`saves 26.8 %`, `costs 3.1 %`, with a decimal, which a clock tells."""
    return format_share(share, "{:.1%}".format).replace("%", " %")


def percent(share: float) -> str:
    """A share as percent with a sign: `+26.8 %`, `-3.1 %`, `0.0 %`."""
    value = round(100 * share, 1) + 0.0  # no negative zero
    return "0.0 %" if value == 0 else f"{value:+.1f} %"


def _measured(gain: float, *, is_noise: bool) -> Cell:
    """A gain in its colour; `?` where it is not told apart from noise."""
    found = _predicted(gain)
    return Cell(f"{found.words} ?", "noise") if is_noise else found


def _predicted(gain: float) -> Cell:
    return gain_cell(gain_words(gain))


def interval(gain: Gain) -> str:
    """The 95 % interval, `-` without one."""
    if gain.low is None or gain.high is None:
        return "-"
    return f"{percent(gain.low).removesuffix(' %')} to {percent(gain.high)}"


def spread(gain: Gain | None) -> str:
    """Mean and deviation."""
    if gain is None:
        return "-"
    deviation = "" if gain.deviation is None else f" +- {100 * gain.deviation:.1f}"
    return percent(gain.mean).removesuffix(" %") + deviation + " %"


def render_clocked_text(result: ClockedResult, style: TextStyle = PLAIN) -> str:
    """The verdict, what was run how often, and one row per order."""
    word = _word(result)
    said = facts(
        Clocked=f"{word}: {result.what}",
        Runs=_runs_words(result),
        Where=_where(result),
        Line=clean(shell_line(result.command)),
    )
    verdict = Fact("Verdict", clocked_verdict(result))
    return lay_out([verdict, "", *said, "", _table(result, word), *sentences(result.notes)], style)


def clocked_verdict(result: ClockedResult) -> str:
    """One sentence per candidate."""
    if len(result.default_s) < 2:
        return _NO_SPREAD.format("no verdict")
    word = _word(result)
    said = []
    for order in result.orders:
        if result.is_noise(order):
            said.append(f"{clean(order.name)}: no measurable difference")
        else:
            said.append(f"{clean(order.name)}: {gain_words(order.gain.mean)}, {word}")
    return "; ".join(said)


def _runs_words(result: ClockedResult) -> str:
    base = clean(result.baseline)
    what = "placement" if base == "default" else "candidate"
    return (
        f"{plural(len(result.default_s), 'repeat')} of {base}, {plural(len(result.orders), what)},"
        f" {base} again, taking turns; {_MEANING.format(base)}: {spread(result.control)}"
    )


def _where(result: ClockedResult) -> str:
    where = f"{clean(result.host)}, {result.started_at}"
    if not result.emulated:
        return where
    return f"{where}; EMULATED: the stand-in of {clean(result.emulated)}, not a GPU"


def _table(result: ClockedResult, word: str) -> Table:
    both = (*result.default_s, *result.again_s)
    rows: list[list[Words]] = [[clean(result.baseline), _median(both), "", ""]]
    rows += [
        [
            clean(order.name),
            _median(order.seconds),
            _measured(order.gain.mean, is_noise=result.is_noise(order)),
            interval(order.gain),
        ]
        for order in result.orders
    ]
    header = ["\n", f"median\n{word}", f"saves\n{word}", f"95 % interval\n{word}"]
    forecast = [order.predicted for order in result.orders if order.predicted is not None]
    if forecast:
        header.append("saves\npredicted")
        rows[0].append("")
        for row, share in zip(rows[1:], forecast, strict=True):
            row.append(_predicted(share))
    if result.predicted_s:
        header += ["link time\npredicted", f"{word} /\npredicted"]
        clocked = [both, *(order.seconds for order in result.orders)]
        for row, seconds, predicted in zip(rows, clocked, result.predicted_s, strict=True):
            row += [format_seconds(predicted), f"{statistics.median(seconds) / predicted:.2f}"]
    return Table(header, rows, right=range(1, len(header)))


def _median(seconds: Sequence[float]) -> str:
    return format_seconds(statistics.median(seconds))


def render_demo_text(
    machines: Sequence[tuple[Topology, MappingResult]],
    clocked: ClockedResult | None,
    style: TextStyle = PLAIN,
) -> str:
    """One line per machine and one for the clock, and where an order gains the line to copy.

    The clocked runs were on emulated GPUs of the first machine; None where there were none.
    """
    # with numpy it would be a third of every `run`
    from toposeat.report.view.mapping import line_to_copy, verdict_words  # noqa: PLC0415

    parts: list[Part] = []
    for number, (machine, result) in enumerate(machines):
        parts.append(Fact(clean(machine.name), verdict_words(result)))
        line = line_to_copy(result, machine)
        if line:
            parts.append(to_copy(line))
        if number == 0 and clocked is not None:
            parts.append(Fact("Clocked", _clocked(clocked)))
    return lay_out(parts, style)


def _clocked(result: ClockedResult) -> str:
    """`placed: saves 55.0 %, emulated (+54.0 to +56.0 %); predicted for these runs: ...`."""
    order = result.orders[0]
    spread = "" if result.is_noise(order) else f" ({interval(order.gain)})"
    forecast = "" if order.predicted is None else gain_words(order.predicted)
    return f"{clocked_verdict(result)}{spread}; predicted for these runs: {forecast}"


def render_advice_text(advice: Advice, style: TextStyle = PLAIN) -> str:
    """What is recommended, what the stack does, what could be set, and what was clocked."""
    parts: list[Part] = [
        Fact("Advice", advice_verdict(advice)),
        *_lines(advice),
        "",
        *_stack(advice.stack),
        "",
        _settings(advice),
    ]
    text = lay_out(parts, style)
    if advice.clocked is not None:
        text = f"{text}\n{render_clocked_text(advice.clocked, style)}"
    return text


def advice_verdict(advice: Advice) -> str:
    """One sentence."""
    clocked = advice.clocked
    if clocked is None:
        return "no setting is left to try; keep the environment as it is"
    where = f" on the stand-in of {clean(clocked.emulated)} (EMULATED)" if clocked.emulated else ""
    if len(clocked.default_s) < 2:
        return _NO_SPREAD.format("nothing is verified")
    if advice.recommended is None:
        return f"no measurable gain{where}; keep the environment as it is"
    order = next(each for each in clocked.orders if each.name == advice.recommended.name)
    verified = f"{clean(order.name)}: verified{where}, {gain_words(order.gain.mean)} of the time"
    if clocked.emulated:
        return f"{verified}. This holds for the stand-in only; do not set it on a real machine"
    return verified


def environment_lines(variables: Mapping[str, str]) -> list[str]:
    """`export NAME=VALUE`, ready for a shell."""
    return [f"export {name}={shell_word(value)}" for name, value in variables.items()]


def _stack(stack: Stack) -> list[Part]:
    name = " ".join(each for each in (stack.kind.value, stack.version) if each)
    said: list[Part] = [
        Fact("Stack", clean(f"{name}, device messages by {stack.transport}")),
        Fact("Set now", clean(_words(stack.variables) or "no variable of it")),
        Fact("Does", _rule_words(stack.rule)),
    ]
    for each in stack.statements:
        source = f" [{each.source}]" if each.source else ""
        said.append(Fact("", clean(f"{each.basis.value}: {each.text}{source}")))
    return said


def _rule_words(rule: ProtocolRule) -> str:
    meaning = {
        CopyProtocol.GET: "the receiver reads",
        CopyProtocol.PUT: "the sender writes",
        CopyProtocol.COOPERATE: "both copy one half",
        CopyProtocol.STAGED: "through host memory",
    }
    words = [
        meaning[protocol] if first == 0 else f"from {format_bytes(first)} on {meaning[protocol]}"
        for first, protocol in rule.pieces
    ]
    return ", ".join(words)


def _settings(advice: Advice) -> Part:
    rows = [
        [
            clean(each.name),
            clean(_words(each.variables)),
            clean(advice.skipped.get(each.name, "")),
        ]
        for each in advice.stack.settings
    ]
    return Table(("setting", "set", "not tried"), rows)


def _lines(advice: Advice) -> list[Part]:
    """The lines to type, only for what was verified."""
    setting = advice.recommended
    if setting is None:
        return []
    lines: list[Part] = [f"    {each}" for each in environment_lines(setting.variables)]
    if advice.stack.kind.value.startswith("openmpi"):
        forwarded = " ".join(f"-x {name}" for name in setting.variables)
        lines.append(f"    (several nodes: mpirun {forwarded} ...)")
    if setting.caution:
        lines.append(Fact("Caution", clean(setting.caution)))
    return lines


def _words(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shell_word(value)}" for name, value in variables.items())
