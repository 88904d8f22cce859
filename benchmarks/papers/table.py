"""The papers as text and Markdown."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.machine import markdown_table
from benchmarks.papers.row import Paper, Row, Status

_WORDS = {True: "holds", False: "DIFFERS", None: "-"}
_HEADER = ("figure", "what", "published", "predicted", "simulated", "measured here", "status", "")


def text_of(papers: Sequence[Paper]) -> Iterator[str]:
    for paper in papers:
        yield ""
        yield from textwrap.wrap(paper.title, 100)
        yield from textwrap.wrap(f"Model: {paper.machine}", 100, subsequent_indent="       ")
        for row in paper.rows:
            yield ""
            yield f"  {row.figure}: {row.quantity}"
            for name, value in _values(row):
                yield from textwrap.wrap(
                    f"{name:14}{value}", 96, initial_indent="    ", subsequent_indent=" " * 18
                )
    yield ""
    yield counts(papers)


def _values(row: Row) -> Iterator[tuple[str, str]]:
    yield "published", row.published
    for name, value in (
        ("predicted", row.predicted),
        ("simulated", row.simulated),
        ("measured here", row.measured),
    ):
        if value:
            yield name, value
    verdict = "" if row.holds is None else f": {_WORDS[row.holds]}"
    yield "status", row.status.value + verdict
    if row.note:
        yield "note", row.note


def markdown_of(papers: Sequence[Paper]) -> Iterator[str]:
    for paper in papers:
        yield f"\n## {paper.title}\n"
        yield f"Model: {paper.machine}.\n"
        keep = [
            at for at, cells in enumerate(zip(*map(_cells, paper.rows), strict=True)) if any(cells)
        ]
        rows = ([_cells(row)[at] for at in keep] for row in paper.rows)
        yield from markdown_table([_HEADER[at] for at in keep], rows)
        notes = [row for row in paper.rows if row.note]
        yield ""
        seen: dict[str, list[str]] = {}
        for row in notes:
            seen.setdefault(row.note, []).append(f"{row.figure}, {row.quantity}")
        for note, where in seen.items():
            first = where[0] if len(where) == 1 else f"{where[0]} and {len(where) - 1} more"
            yield f"- {first}: {note}."
    yield f"\n{counts(papers)}"


def _cells(row: Row) -> tuple[str, ...]:
    verdict = "" if row.holds is None else _WORDS[row.holds]
    values = (row.published, row.predicted, row.simulated, row.measured)
    return (row.figure, row.quantity, *values, row.status.value, verdict)


def section_of(papers: Sequence[Paper]) -> Iterator[str]:
    """What the page shows: how many figures hold."""
    yield ""
    heads = ("source", *(f"{status.value}: hold" for status in _COMPARED), "not reproducible")
    yield from markdown_table(heads, (_counted(paper) for paper in papers))


_COMPARED = tuple(status for status in Status if status is not Status.NOT_REPRODUCIBLE)


def _counted(paper: Paper) -> Iterator[str]:
    yield paper.title
    for status in _COMPARED:
        rows = [row for row in paper.rows if row.status is status]
        yield f"{sum(bool(row.holds) for row in rows)} of {len(rows)}" if rows else ""
    yield str(sum(row.status is Status.NOT_REPRODUCIBLE for row in paper.rows) or "")


def counts(papers: Sequence[Paper]) -> str:
    """How many of each status, and how many of them hold."""
    rows = [row for paper in papers for row in paper.rows]
    total = Counter(row.status for row in rows)
    good = Counter(row.status for row in rows if row.holds)
    parts = [
        f"{status.value} {total[status]}"
        if status is Status.NOT_REPRODUCIBLE
        else f"{status.value} {good[status]} of {total[status]}"
        for status in Status
    ]
    return f"{len(rows)} figures; hold: " + ", ".join(parts)
