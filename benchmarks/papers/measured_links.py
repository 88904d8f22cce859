"""Published measurements of links and pairs, as papers: the rows of `physics`."""

from __future__ import annotations

from benchmarks.papers import physics
from benchmarks.papers.row import Paper, Row, Status

TITLE = (
    "Published measurements of GPU pairs: Tartan (P100), POWER9, MI250, POWER8, Aurora and others"
)
MACHINE = "the catalogue's topologies and the constants of links; within 10 % holds"


def paper() -> Paper:
    return Paper(title=TITLE, machine=MACHINE, rows=tuple(map(_row, physics.compare())))


def _row(each: physics.Comparison) -> Row:
    row = each.row
    unit = "us" if row.quantity == "latency" else "GB/s"
    return Row(
        figure=row.source,
        quantity=f"{row.name}, {row.quantity}",
        published=f"{row.published:.2f} {unit}",
        predicted=f"{each.model:.2f} {unit} ({100 * each.error:+.1f} %)",
        status=Status(row.mark),
        holds=abs(each.error) <= physics.LIMIT,
        note=f"determined by: {row.why}",
    )
