"""`toposeat advise`: MPI settings that make a placement faster, verified by runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat import launch, pipeline, report
from toposeat.cli.command import (
    Command,
    add_clock_options,
    add_flag,
    add_output_option,
    add_stack_option,
    print_command,
    print_json,
    require_launch,
    show,
    show_decided,
    tell,
    with_decided,
)
from toposeat.cli.output import check_output
from toposeat.cli.progress import progress_bar
from toposeat.model.files import write_atomically

if TYPE_CHECKING:
    from toposeat.model.protocol import Advice
    from toposeat.pipeline import AdviceCase


class AdviseCommand(Command):
    """Find MPI settings that make a placement faster; recommend only those that runs verified."""

    name = "advise"
    wraps = True
    usage = "toposeat advise -p PLACE [options] -- LAUNCH..."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "-p", "--placement", metavar="PLACE", type=Path, required=True, help="a placement"
        )
        add_stack_option(parser)
        add_clock_options(parser, "runs of each")
        add_flag(parser, "--dry-run", "print the commands, run nothing")
        add_output_option(parser, "the advice (JSON)")

    def run(self, args: argparse.Namespace) -> int:
        """Clock the settings, show, save."""
        from toposeat.model.placement_file import load_placement  # noqa: PLC0415

        check_output(args.output, "the advice (JSON)", overwrite=args.force)
        command = require_launch(args, "advise -p PLACE")
        case = pipeline.AdviceCase(placement=load_placement(args.placement), path=args.placement)
        if args.stack is not None:
            stack = launch.named_stack(args.stack, os.environ)
        else:
            stack = launch.stack_of(args.launch, os.environ)
        if args.dry_run:
            show_decided(args, as_remark=True)
            return _print_lines(command, case, pipeline.settings_to_try(stack))
        repeats = 5 if args.repeats is None else args.repeats
        plan = pipeline.ClockPlan(command=tuple(command), repeats=repeats, pattern=args.time)
        with progress_bar("runs") as progress:
            advice = pipeline.clocked_advice(
                case, stack, plan, environment=os.environ, progress=progress
            )
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
        return 0


def _print_lines(command: Sequence[str], case: AdviceCase, advice: Advice) -> int:
    """`env A=B mpirun ... toposeat-exec ... ./app`, first with the environment as it is."""
    mode, _ = launch.visibility_of(case.placement, None)
    record = launch.run_placed(
        command, case.placement, case.path, visibility=mode, dry_run=True, verify=False
    )
    print_command(record.launched)
    for each in advice.tried:
        words = [f"{name}={value}" for name, value in each.variables.items()]
        print_command(["env", *words, *record.launched])
    return 0
