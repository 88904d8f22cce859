"""Numbers and names as people read them. Sizes in GiB, rates in GB/s (10^9), times in s/ms/us."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
NO_SHARE = 0.0005  # of what is saved: below it nothing is
_RATE_UNITS = ("B/s", "kB/s", "MB/s", "GB/s", "TB/s")


def clean(text: str) -> str:
    """`text` on one line, without what could steer a terminal or reorder a line.

    Names come from files of other people: control, format (bidirectional overrides) and surrogate
    characters are replaced by U+FFFD; blanks of every kind become a plain blank.
    """
    if text.isascii() and text.isprintable():
        return text.strip()
    out = []
    for char in text:
        category = unicodedata.category(char)
        if category in ("Zs", "Zl", "Zp") or char in "\t\n\r":
            out.append(" ")
        elif category in ("Cc", "Cf", "Cs", "Co", "Cn"):
            out.append("\N{REPLACEMENT CHARACTER}")
        else:
            out.append(char)
    return "".join(out).strip()


def three_digits(value: float) -> str:
    """`value` with three significant digits and no exponent for 0.001 <= |value| < 10000."""
    if not math.isfinite(value):
        return "?"
    size = abs(value)
    if size == 0:
        return "0"
    if size < 0.001 or size >= 99_999.5:
        return f"{value:.2e}"
    if size >= 99.95:
        return f"{value:.0f}"
    limits = (9.995, 0.9995, 0.09995, 0.009995)  # from here on one decimal, two, three ...
    decimals = next((n for n, limit in enumerate(limits, 1) if size >= limit), 5)
    return f"{value:.{decimals}f}"


def format_bytes(value: float) -> str:
    """Bytes with a binary unit: `0 B`, `512 B`, `1.50 KiB`, `41.8 GiB`."""
    size, unit = _scaled(value, 1024, 1023.95, _BYTE_UNITS)
    return f"{size:.0f} B" if unit == "B" else f"{three_digits(size)} {unit}"


def format_rate(bytes_per_s: float) -> str:
    """Bytes per second with a decimal unit: `12.3 GB/s`."""
    size, unit = _scaled(bytes_per_s, 1000, 999.5, _RATE_UNITS)
    return f"{three_digits(size)} {unit}"


def _scaled(value: float, step: int, limit: float, units: Sequence[str]) -> tuple[float, str]:
    """A value below `limit` in one of units, each of which is `step` of the one before."""
    unit = 0
    while abs(value) >= limit and unit < len(units) - 1:
        value /= step
        unit += 1
    return value, units[unit]


def format_seconds(value: float) -> str:
    """Seconds as `3.10 s`, `1.62 ms`, `12.0 us` or `8.00 ns`."""
    if not math.isfinite(value):
        return "?"
    size = abs(value)
    if size == 0:
        return "0 s"
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns")):
        if size * factor >= 0.9995 or unit == "ns":
            return f"{three_digits(value * factor)} {unit}"
    raise AssertionError("unreachable")


def format_count(value: float) -> str:
    """A whole number with separators: `12,345`."""
    return f"{value:,.0f}"


def format_percent(share: float) -> str:
    """0.22 as `22 %`; below one per cent with one decimal; never rounded up to `100 %`."""
    value = share * 100
    if 99.5 <= value < 100:
        return f"{min(value, 99.9):.1f} %"
    if 0 < abs(value) < 0.95:
        return f"{value:.1f} %" if abs(value) >= 0.05 else "<0.1 %"
    return f"{value:.0f} %"


def format_gain(before: float, after: float) -> str:
    """What is saved of `before`, as `format_share` says it; `-` where `before` is nothing."""
    if before == after:
        return "0 %"
    if before == 0 or not (math.isfinite(before) and math.isfinite(after)):
        return "-"
    return format_share((before - after) / before)


def format_share(saved: float, percent: Callable[[float], str] = format_percent) -> str:
    """What is saved: `saves 48 %`, `costs 3 %`, `0 %`; from twice as much on, `costs 12.5x`."""
    if saved <= -1:
        return f"costs {three_digits(1 - saved)}x"
    if abs(saved) < NO_SHARE:
        return "0 %"
    return ("saves " if saved > 0 else "costs ") + percent(abs(saved))


def format_power_of_two(exponent: int) -> str:
    """2^exponent bytes without decimals: `1 B`, `64 KiB`, `2 GiB`."""
    unit = min(exponent // 10, len(_BYTE_UNITS) - 1)
    return f"{1 << (exponent - 10 * unit)} {_BYTE_UNITS[unit]}"


def known(value: object, form: Callable[[Any], str] = str) -> str:
    """`value` in this form; `-` where it is not known."""
    return "-" if value is None else form(value)


def span(*words: str, joint: str = " to ") -> str:
    """Words from the least to the greatest, those that are alike once: `2 to 8 GiB`, `8 GiB`."""
    return joint.join(dict.fromkeys(words))


def format_range(ends: tuple[float, float], form: Callable[[float], str] = format_rate) -> str:
    """`3.50 to 24.4 GB/s`, `48.0 GB/s`."""
    (least, _, unit), (most, _, other) = (form(each).partition(" ") for each in ends)
    return f"{span(least if unit == other else f'{least} {unit}', most)} {other}"


def format_rates(rate: float, low: float, high: float) -> str:
    """`24.1 GB/s (2.40 GB/s to 25.0 GB/s)`; without a range where its ends are alike."""
    found, least, most = map(format_rate, (rate, low, high))
    return found if least == most else f"{found} ({least} to {most})"
