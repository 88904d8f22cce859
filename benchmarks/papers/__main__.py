"""Every reproducible figure of the papers this project builds on, beside the published number.

Run: python -m benchmarks.papers [--page FILE] [--no-smpi] [--no-measure]

Each line is marked: exact (follows from definitions), calibrated-on (the model was fitted to this
number: no evidence), held-out (evidence) or not reproducible, with why. Numbers that are published,
predicted, simulated and measured here have columns of their own. Predictions and simulations have
no noise and are made once; the mapping time is measured in interleaved rounds with an A/A control.
The exit code is 0 whatever differs: a difference is a result.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.machine import describe, rewrite_section
from benchmarks.papers import faraji, gemini, measured_links, nvtags, summer_school
from benchmarks.papers.row import Paper
from benchmarks.papers.table import markdown_of, section_of, text_of
from benchmarks.referee.simgrid import smpi_version, why_no_smpi

ROWS_HEAD = """\
# Published figures beside ours: every row

`make papers` writes this file. [The appendix of evidence](../../docs/explanation/evidence.md) says
what the marks mean, and what the figures show. Nothing in this file was measured on GPUs by us.
`python -m benchmarks.papers` adds what SimGrid simulates (`libsimgrid-dev`) and the mapping time.
"""
ROWS = Path(__file__).with_name("rows.md")


def papers(*, simulate: bool, measure: bool) -> list[Paper]:
    return [
        faraji.paper(simulate=simulate, measure=measure),
        nvtags.paper(),
        gemini.paper(),
        summer_school.paper(),
        measured_links.paper(),
    ]


def simulator(simulate: bool) -> str:
    if not simulate:
        return "not asked for"
    reason = why_no_smpi()
    return reason or "SimGrid " + ".".join(map(str, smpi_version())) + ", SMPI"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="rewrite rows.md and the section of this page"
    )
    parser.add_argument("--no-smpi", action="store_true", help="do not run SimGrid")
    parser.add_argument(
        "--no-measure", action="store_true", help="nothing that depends on the host"
    )
    options = parser.parse_args()
    if options.page:
        found = papers(simulate=False, measure=False)
        rewrite_section(options.page, "papers", "\n".join(section_of(found)) + "\n")
        ROWS.write_text(ROWS_HEAD + "\n".join(markdown_of(found)) + "\n", encoding="utf-8")
        return 0
    found = papers(simulate=not options.no_smpi, measure=not options.no_measure)
    print(f"{describe()}\nsimulator: {simulator(not options.no_smpi)}")
    print("\n".join(text_of(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
