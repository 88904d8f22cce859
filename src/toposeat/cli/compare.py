"""`toposeat compare`: placements side by side."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from toposeat.cli.command import Command, add_topology_option, print_json, show
from toposeat.errors import UsageError


class CompareCommand(Command):
    """Predict placements side by side with the default."""

    name = "compare"
    wraps = True
    usage = "toposeat compare PLACE... -t SRC --traffic F [--json]"

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

    def run(self, args: argparse.Namespace) -> int:
        """Evaluate each placement and print one table."""
        from toposeat import evaluate, pipeline, profile, report, topology  # noqa: PLC0415
        from toposeat.model.placement_file import load_placement  # noqa: PLC0415

        if args.launch is not None:
            raise UsageError(
                "compare predicts only; it does not run a command yet",
                hint="leave out the part behind `--`, or time `toposeat run` yourself",
            )
        machine = topology.read_topology(args.topology)
        traffic = profile.read_traffic(args.traffic)
        default = evaluate.default_placement(traffic.ranks, machine)
        evaluator = evaluate.Evaluator(machine, traffic, metric=args.metric)
        evaluations = [("default", evaluator.evaluate(default))]
        for path in args.placements:
            devices = pipeline.device_positions(load_placement(path), machine, traffic, path)
            evaluations.append((str(path), evaluator.evaluate(devices)))
        if args.json:
            print_json(report.comparison_json(evaluations, machine, traffic, metric=args.metric))
        else:
            render = partial(report.render_comparison_text, metric=args.metric)
            show(sys.stdout, render, evaluations, machine, traffic)
        return 0
