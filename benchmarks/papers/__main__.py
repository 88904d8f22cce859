"""Every reproducible figure of the papers this project builds on, beside the published number.

Run: python -m benchmarks.papers [--json | --markdown] [--no-smpi] [--no-measure]

Each line is marked: exact (follows from definitions), calibrated-on (the model was fitted to this
number: no evidence), held-out (evidence) or not reproducible, with why. Numbers that are published,
predicted, simulated and measured here have columns of their own. Predictions and simulations have
no noise and are made once; the mapping time is measured in interleaved rounds with an A/A control.
The exit code is 0 whatever differs: a difference is a result.
"""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks.machine import describe
from benchmarks.papers import faraji, gemini, nvtags, summer_school
from benchmarks.papers.row import Paper
from benchmarks.papers.table import json_of, markdown_of, text_of

from toposeat.evaluate import smpi_version, why_no_smpi


def papers(*, simulate: bool, measure: bool) -> list[Paper]:
    return [
        faraji.paper(simulate=simulate, measure=measure),
        nvtags.paper(),
        gemini.paper(),
        summer_school.paper(),
    ]


def simulator(simulate: bool) -> str:
    if not simulate:
        return "not asked for"
    reason = why_no_smpi()
    return reason or "SimGrid " + ".".join(map(str, smpi_version())) + ", SMPI"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--markdown", action="store_true")
    parser.add_argument("--no-smpi", action="store_true", help="do not run SimGrid")
    parser.add_argument(
        "--no-measure", action="store_true", help="nothing that depends on the host"
    )
    options = parser.parse_args()
    found = papers(simulate=not options.no_smpi, measure=not options.no_measure)
    setting = {"ran_on": describe(), "simulator": simulator(not options.no_smpi)}
    if options.json:
        print(json.dumps(json_of(found, setting)))
    elif options.markdown:
        print("\n".join(markdown_of(found)))
    else:
        print(setting["ran_on"])
        print(f"simulator: {setting['simulator']}")
        print("\n".join(text_of(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
