"""`toposeat advise`: MPI settings that make a placement faster, verified by runs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.cli.command import (
    Command,
    add_output_option,
    add_stack_option,
    add_topology_option,
    print_command,
    print_json,
    quoted,
    show,
    show_decided,
    tell,
    with_decided,
)
from toposeat.cli.output_form import refuse_other_forms
from toposeat.cli.progress import progress_bar

if TYPE_CHECKING:
    from toposeat.model.protocol import Advice, Stack
    from toposeat.pipeline import AdviceCase


class AdviseCommand(Command):
    """Find MPI settings that make a placement faster; recommend only those that runs verified."""

    name = "advise"
    wraps = True
    usage = "toposeat advise -p PLACE -t MEASURED --traffic F [options] [-- LAUNCH...]"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "-p", "--placement", metavar="PLACE", type=Path, required=True, help="a placement"
        )
        add_topology_option(parser)
        parser.add_argument(
            "--traffic", metavar="F", required=True, help="a profile, CSV matrix or pattern"
        )
        add_stack_option(parser)
        parser.add_argument(
            "--tries",
            metavar="N",
            type=int,
            default=2,
            help="settings to run, best predicted first (default: 2)",
        )
        parser.add_argument(
            "--repeats", metavar="N", type=int, default=5, help="runs of each (default: 5)"
        )
        parser.add_argument(
            "--time",
            metavar="REGEX",
            help="finds the seconds that the program prints, as group 1, e.g. '([0-9.]+) s'; the "
            "last match counts (default: the wall time of the launch line)",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="print the commands, run nothing"
        )
        add_output_option(parser, "the advice (JSON)")

    def run(self, args: argparse.Namespace) -> int:
        """Predict, verify where a line is given, show, save."""
        from toposeat import pipeline, report  # noqa: PLC0415
        from toposeat.model.files import check_writable, write_atomically  # noqa: PLC0415

        refuse_other_forms(args.output, "the advice (JSON)")
        if args.output is not None:
            check_writable(args.output, overwrite=args.force)
        case = _case(args)
        stack = _stack(args)
        if args.launch is None or args.dry_run:
            advice = pipeline.predict_advice(case, stack)
        else:
            advice = _verified(args, case, stack)
        if args.dry_run and args.launch is not None:
            show_decided(args, as_remark=True)
            return _print_lines(args, case, advice)
        document = with_decided(report.advice_json(advice), args)
        if args.output is not None:
            write_atomically(args.output, report.json_text(document), overwrite=args.force)
        if args.json:
            print_json(document)
        else:
            show(sys.stdout, report.render_advice_text, advice)
            show_decided(args)
        if args.output is not None:
            tell(f"Wrote {args.output}")
        if args.launch is None:
            place, source = quoted(args.placement), quoted(args.topology)
            tell(
                f"Next: toposeat advise -p {place} -t {source} --traffic {quoted(args.traffic)}"
                f" -- mpirun -n {case.traffic.ranks} ./app"
            )
        return 0


def _case(args: argparse.Namespace) -> AdviceCase:
    from toposeat import evaluation, pipeline, profile, topology  # noqa: PLC0415
    from toposeat.model.placement_file import load_placement  # noqa: PLC0415

    machine = topology.read_topology(args.topology)
    traffic = profile.read_traffic(args.traffic)
    placement = load_placement(args.placement)
    devices = evaluation.device_positions(placement, machine, traffic.ranks, args.placement)
    return pipeline.AdviceCase(
        machine=machine,
        traffic=traffic,
        placement=placement,
        path=args.placement,
        device_of_rank=devices,
    )


def _stack(args: argparse.Namespace) -> Stack:
    """By the launch line, by name, or by the `mpirun` on PATH."""
    from toposeat import launch  # noqa: PLC0415

    if args.stack is not None:
        return launch.named_stack(args.stack, os.environ)
    return launch.stack_of(args.launch or ["mpirun", "true"], os.environ)


def _verified(args: argparse.Namespace, case: AdviceCase, stack: Stack) -> Advice:
    from toposeat import pipeline  # noqa: PLC0415

    plan = pipeline.ClockPlan(command=tuple(args.launch), repeats=args.repeats, pattern=args.time)
    with progress_bar("runs") as progress:
        return pipeline.verify_advice(
            case, stack, plan, environment=os.environ, tries=args.tries, progress=progress
        )


def _print_lines(args: argparse.Namespace, case: AdviceCase, advice: Advice) -> int:
    """`env A=B mpirun ... toposeat-exec ... ./app`, first with the environment as it is."""
    from toposeat import launch  # noqa: PLC0415

    mode, _ = launch.visibility_of(case.placement, None)
    record = launch.run_placed(
        args.launch, case.placement, case.path, visibility=mode, dry_run=True, verify=False
    )
    for each in (advice.present, *advice.promising[: args.tries]):
        words = [f"{name}={value}" for name, value in each.setting.variables.items()]
        line = ["env", *words, *record.launched] if words else record.launched
        print_command(line)
    return 0
