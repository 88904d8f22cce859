"""The growth table of `scale` as an SVG file: CPU time and cost per rank by ranks, log-log."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 420, 300  # of one panel
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 34, 44
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


@dataclass(frozen=True, kw_only=True)
class GrowthRow:
    """One kind of graph at one size; costs are medians over seeds, `cpu_s` has one per seed."""

    kind: str
    ranks: int
    pairs: int
    default_per_rank: float
    placed_per_rank: float
    cpu_s: tuple[float, ...]
    peak_mib: float


Line = tuple[str, list[tuple[float, float, float, float]]]  # name; x, y, lowest, highest


def growth_svg(rows: Sequence[GrowthRow], machine: str) -> str:
    """Two panels: CPU seconds with their spread, and cost per rank, default and placed."""
    kinds = list(dict.fromkeys(row.kind for row in rows))

    def line(name: str, kind: str, value: Callable[[GrowthRow], Sequence[float]]) -> Line:
        points = [
            (row.ranks, statistics.median(value(row)), min(value(row)), max(value(row)))
            for row in rows
            if row.kind == kind
        ]
        return name, points

    times = [line(kind, kind, lambda row: row.cpu_s) for kind in kinds]
    costs = [line(f"{kind}, placed", kind, lambda row: (row.placed_per_rank,)) for kind in kinds]
    costs += [line(f"{kind}, default", kind, lambda row: (row.default_per_rank,)) for kind in kinds]
    panels = _panel("CPU seconds (median, min to max)", times, 0)
    panels += _panel("cost per rank (median)", costs, WIDTH)
    words = escape(" ".join(machine.split()))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{HEIGHT + 20}"'
        ' font-family="sans-serif" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{panels}'
        f'<text x="8" y="{HEIGHT + 12}" font-size="9" fill="#555">{words}</text>\n</svg>\n'
    )


def _panel(title: str, lines: Sequence[Line], offset: int) -> str:
    points = [point for _, line in lines for point in line]
    x_low, x_high = _decades([x for x, *_ in points])
    y_low, y_high = _decades([value for _, *values in points for value in values])

    def x_at(x: float) -> float:
        return offset + LEFT + (WIDTH - LEFT - RIGHT) * (log10(x) - x_low) / (x_high - x_low)

    def y_at(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (log10(y) - y_low) / (y_high - y_low)

    left, right = x_at(10.0**x_low), x_at(10.0**x_high)
    parts = [f'<text x="{left:.1f}" y="18" font-weight="bold">{escape(title)}</text>']
    for power in range(y_low, y_high + 1):
        y = y_at(10.0**power)
        parts.append(f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 5:.1f}" y="{y + 4:.1f}" text-anchor="end">1e{power}</text>')
    for power in range(x_low, x_high + 1):
        x = x_at(10.0**power)
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">1e{power}</text>'
        )
    parts.append(f'<text x="{right:.1f}" y="{HEIGHT - 12}" text-anchor="end">ranks</text>')
    for number, (name, line) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path = "L".join(f"{x_at(x):.1f} {y_at(y):.1f}" for x, y, *_ in line)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for x, y, low, high in line:
            parts.append(f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="2.5" fill="{colour}"/>')
            parts.append(
                f'<path d="M{x_at(x):.1f} {y_at(low):.1f}V{y_at(high):.1f}" stroke="{colour}"/>'
            )
        parts.append(
            f'<text x="{right - 8:.1f}" y="{HEIGHT - BOTTOM - 10 - 14 * (len(lines) - 1 - number)}"'
            f' fill="{colour}" text-anchor="end">'
            f"{escape(name)}</text>"
        )
    return "\n".join(parts) + "\n"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Powers of ten around the values, at least one decade apart."""
    low = floor(log10(min(values)))
    return low, max(low + 1, ceil(log10(max(values))))
