"""Clocked runs of placements as text: seconds, gain with its interval, prediction beside it."""

from __future__ import annotations

import statistics

from rich.console import RenderableType
from rich.text import Text

from toposeat.model.clocked import ClockedResult
from toposeat.model.shell_words import shell_line
from toposeat.report.text.bench import gain_cell, gain_words, interval, spread
from toposeat.report.text.console import PLAIN, TextStyle, columns, labelled, lay_out, sentences
from toposeat.report.units import clean, format_seconds, plural


def render_clocked_text(result: ClockedResult, style: TextStyle = PLAIN) -> str:
    """The verdict, what was run how often, and one row per order."""
    word = "emulated" if result.emulated else "measured"
    parts: list[RenderableType] = [
        labelled("Verdict", clocked_verdict(result)),
        "",
        labelled("Clocked", f"{word}: {result.what}"),
        labelled("Runs", _runs_words(result)),
        labelled("Where", _where(result)),
        labelled("Line", clean(shell_line(result.command))),
        "",
        _table(result, word),
    ]
    parts += sentences(result.notes)
    return lay_out(parts, style)


def clocked_verdict(result: ClockedResult) -> str:
    """One sentence per candidate."""
    if len(result.default_s) < 2:
        return "one repeat only: no spread, so no verdict; use --repeats 5"
    word = "emulated" if result.emulated else "measured"
    said = []
    for order in result.orders:
        if result.is_noise(order):
            said.append(f"{clean(order.name)}: no measurable difference")
        else:
            change = "gain of " if order.gain.mean > 0 else "loss of "
            change = "" if order.gain.mean <= -1 else change
            said.append(f"{clean(order.name)}: {word} {change}{gain_words(order.gain.mean)}")
    return "; ".join(said)


def _runs_words(result: ClockedResult) -> str:
    base = clean(result.baseline)
    what = "placement" if base == "default" else "candidate"
    return (
        f"{plural(len(result.default_s), 'repeat')} of {base}, {plural(len(result.orders), what)},"
        f" {base} again, taking turns; gain = mean of paired ratios, with its 95 % interval; A/A ="
        f" the {base} against itself: {spread(result.control)}"
    )


def _where(result: ClockedResult) -> str:
    where = f"{clean(result.host)}, {result.started_at}"
    if not result.emulated:
        return where
    return f"{where}; EMULATED: the stand-in of {clean(result.emulated)}, not a GPU"


def _table(result: ClockedResult, word: str) -> RenderableType:
    header = ["\n", f"median\n{word}", f"gain\n{word}", f"95 % interval\n{word}"]
    both = (*result.default_s, *result.again_s)
    rows: list[list[str | Text]] = [
        [clean(result.baseline), format_seconds(statistics.median(both)), "", ""]
    ]
    rows += [
        [
            clean(order.name),
            format_seconds(statistics.median(order.seconds)),
            gain_cell(order.gain.mean, is_noise=result.is_noise(order)),
            interval(order.gain),
        ]
        for order in result.orders
    ]
    forecast = [order.predicted for order in result.orders if order.predicted is not None]
    if forecast:
        header.append("gain\npredicted")
        for row, words in zip(rows, ["", *map(gain_words, forecast)], strict=True):
            row.append(words)
    if result.predicted_s:
        header += ["link time\npredicted", f"{word} /\npredicted"]
        clocked = [both, *(order.seconds for order in result.orders)]
        for row, seconds, predicted in zip(rows, clocked, result.predicted_s, strict=True):
            row += [format_seconds(predicted), f"{statistics.median(seconds) / predicted:.2f}"]
    return columns(header, rows, right=range(1, len(header)))
