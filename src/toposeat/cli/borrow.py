"""`toposeat borrow`: run a job on lent devices, the nearest free ones first."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from toposeat import pipeline, report
from toposeat.cli.command import (
    Command,
    add_flag,
    add_force_option,
    add_remote_option,
    add_topology_option,
    print_command,
    print_json,
    quoted,
    show,
    tell,
)
from toposeat.cli.output import check_output
from toposeat.errors import NOT_AS_PLANNED, UsageError
from toposeat.model.files import encode_json, write_atomically
from toposeat.model.lent import BORROWED_SCHEMA, Borrowed
from toposeat.model.runs import SeatVerdict


class BorrowCommand(Command):
    """Run a job on lent OpenCL devices; without a job, list them."""

    name = "borrow"
    wraps = True
    needs_line = True
    usage = "toposeat borrow [options] [--] [LAUNCH...]"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        add_topology_option(
            parser,
            required=False,
            help="the network that joins the hosts, which says what is near (default: a rank's own "
            "host is, others are taken in the order of the list)",
        )
        parser.add_argument(
            "-p",
            "--profile",
            metavar="F",
            type=Path,
            help="the record of an earlier run (-o): devices are chosen by what it sent, and what "
            "borrowing costs is predicted",
        )
        parser.add_argument(
            "--devices", metavar="N", type=int, default=1, help="devices of each rank (default: 1)"
        )
        add_remote_option(parser)
        parser.add_argument(
            "--share",
            action="store_true",
            help="if too few devices are free, take those that your other jobs borrowed with "
            "--share, where `lend --share` allows it; your other jobs may then take this job's",
        )
        parser.add_argument(
            "--local-too",
            action="store_true",
            help="let ranks see the OpenCL devices of their own node as well",
        )
        parser.add_argument(
            "--no-verify", action="store_true", help="do not measure and check what each rank got"
        )
        add_flag(
            parser,
            "--strict",
            f"end with exit code {NOT_AS_PLANNED} if a rank did not get, or lost, its device, or "
            "this could not be checked",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="print the choice and the command, run nothing"
        )
        parser.add_argument(
            "-o", "--output", metavar="F", type=Path, help="write the run's record to F"
        )
        add_force_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Choose, run, verify; or list."""
        if not args.launch:
            devices = pipeline.lent()
            if args.json:
                print_json(report.document("toposeat/lent/1", {"devices": devices}), args)
            else:
                show(sys.stdout, report.render_lent_text, devices)
            return 0
        if args.devices < 1:
            raise UsageError("--devices must be a positive number", hint="for example: --devices 2")
        if args.output is not None and (args.no_verify or args.dry_run):
            raise UsageError("-o keeps what ranks report", hint="leave it out, or the other option")
        if args.strict and (args.no_verify or args.dry_run):
            raise UsageError("--strict judges what ranks report", hint="leave it out, or the other")
        check_output(args.output, "the run record", overwrite=args.force)
        options = pipeline.BorrowOptions(
            each=args.devices,
            network=args.topology,
            recorded=args.profile,
            share=args.share,
            remote=args.remote,
            local_too=args.local_too,
            verify=not args.no_verify,
            dry_run=args.dry_run,
        )

        def told(borrowed: Borrowed) -> None:
            if args.verbose and not args.dry_run:
                show(sys.stderr, report.render_borrowed_text, borrowed)

        borrowed = pipeline.borrow(args.launch, options, tell=told)
        if args.output is not None:
            text = encode_json(borrowed, schema=BORROWED_SCHEMA)
            write_atomically(args.output, text, overwrite=args.force)
            tell(f"Next: toposeat borrow --dry-run -p {quoted(args.output)} -- LAUNCH...")
        if args.json:
            print_json(report.document(BORROWED_SCHEMA, borrowed), args)
        elif args.dry_run:
            show(sys.stdout, report.render_borrowed_text, borrowed)
            print_command(borrowed.launched)
        else:
            show(sys.stderr, report.render_borrowed_text, borrowed)
        wrong = [x for x in borrowed.seats if x.verdict is not SeatVerdict.AS_PLACED]
        if args.strict and wrong and not borrowed.exit_code:
            tell(f"Exit code {NOT_AS_PLANNED}: rank {wrong[0].rank}: {wrong[0].verdict} (--strict)")
            return NOT_AS_PLANNED
        return borrowed.exit_code
