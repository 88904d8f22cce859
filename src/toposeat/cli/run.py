"""`toposeat run`: start the job as placed and check that it really is."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from toposeat import launch, pipeline, profile, report
from toposeat.cli.command import (
    Command,
    add_flag,
    add_output_option,
    print_command,
    print_json,
    quoted,
    require_launch,
    show,
    tell,
    write_result,
)
from toposeat.cli.output import check_output
from toposeat.errors import NOT_AS_PLANNED, InputError, UsageError
from toposeat.model.runs import SeatVerdict


class RunCommand(Command):
    """Start a job with a placement, and verify what each rank got."""

    name = "run"
    wraps = True
    needs_line = True
    usage = "toposeat run [-p PLACEMENT] [options] [--] LAUNCH..."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "-p",
            "--placement",
            metavar="F",
            type=Path,
            help="the placement (default: what `toposeat tune` found for this command)",
        )
        parser.add_argument(
            "--visibility",
            choices=launch.VISIBILITIES,
            help="how a rank is shown its GPU: the same reordered list for all (permute), one GPU "
            "(mask), its own first (rotate), or as before (cpu-only: CPUs are bound); default: "
            "as the placement says, else permute",
        )
        add_flag(
            parser,
            "--strict",
            "stop a rank that does not get its place, and end with exit code "
            f"{NOT_AS_PLANNED} if one was not as planned or used a device that could not be "
            "checked",
        )
        add_flag(
            parser,
            "--other-machine",
            "run a placement that was made for other hosts, in the order of its hosts",
        )
        add_flag(parser, "--no-verify", "do not check what each rank got")
        add_flag(
            parser,
            "--reorder",
            "let MPI_Cart_create and the other topologies that the program makes with "
            "reorder = 1 reorder ranks by node and link; without a placement nothing else is "
            "changed",
        )
        add_flag(
            parser, "--dry-run", "print the launcher's files and the exact command, run nothing"
        )
        add_output_option(parser, "the run record")

    def run(self, args: argparse.Namespace) -> int:
        """Launch, verify, record."""
        from toposeat.model.placement_file import load_placement  # noqa: PLC0415
        from toposeat.model.result_file import RUN_SCHEMA, save_run  # noqa: PLC0415

        command = require_launch(args, self.name)
        if args.strict and args.no_verify:
            raise UsageError(
                "--strict judges what --no-verify does not look at", hint="leave one of them out"
            )
        check_output(args.output, "the run record", overwrite=args.force)
        reorder = launch.reordering(args.reorder)
        line = launch.parse_launch_line(command)
        if reorder and profile.has_own_mpi(line, os.environ):
            tell("--reorder has no effect: the program is linked statically with MPI")
        path = _placement_path(args, command, needed=not reorder)
        if path is None:
            record = launch.run_reordered(command, reorder, dry_run=args.dry_run)
        else:
            placement = load_placement(path)
            own = placement
            if not args.other_machine:
                own = pipeline.rehosted(placement, line, os.environ, tell)
                own = pipeline.with_own_ids(
                    own, line, os.environ, starts=not args.dry_run, tell=tell
                )
            visibility, why = launch.visibility_of(placement, args.visibility)
            if why:
                tell(why)
            record = launch.run_placed(
                command,
                placement,
                path,
                visibility=visibility,
                strict=args.strict,
                verify=not args.no_verify,
                dry_run=args.dry_run,
                other_machine=args.other_machine,
                reorder=reorder,
                rewritten=None if own is placement else own,
                tell=tell,
            )
        if args.dry_run:
            for name, text in record.launch_files.items():
                write_result(f"==> {name} <==\n{text}\n")
            print_command(record.launched)
            return 0
        if args.output is not None:
            save_run(record, args.output, overwrite=args.force)
            tell(f"Wrote {args.output}", f"Next: toposeat report {quoted(args.output)}")
        if args.json:
            print_json(report.document(RUN_SCHEMA, record))
        else:
            show(
                sys.stderr,
                report.render_run_text if args.verbose else report.render_verdict,
                record,
            )
        code = record.exit_code
        if args.strict and not code and record.verdict not in (None, SeatVerdict.AS_PLACED):
            code = NOT_AS_PLANNED
            tell(f"Exit code {code}: {_NOT_SURE[record.verdict]} (--strict)")
        return code


_NOT_SURE = {
    SeatVerdict.MISMATCH: "not all ranks are as planned",
    SeatVerdict.NOT_CHECKED: "not all ranks could be checked",
}


def _placement_path(
    args: argparse.Namespace, command: Sequence[str], *, needed: bool
) -> Path | None:
    """The placement that was named or tuned; None where there is none and none is needed."""
    if args.placement is not None:
        return Path(args.placement)

    try:
        return pipeline.tuned_placement_path(command)
    except InputError:
        if needed:
            raise
    return None
