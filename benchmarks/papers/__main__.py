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

from benchmarks.machine import describe
from benchmarks.papers import faraji, gemini, measured_links, nvtags, summer_school
from benchmarks.papers.row import Paper
from benchmarks.papers.table import markdown_of, text_of
from benchmarks.referee.simgrid import smpi_version, why_no_smpi

PAGE_HEAD = """\
# Published figures beside ours

`python -m benchmarks.papers` computes every figure below again; this page is its output
(`make papers` rewrites it).

| mark | meaning |
|---|---|
| exact | the figure follows from definitions: ours must be equal |
| calibrated-on | the model was fitted to this number: agreement is no evidence |
| held-out | nothing was fitted to this number: agreement is evidence, a difference is a finding |
| not reproducible | the notes below the table say why |

Published figures, predictions of our flow model and simulations by SimGrid have separate columns.
We have measured nothing on this page on GPUs. Run the command to add the SimGrid column
(`libsimgrid-dev`) and the mapping time on your machine.
"""


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
        "--page", type=Path, metavar="FILE", help="rewrite this page, host left out"
    )
    parser.add_argument("--no-smpi", action="store_true", help="do not run SimGrid")
    parser.add_argument(
        "--no-measure", action="store_true", help="nothing that depends on the host"
    )
    options = parser.parse_args()
    if options.page:
        found = papers(simulate=False, measure=False)
        options.page.write_text(PAGE_HEAD + "\n".join(markdown_of(found)) + "\n")
        return 0
    found = papers(simulate=not options.no_smpi, measure=not options.no_measure)
    print(f"{describe()}\nsimulator: {simulator(not options.no_smpi)}")
    print("\n".join(text_of(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
