"""`toposeat profile`: record what ranks send each other."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat import launch, pipeline, profile, report
from toposeat.cli.command import (
    EXIT_FAILED,
    Command,
    add_flag,
    add_output_option,
    positive_seconds,
    print_command,
    print_error,
    print_json,
    quoted,
    require_launch,
    show,
    tell,
)
from toposeat.cli.output import refuse_other_forms
from toposeat.cli.progress import progress_bar
from toposeat.errors import ToposeatError, UsageError
from toposeat.model.files import check_writable

if TYPE_CHECKING:
    from toposeat.model.traffic import Traffic

_LINES = 14  # of the summary after a run


class ProfileCommand(Command):
    """Run an MPI or PyTorch job and record what its ranks send each other."""

    name = "profile"
    wraps = True
    needs_line = True
    usage = (
        "toposeat profile [-o F] [-f] [--no-time] [--phases HOW] [--reorder] [--partial]"
        " [--json] [--] LAUNCH...\n"
        "       toposeat profile --merge DIR... -o F [-f] [--partial] [--json]"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        add_output_option(parser, "the profile (default: PROGRAM.prof)")
        parser.add_argument(
            "--keep-records",
            metavar="DIR",
            type=Path,
            help="keep the raw per-rank records in DIR (a new folder, for you only)",
        )
        parser.add_argument(
            "--merge",
            metavar="DIR",
            nargs="+",
            type=Path,
            help="run nothing: make a profile of the records in these folders, for example of one "
            "folder per node",
        )
        add_flag(
            parser,
            "--partial",
            "make a profile even if some ranks have no record; without it that is an error",
        )
        add_flag(
            parser,
            "--no-time",
            "do not read the clock: least overhead, but no share of time in MPI",
        )
        parser.add_argument(
            "--phases",
            metavar="HOW",
            type=_phases,
            help="split the run: `pcontrol` at the application's calls of MPI_Pcontrol, or a "
            "number of seconds into windows of that length",
        )
        add_flag(
            parser,
            "--reorder",
            "record the program as `toposeat run --reorder` starts it: communicators are "
            "those of the reordered ranks",
        )
        add_flag(parser, "--dry-run", "print the exact command, run nothing")

    def run(self, args: argparse.Namespace) -> int:
        """Run the application under the interposer, merge, save, summarise."""
        refuse_other_forms(args.output, "the profile")
        if args.merge is not None:
            return self._merge(args)
        command = require_launch(args, self.name)
        recording = profile.Recording(
            timed=not args.no_time,
            phases=args.phases,
            reorder=launch.reordering(args.reorder),
        )
        if args.dry_run:
            print_command(profile.profile_line(command, recording=recording))
            return 0
        target = args.output or Path(f"{pipeline.program_name(command)}.prof")
        check_writable(target, overwrite=args.force)
        with progress_bar("merging records") as progress:
            traffic, exit_code = profile.profile_run(
                command,
                directory=args.keep_records,
                recording=recording,
                partial=args.partial,
                progress=progress,
            )
        return _save_and_show(args, traffic, target, exit_code)

    def _merge(self, args: argparse.Namespace) -> int:
        """Records that lie in folders already."""
        if args.launch:
            raise UsageError(
                f"{self.name}: --merge runs no command",
                hint=f"leave out --merge, or `-- {' '.join(args.launch)}`",
            )
        if args.output is None:
            raise UsageError(f"{self.name}: --merge needs a file to write", hint="add -o app.prof")
        check_writable(args.output, overwrite=args.force)
        with progress_bar("merging records") as progress:
            traffic = profile.merge_records(*args.merge, partial=args.partial, progress=progress)
        return _save_and_show(args, traffic, args.output, 0)


def _save_and_show(args: argparse.Namespace, traffic: Traffic, target: Path, exit_code: int) -> int:
    """Write the profile, say what is in it, and return the application's exit code."""
    from toposeat.model.traffic_file import save_traffic  # noqa: PLC0415

    try:
        save_traffic(traffic, target, overwrite=args.force)
    except ToposeatError as error:
        # The run may have taken hours: keep what it gave, wherever there is room.
        print_error(error)
        rescue = Path(tempfile.mkdtemp(prefix="toposeat-")) / target.name
        save_traffic(traffic, rescue)
        tell(f"Wrote {rescue} instead")
        return exit_code or EXIT_FAILED
    if args.json:
        print_json(report.profile_json(traffic))
    else:
        # The application owns stdout.
        lines = None if args.verbose else _LINES
        show(sys.stderr, partial(report.render_traffic_text, lines=lines), traffic)
    if args.launch:
        _warn_of_fewer(args, traffic)
    for line in traffic.report:
        if "damaged records are left out" in line or "ranks have no record" in line:
            tell(f"warning: {line}")
    tell(f"Wrote {target}")
    if not report.has_crashed(traffic):
        shows = f"; toposeat report {quoted(target)} shows all of it"
        more = "" if args.verbose or args.json else shows
        tell(f"Next: toposeat map {quoted(target)} -t this -o app.place{more}")
    return exit_code


def _warn_of_fewer(args: argparse.Namespace, traffic: Traffic) -> None:
    """Say it where ranks that the line starts are in no world: they may be meant to run alone."""
    line = launch.parse_launch_line(args.launch)
    fault = launch.worlds_fault(line, traffic.ranks, os.environ, alone=traffic.worlds_of_one)
    if fault is not None:
        tell(f"warning: {fault.cause}", f"hint:  {fault.hint}")


def _phases(text: str) -> str | float:
    """Argparse type: how to split a run."""
    if text == "pcontrol":  # profile.PHASES_BY_MARK, without the import that --help does not need
        return text

    try:
        seconds = positive_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected pcontrol or a number of seconds, got {text!r}"
        ) from error
    if seconds < profile.MIN_WINDOW_S:
        raise argparse.ArgumentTypeError(
            f"a window is at least {profile.MIN_WINDOW_S:g} s, not {text}"
        )
    return seconds
