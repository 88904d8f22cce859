"""`toposeat choose`: which of the free GPUs a job should take."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from toposeat import mapping, pipeline, profile, report
from toposeat.cli.command import (
    Command,
    add_topology_option,
    environment_of,
    job_words,
    natural,
    print_json,
    read_machine,
    show,
    tell,
)
from toposeat.cli.constraints import device_list
from toposeat.errors import UsageError
from toposeat.model.shell_words import shell_line, shell_word

if TYPE_CHECKING:
    from toposeat.model.device_set import DeviceSet
    from toposeat.model.topology import Topology


class ChooseCommand(Command):
    """Choose which of the free GPUs a job should take, and print the line to copy."""

    name = "choose"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument("count", metavar="N", type=natural, help="how many GPUs")
        add_topology_option(parser, required=False)
        parser.add_argument(
            "--free", metavar="LIST", help="the GPUs that are free, e.g. 0,2-5 (default: all)"
        )
        parser.add_argument(
            "--for",
            dest="traffic",
            metavar="TRAFFIC",
            help="what the job's ranks send each other: a profile, matrix or pattern of N ranks "
            "(default: an all-reduce among all of them)",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Choose and show."""
        from toposeat.model.transport import nccl_setting  # noqa: PLC0415

        machine = read_machine(args.topology, to_plan=True)
        free = None if args.free is None else device_list("--free", args.free, machine)
        around = environment_of(args.topology)
        setting = nccl_setting(around or {})
        chosen = _chosen(args, pipeline.as_nccl_is_set(machine, setting), free)
        if setting is not None:
            tell(f"note: {setting.note}")
        transport = pipeline.transport_of(machine, chosen.devices, environment=around)
        chosen = replace(chosen, transport=transport)
        if args.json:
            print_json(report.device_set_json(chosen, machine))
        else:
            show(sys.stdout, report.render_device_set_text, chosen, machine)
            job = shell_line(job_words(args.traffic, args.count))
            tell(f"Next: set that line, then toposeat tune -- {job}")
        return 0


def _chosen(args: argparse.Namespace, machine: Topology, free: list[int] | None) -> DeviceSet:
    if args.traffic is None:
        machines = pipeline.open_machine(machine)
        return mapping.choose_devices(machine, args.count, free, machine=machines)

    traffic = profile.read_traffic(args.traffic)
    if traffic.ranks != args.count:
        raise UsageError(
            f"{args.count} GPUs are asked for, the traffic has {traffic.ranks} ranks",
            hint=f"toposeat choose {traffic.ranks} --for {shell_word(args.traffic)}",
        )
    return pipeline.choose_for_traffic(machine, traffic, free)
