"""`toposeat emulate`: run a command on a stand-in GPU node."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from toposeat import emulation, launch
from toposeat.cli.command import (
    Command,
    add_flag,
    add_topology_option,
    read_machine,
    require_launch,
    show_decided,
    tell,
    write_result,
)

# Options of Open MPI that bring other nodes into a job.
_OTHER_HOSTS = {"host", "H", "hostfile", "machinefile", "default-hostfile"}


class EmulateCommand(Command):
    """Run a command on emulated GPUs whose copies take the time that the links need."""

    name = "emulate"
    wraps = True
    needs_line = True
    usage = "toposeat emulate -t SRC [options] [--] COMMAND..."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        add_topology_option(parser)
        parser.add_argument(
            "--scale",
            metavar="X",
            type=float,
            default=0.01,
            help="factor for every bandwidth, so that this CPU is fast enough for the copies "
            "(default: 0.01)",
        )
        add_flag(parser, "--dry-run", "print the machine file, run nothing")

    def run(self, args: argparse.Namespace) -> int:
        """Run the command with the stand-in libraries, then remove their files."""
        machine = read_machine(args.topology)
        command = () if args.dry_run else require_launch(args, self.name)
        text = emulation.machine_text(machine, scale=args.scale)
        if args.dry_run:
            write_result(text)
            return 0
        with emulation.emulated_node(text) as node:
            environment = node.environment(os.environ)
            show_decided(args, as_remark=True)
            tell(
                f"Emulating {machine.name}: all times below are those of the stand-in, not of a GPU"
            )
            if {device.vendor for device in machine.devices} & {"amd", "intel"}:
                tell("The stand-in is NVIDIA's driver: it does not tell other makers' device links")
            return launch.run_child(_forwarding(command, emulation.VARIABLES), environment)


def _forwarding(command: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """The command, with Open MPI told to hand these variables to other nodes, which others do."""
    at = command.index("--") + 1 if "--" in command[:-1] else 0  # toposeat run -- mpirun ...
    if launch.identify_launcher(command[at]) is not launch.LauncherKind.OPENMPI:
        return command
    if not _OTHER_HOSTS.intersection(word.lstrip("-") for word in command[at:]):
        return command
    forwarded = [word for name in names for word in ("-x", name)]
    return [*command[: at + 1], *forwarded, *command[at + 1 :]]
