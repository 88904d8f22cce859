"""`toposeat profile`: who talks to whom."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from toposeat.cli.command import (
    EXIT_FAILED,
    Command,
    add_output_option,
    print_command,
    print_error,
    print_json,
    quoted,
    require_launch,
    show,
    tell,
)
from toposeat.errors import ToposeatError


class ProfileCommand(Command):
    """Run an MPI application and record what its ranks send each other."""

    name = "profile"
    wraps = True
    usage = "toposeat profile [-o F] [-f] [--json] -- LAUNCH..."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        add_output_option(parser, "the profile (default: PROGRAM.prof)")
        parser.add_argument(
            "--keep-records",
            metavar="DIR",
            type=Path,
            help="keep the raw per-rank records in DIR (a new folder)",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="print the exact line, run nothing"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Run the application under the interposer, merge, save, summarise."""
        from toposeat import pipeline, profile, report  # noqa: PLC0415
        from toposeat.model.files import check_writable  # noqa: PLC0415
        from toposeat.model.traffic_file import save_traffic  # noqa: PLC0415

        launch = require_launch(args, self.name)
        if args.dry_run:
            print_command(profile.profile_line(launch))
            return 0
        target = args.output or Path(f"{pipeline.program_name(launch)}.prof")
        check_writable(target, overwrite=args.force)
        traffic, exit_code = profile.profile_run(launch, directory=args.keep_records)
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
            show(sys.stderr, report.render_traffic_text, traffic)
        tell(f"Wrote {target}", f"Next: toposeat map {quoted(target)} -t this -o app.place")
        return exit_code
