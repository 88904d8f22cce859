"""`toposeat lend`: let other jobs of this user use the OpenCL devices of a job's nodes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from toposeat import launch, report
from toposeat.cli.command import Command, add_remote_option, print_json, show, tell
from toposeat.errors import UsageError
from toposeat.model.lent import LentDevice, Moved


class LendCommand(Command):
    """Lend the OpenCL devices of a job's nodes, or of this one, to your other jobs."""

    name = "lend"
    wraps = True
    needs_line = True
    usage = "toposeat lend [options] [--] [LAUNCHER OPTIONS]\n       toposeat lend --move FROM=TO"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "--network",
            metavar="ADDRESS",
            default="",
            help="listen in the network of this address or host (default: the one that leads to "
            "the job's nodes; no port is opened if the only node is this one)",
        )
        add_remote_option(parser)
        parser.add_argument(
            "--share",
            metavar="N",
            type=int,
            default=1,
            help="how many of your jobs may have a device at a time (default: 1)",
        )
        parser.add_argument(
            "--move",
            metavar="FROM=TO",
            help="move the processes that have borrowed the device FROM to TO, while they run",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Start the proxies and wait; or move processes."""
        if args.move is not None:
            return _move(args)
        if args.share < 1:
            raise UsageError("--share must be a positive number", hint="for example: --share 4")
        said = False

        def told(devices: Sequence[LentDevice]) -> None:
            nonlocal said
            if args.json:
                print_json(report.document("toposeat/lent/1", {"devices": devices}))
            else:
                show(sys.stdout, report.render_lent_text, devices)
            if not said:
                tell("Next, while this runs: toposeat borrow -- mpirun -n 8 ./app")
            said = True

        def moved(each: Moved) -> None:
            show(sys.stderr, report.render_moved_text, each)

        return launch.lend(
            args.launch or (),
            network=args.network,
            remote=args.remote,
            share=args.share,
            show=told,
            tell=tell,
            tell_moved=moved,
        )


def _move(args: argparse.Namespace) -> int:
    source, equals, target = args.move.partition("=")
    if not (source and equals and target) or args.launch:
        raise UsageError(
            "--move wants two devices that are lent, and nothing else",
            hint="for example: toposeat lend --move n1/0=n2/0; toposeat borrow lists them",
        )
    moved = launch.move_borrowers(source, target)
    if args.json:
        print_json(report.document("toposeat/moved/1", moved), args)
    else:
        show(sys.stdout, report.render_moved_text, moved)
    return 1 if moved.refused else 0
