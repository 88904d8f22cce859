"""Certified optima of some 4000 problems of 8 devices: CPU time of a call, and the same answers.

Run: python -m benchmarks.mapping.wide [OBJECTIVE...] [--rounds N] [--only REGEX] [--allowed MS]
     [--save FILE] [--compare FILE]

Times are thread CPU milliseconds of `_core.map_ranks` with placement, proof and guard, after one
call that is not counted; a problem counts as over if the fastest of its rounds is, since the
machine's noise only adds. "refused" are problems whose certified optimum is predicted slower than
the default, so that the best that is not slower was looked for. `--save` writes answers and times
as JSON; `--compare` tells which answers have another value or another certificate than a saved one.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.machine import describe
from benchmarks.mapping.calls import ALLOWED_MS, HEAD, Outcome, outcome, summary
from benchmarks.mapping.wide_problems import problems

OBJECTIVES = ("cost", "congestion")
SAME = 1e-9  # relative


def differences(
    now: Sequence[Outcome], before: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    """Answers of another value, time or certificate; placements may differ where these agree."""
    for each in now:
        old = before.get(each.name)
        if old is None:
            yield f"{each.name}: not in the saved file"
            continue
        for key in ("value", "seconds"):
            was, is_now = float(str(old[key])), float(getattr(each, key))
            if abs(was - is_now) > SAME * max(was, is_now):
                yield f"{each.name}: {key} was {was!r}, is {is_now!r}"
        if (old["proved"], old["refused"]) != (each.proved, each.refused):
            yield f"{each.name}: proved, refused were {old['proved']}, {old['refused']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("objectives", nargs="*", metavar="OBJECTIVE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", metavar="REGEX", help="of `machine | pattern`")
    parser.add_argument("--allowed", type=float, default=ALLOWED_MS, metavar="MS")
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    parser.add_argument("--slowest", type=int, default=5, metavar="N", help="problems to list")
    options = parser.parse_args()
    saved = json.loads(options.compare.read_text()) if options.compare else {}
    print(describe())
    print(
        f"fastest of {options.rounds} calls in thread CPU ms; over: more than {options.allowed:g}"
    )
    print(f"\n{HEAD}")
    results = {}
    for objective in options.objectives or OBJECTIVES:
        chosen = (each for each in problems() if re.search(options.only, each.name))
        found = [
            outcome(each.name, each.machine, each.traffic, objective, options.rounds)
            for each in chosen
        ]
        results[objective] = found
        print(summary("up to 8 devices", objective, found, options.allowed))
        refused = [each for each in found if each.refused]
        print(summary("  of these refused", objective, refused, options.allowed))
        for each in sorted(found, key=lambda each: -each.fastest)[: options.slowest]:
            print(f"  {each.fastest:8.3f} {each.name}{' (refused)' if each.refused else ''}")
        if options.compare:
            before = {each["name"]: each for each in saved.get(objective, [])}
            others = list(differences(found, before))
            print(f"  other answers than saved: {len(others)}")
            print("\n".join(f"  {line}" for line in others[:20]), flush=True)
    if options.save:
        rows = {key: [asdict(each) for each in found] for key, found in results.items()}
        options.save.write_text(json.dumps(rows, indent=0))


if __name__ == "__main__":
    main()
