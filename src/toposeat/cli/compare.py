"""`toposeat compare`: placements side by side."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.cli.command import Command, add_topology_option, print_json, show, write_result
from toposeat.cli.progress import progress_bar

if TYPE_CHECKING:
    from toposeat.model.clocked import ClockedResult
    from toposeat.pipeline import Candidate


class CompareCommand(Command):
    """Predict placements side by side with the default, and clock them behind `--`."""

    name = "compare"
    wraps = True
    usage = "toposeat compare PLACE... -t SRC --traffic F [options] [-- LAUNCH...]"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        from toposeat.evaluate import METRICS  # noqa: PLC0415

        parser.add_argument("placements", metavar="PLACE", nargs="+", type=Path)
        add_topology_option(parser)
        parser.add_argument(
            "--traffic", metavar="F", required=True, help="a profile, CSV matrix or pattern"
        )
        parser.add_argument(
            "--metric",
            choices=METRICS,
            default="bandwidth",
            help="how the pairwise cost prices a pair of devices (default: bandwidth)",
        )

        parser.add_argument(
            "--repeats",
            metavar="N",
            type=int,
            default=5,
            help="runs of every placement of the line behind `--`, taking turns (default: 5)",
        )
        parser.add_argument(
            "--time",
            metavar="REGEX",
            help="what the program prints as its seconds, in brackets, e.g. '([0-9.]+) s'; its "
            "last match counts (default: the wall time of the line)",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Evaluate each placement, print one table, and clock where a line is given."""
        from toposeat import evaluate, pipeline, profile, report, topology  # noqa: PLC0415
        from toposeat.model.placement_file import load_placement  # noqa: PLC0415

        machine = topology.read_topology(args.topology)
        traffic = profile.read_traffic(args.traffic)
        default = evaluate.default_placement(traffic.ranks, machine)
        evaluator = evaluate.Evaluator(machine, traffic, metric=args.metric)
        evaluations = [("default", evaluator.evaluate(default))]
        candidates = []
        for path in args.placements:
            placement = load_placement(path)
            devices = pipeline.device_positions(placement, machine, traffic, path)
            evaluations.append((str(path), evaluator.evaluate(devices)))
            before, after = (evaluations[at][1].predicted_s for at in (0, -1))
            candidates.append(
                pipeline.Candidate(
                    name=str(path),
                    placement=placement,
                    path=path,
                    predicted=1 - after / before if before > 0 else 0.0,
                )
            )
        clocked = None if args.launch is None else _clocked(args, candidates)
        if args.json:
            document = report.comparison_json(evaluations, machine, traffic, metric=args.metric)
            if clocked is not None:
                document["clocked"] = report.clocked_json(clocked)
            print_json(document)
        else:
            render = partial(report.render_comparison_text, metric=args.metric)
            show(sys.stdout, render, evaluations, machine, traffic)
            if clocked is not None:
                write_result("\n")
                show(sys.stdout, report.render_clocked_text, clocked)
        return 0


def _clocked(args: argparse.Namespace, candidates: Sequence[Candidate]) -> ClockedResult:
    from toposeat import pipeline  # noqa: PLC0415

    plan = pipeline.ClockPlan(command=tuple(args.launch), repeats=args.repeats, pattern=args.time)
    with progress_bar("runs") as progress:
        return pipeline.clock_placements(plan, candidates, progress=progress)
