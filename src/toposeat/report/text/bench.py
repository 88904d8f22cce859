"""A bench as text: improvement over the default order per message size."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from toposeat.model.bench import BenchResult, BenchSource, Gain
from toposeat.model.shell_words import shell_line
from toposeat.report.text.console import PLAIN, TextStyle, columns, labelled, lay_out, sentences
from toposeat.report.units import clean, format_bytes, format_seconds, plural, three_digits

_TIMES = {
    BenchSource.MEASURED: "measured: wall time of the slowest rank, per exchange",
    BenchSource.PREDICTED: "predicted by the flow model; nothing was run",
}


def render_bench_text(result: BenchResult, style: TextStyle = PLAIN) -> str:
    """The verdict, what was compared and how often, and one row per message size."""
    parts: list[RenderableType] = [
        labelled("Verdict", bench_verdict(result)),
        "",
        labelled("Bench", f"{clean(result.pattern)}, {result.ranks} ranks on {result.topology}"),
        labelled("Times", _TIMES[result.source]),
    ]
    if result.algorithm:
        parts.append(labelled("Algorithm", _algorithm_words(result)))
    if result.source is BenchSource.MEASURED:
        parts += [
            labelled("Runs", _runs_words(result)),
            labelled("Where", f"{clean(result.host)}, {result.started_at}, {clean(result.mpi)}"),
        ]
    if result.command:
        parts.append(labelled("Line", clean(shell_line(result.command))))
    order = " ".join(map(str, result.device_of_rank))
    kept = " (the default: nothing is gained)" if result.is_default_kept else ""
    parts += [labelled("Placed", f"device of rank 0, 1, ...: {order}{kept}"), "", _table(result)]
    parts += sentences(result.notes)
    return lay_out(parts, style)


def bench_verdict(result: BenchResult) -> str:
    """The largest gain and where, and how many sizes show no difference."""
    if result.is_default_kept:
        return "the default order is kept: no order is predicted to be faster"
    best = max(result.rows, key=lambda row: row.placed.mean)
    if result.source is not BenchSource.MEASURED:
        worst = min(result.rows, key=lambda row: row.placed.mean)
        return (
            f"{result.source.value} gains from {gain_words(worst.placed.mean)}"
            f" ({format_bytes(worst.bytes)}) to {gain_words(best.placed.mean)}"
            f" ({format_bytes(best.bytes)})"
        )
    clear = [row for row in result.rows if not row.is_noise]
    if result.repeats < 2:
        return "one repeat only: no spread, so no verdict; use --repeats 5"
    if not clear:
        return "no measurable difference at any size; keep the default"
    best = max(clear, key=lambda row: row.placed.mean)
    return (
        f"measured gain of {percent(best.placed.mean)} at {format_bytes(best.bytes)};"
        f" no measurable difference at {len(result.rows) - len(clear)} of"
        f" {plural(len(result.rows), 'size')}"
    )


def gain_words(share: float) -> str:
    """A gain as percent with a sign; what takes twice as long or longer as `12.5x slower`."""
    return f"{three_digits(1 - share)}x slower" if share <= -1 else percent(share)


def percent(share: float) -> str:
    """A share as percent with a sign: `+26.8 %`, `-3.1 %`, `0.0 %`."""
    value = round(100 * share, 1) + 0.0  # no negative zero
    return "0.0 %" if value == 0 else f"{value:+.1f} %"


def _algorithm_words(result: BenchResult) -> str:
    """The algorithm whose steps are timed."""
    whose = {
        BenchSource.MEASURED: "in the prediction; the MPI chose its own",
        BenchSource.PREDICTED: "step by step; a rank goes on when its own messages are done",
    }
    return f"{clean(result.algorithm)} {whose[result.source]}"


def _runs_words(result: BenchResult) -> str:
    again = "default, placed, random, default again" if result.randoms else "default, placed, again"
    return (
        f"{plural(result.repeats, 'repeat')} of {again}, interleaved; {result.buffers} buffers;"
        " gain = mean of paired ratios, with its 95 % interval; A/A = the default against itself"
    )


def _table(result: BenchResult) -> RenderableType:
    word = result.source.value
    has_interval = any(row.placed.low is not None for row in result.rows)
    has_control = any(row.control is not None for row in result.rows)
    has_random = any(row.random is not None for row in result.rows)
    has_forecast = any(row.predicted is not None for row in result.rows)
    header = ["\nmessage", f"default\n{word}", f"placed\n{word}", f"gain\n{word}"]
    header += [f"95 % interval\n{word}"] if has_interval else []
    header += [f"A/A\n{word}"] if has_control else []
    header += [f"{result.randoms} random\n{word}"] if has_random else []
    header += ["gain\npredicted"] if has_forecast else []
    rows = []
    for row in result.rows:
        cells: list[str | Text] = [
            format_bytes(row.bytes),
            format_seconds(row.default_s),
            format_seconds(row.placed_s),
            gain_cell(row.placed.mean, is_noise=row.is_noise),
        ]
        cells += [interval(row.placed)] if has_interval else []
        cells += [spread(row.control)] if has_control else []
        cells += [spread(row.random)] if has_random else []
        if has_forecast:
            cells.append("-" if row.predicted is None else gain_words(row.predicted))
        rows.append(cells)
    return columns(header, rows, right=range(len(header)))


def gain_cell(gain: float, *, is_noise: bool) -> Text:
    """A gain as percent, green or red; `?` where it is not told apart from noise."""
    if is_noise:
        return Text(f"{gain_words(gain)} ?", style="yellow")
    return Text(gain_words(gain), style="green" if gain > 0 else "red" if gain < 0 else "")


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
