"""Published comparisons of sets and orders of GPUs beside our predictions, misses first.

Run: python -m benchmarks.field [--page FILE]

Prints every row. With --page it writes them to `rows.md` beside this program, and to that page the
summary and each that names the slower one. Reads the table of `shared/field` beside the
checkout and our own (`found.tsv`, `machines.py`). Without the former it says so and does nothing.
The exit code is 0 whatever differs: a difference is a result.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.field.compared import FIELD, FOUND, Compared, Comparison, compared, read_table
from benchmarks.machine import markdown_table, rewrite_section

UNSEEN = (  # what README and the page say; rows scored on 29 November 2026
    "Of 68 published comparisons of links and sets of GPUs that were scored before anything was"
    " changed for them, predictions named the faster one, or none where none is, in 51 (75 %), the"
    " slower one in one, and had no opinion on the rest; their ratios were off by 10 to 21 % in the"
    " median, and by 1.8 to 2.3 times in the worst tenth"
)
ROWS_HEAD = """\
# Published comparisons beside our predictions: every row

`make field` writes this file. [The appendix of evidence](../../docs/explanation/evidence.md) says
what the verdicts mean, and what the comparisons show.

*off* is the factor between predicted and measured ratio. Rows with a star are quoted by our table
of processors: that they agree is no evidence of it. *Only measured*: firmware and faults of
drivers, which no description tells.
"""
ROWS = Path(__file__).with_name("rows.md")
_ORDER = ("error", "reversed", "invented", "missed", "right")
_KINDS = (("link", "Links"), ("app", "Programs"), ("untold", "Only measured"))
_HEADER = ("id", "machine", "A against B", "measured", "predicted", "range", "off", "verdict",
           "told of the machine")  # fmt: skip
_SHORT = 6  # the first columns, of the page


def rows() -> list[Comparison]:
    return [*read_table(FIELD / "INDEX.tsv", FIELD), *read_table(FOUND, None)]


def kind_of(row: Comparison) -> str:
    return "app" if row.kind == "comm" else row.kind


def section_of(found: Sequence[Compared]) -> Iterator[str]:
    """What the page shows: how many, and each that names the slower one."""
    yield from _summary(found)
    yield "\nWhere the slower one is named:\n"
    yield from _table([each for each in found if each.verdict == "reversed"], short=True)


def markdown_of(found: Sequence[Compared], every: Sequence[Comparison]) -> Iterator[str]:
    """Every row, as `rows.md` has them."""
    yield from _summary(found)
    for kind, title in _KINDS:
        yield f"\n## {title}\n"
        yield from _table([each for each in found if kind_of(each.row) == kind])
    yield "\n## No evidence: our numbers were made from these\n"
    yield from _table([each for each in found if each.row.kind == "calibrated"])
    yield "\n## Published without enough wiring or volumes\n"
    unscored = (
        (
            row.id,
            f"{row.machine}: {row.traffic}",
            f"{row.measured_a} : {row.measured_b} ({row.unit})",
            row.source,
        )
        for row in every
        if row.kind == "unscored"
    )
    yield from markdown_table(("id", "published", "figures", "source"), unscored)
    yield "\n## Sources\n"
    yield "We found rows t1 and following, and wrote them down before we predicted them.\n"
    for row in every:
        if row.kind != "unscored":
            yield f"- {row.id}: {row.source} ({row.date}), {row.note}."


def _summary(found: Sequence[Compared]) -> Iterator[str]:
    yield ""
    links = [each for each in found if each.row.kind == "link"]
    own = [each for each in links if each.row.folder is None]
    parts = (
        ("links", links),
        ("of them sets (NCCL)", [each for each in links if each.row.traffic == "group"]),
        ("of them copies", [each for each in links if each.row.traffic == "copies"]),
        ("of them not quoted by our table", [e for e in links if not e.row.is_quoted]),
        ("of them found by ourselves", own),
        ("programs", [each for each in found if kind_of(each.row) == "app"]),
        ("only measured", [each for each in found if each.row.kind == "untold"]),
    )
    rows = []
    for name, part in parts:
        count = {verdict: sum(each.verdict == verdict for each in part) for verdict in _ORDER}
        off = sorted(each.off for each in part if not each.error and each.row.kind == "link")
        spread = ""
        if off:
            tenth = off[int(0.9 * (len(off) - 1))]
            spread = f"{_percent(statistics.median(off))} median, {_percent(tenth)} at 90 %"
        cells = (str(count[verdict]) for verdict in ("missed", "invented", "reversed"))
        rows.append((name, f"{count['right']} of {len(part)}", *cells, spread))
    yield from markdown_table(
        ("rows", "right", "missed", "invented", "reversed", "ratio off"), rows
    )
    programs = [e for e in found if kind_of(e.row) == "app" and not e.error]
    bounded = [each for each in programs if each.verdict != "missed"]
    kept = sum(each.keeps_bound for each in bounded)
    within = [each for each in links if not each.error and each.range[0] != each.range[1]]
    yield f"\nPrograms that gained no more than their links: {kept} of {len(bounded)}."
    if within:
        inside = sum(e.range[0] <= math.exp(e.row.measured) <= e.range[1] for e in within)
        yield f"Measured ratios of links inside the predicted range: {inside} of {len(within)}."


def _percent(factor: float) -> str:
    return f"{100 * (factor - 1):.0f} %"


def _table(part: Sequence[Compared], *, short: bool = False) -> Iterator[str]:
    first = {verdict: at for at, verdict in enumerate(_ORDER)}
    rows = sorted(part, key=lambda e: (first[e.verdict], -e.off if not e.error else 0))
    cells = [_HEADER, *map(tuple, map(_cells, rows))]
    if short:
        at = _HEADER.index("verdict")
        cells = [(*row[:_SHORT], row[at]) for row in cells]
    yield from markdown_table(cells[0], cells[1:])


def _cells(each: Compared) -> Iterator[str]:
    row = each.row
    yield f"{row.id}{'*' if row.is_quoted and row.kind != 'calibrated' else ''}"
    yield row.machine
    yield f"{_short(row.traffic, row.a)} : {_short(row.traffic, row.b)}"
    yield f"{row.measured_a} : {row.measured_b} {row.unit} = {math.exp(row.measured):.2f}"
    if each.a is None or each.b is None:
        yield from (each.error.partition("\n")[0], "", "", each.verdict, each.known)
        return
    ratio = f"{math.exp(each.predicted):.2f}"
    if row.traffic in ("group", "copies"):
        ratio = f"{each.a.rate / 1e9:.1f} : {each.b.rate / 1e9:.1f} = {ratio}"
    yield ratio
    low, high = each.range
    yield "" if low == high else f"{low:.2f} to {high:.2f}"
    yield f"{each.off:.2f}"
    yield each.verdict
    yield each.known


def _short(traffic: str, what: str) -> str:
    flows = what.split(",")
    if traffic != "copies" or len(flows) <= 4:
        return what
    return f"{flows[0]} and {len(flows) - 1} more"


def made() -> tuple[str, str]:
    """The section of the page, and `rows.md`."""
    every = rows()
    found = [compared(row) for row in every if row.kind != "unscored"]
    section = "\n".join(section_of(found))
    return section + "\n", ROWS_HEAD + "\n".join(markdown_of(found, every)) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="rewrite rows.md and the section of this page"
    )
    options = parser.parse_args()
    if not (FIELD / "INDEX.tsv").is_file():
        print("skipped: no shared/field beside the checkout, where the published figures are")
        return 0
    section, text = made()
    if options.page:
        rewrite_section(options.page, "field", section)
        ROWS.write_text(text, encoding="utf-8")
        print(f"README.md says of it: {UNSEEN}")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
