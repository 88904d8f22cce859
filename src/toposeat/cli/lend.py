"""`toposeat lend`: let other jobs of this user use the OpenCL devices of a job's nodes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from toposeat import launch, report
from toposeat.cli.command import Command, print_json, show, tell
from toposeat.model.lent import LentDevice


class LendCommand(Command):
    """Lend the OpenCL devices of a job's nodes, or of this one, to your other jobs."""

    name = "lend"
    wraps = True
    needs_line = True
    usage = "toposeat lend [options] [--] [LAUNCHER OPTIONS]"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "--network",
            metavar="ADDRESS",
            default="",
            help="listen in the network of this address or host (default: that on the way to the "
            "job's nodes; no port where all of them are this one)",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Start the proxies and wait."""
        said = False

        def told(devices: Sequence[LentDevice]) -> None:
            nonlocal said
            if args.json:
                print_json(report.document("toposeat/lent/1", {"devices": devices}))
            else:
                show(sys.stdout, report.render_lent_text, devices)
            if not said:
                tell("Next: toposeat borrow -- mpirun -n 8 ./app (lent until this ends)")
            said = True

        return launch.lend(args.launch or (), network=args.network, show=told, tell=tell)
