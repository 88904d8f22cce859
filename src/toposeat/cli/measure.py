"""`toposeat measure`: what this node's GPUs really reach between processes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from toposeat import emulation, report, topology
from toposeat.cli.command import (
    Command,
    add_flag,
    add_output_option,
    add_topology_option,
    print_json,
    quoted,
    read_machine,
    show,
    show_decided,
    tell,
    write_result,
)
from toposeat.cli.output import check_output
from toposeat.cli.progress import progress_bar
from toposeat.errors import UsageError
from toposeat.topology import measure

if TYPE_CHECKING:
    from toposeat.model.topology import Topology
    from toposeat.topology.measure import SharedLink

_PROTOCOL = "get"  # the receiver reads, as MPIs do
_EMULATED = "emulated"  # member of a topology's metadata: the stand-in that was measured


class MeasureCommand(Command):
    """Measure latency and bandwidth between this node's GPUs, pair by pair and together."""

    name = "measure"
    wraps = True
    usage = "toposeat measure [-t SRC] [options] [-- LAUNCH...]"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        add_topology_option(parser, required=False)
        add_output_option(parser, "the topology with measured numbers")
        parser.add_argument(
            "--devices",
            metavar="LIST",
            default="",
            help="GPUs to measure, e.g. 0,1,4 (default: all)",
        )
        parser.add_argument(
            "--budget",
            metavar="S",
            type=float,
            default=60.0,
            help="seconds for measuring one pair at a time; every pair is measured even if that"
            " takes longer (default: 60)",
        )
        add_flag(parser, "--dry-run", "print the rounds of pairs, measure nothing")

    def run(self, args: argparse.Namespace) -> int:
        """Measure, show, save."""
        devices = _devices(args.devices)
        base = read_machine(args.topology) if args.topology is not None else None
        if args.dry_run:
            count = len(devices) or (len(base.devices) if base else 0)
            _print_rounds(count)
            return 0
        if args.budget != args.budget or args.budget < 0:  # NaN
            raise UsageError(f"--budget {args.budget}: not a time", hint="seconds, for example 60")
        check_output(args.output, "the topology", overwrite=args.force)
        with measure.Workers(args.launch or (), devices) as workers:
            if workers.count < 2:
                raise measure.MeasureError(
                    f"{workers.count} GPU visible; a pair needs two", hint="see toposeat discover"
                )
            tell(f"Measuring {workers.count} GPUs")
            pci, ordinals = list(workers.pci), list(workers.ordinals)
            if base is not None:
                measure.check_machine(base, pci, ordinals)
            results = measure.PairResults(len(pci))
            with progress_bar("pairs alone") as bar:
                measure.measure_pairs(workers, [_PROTOCOL], args.budget, results, bar)
            with progress_bar("both directions") as bar:
                measure.measure_both_ways(workers, _PROTOCOL, results, bar)
            bandwidth, _ = measure.pair_numbers(results, _PROTOCOL)
            with progress_bar("sets at once") as bar:
                tried = measure.try_sets(workers, bandwidth, _PROTOCOL, bar)
            with progress_bar("copies to and from the host") as bar:
                host = measure.measure_host(workers, bar)
        facts = measure.facts_of_measurement(pci, results, _PROTOCOL, host, ordinals)
        found = measure.measurement_of(pci, results, tried, host)
        if args.json:
            print_json(report.document("toposeat/measurement/1", found), args)
        else:
            show(sys.stdout, report.render_measurement_text, found)
            show_decided(args)
        machine = _machine(base, facts, tried)
        machine = measure.with_results(machine, pci, results, _PROTOCOL)
        machine = _marked(machine)
        unseen = measure.unseen_devices(base, pci) if base is not None and not devices else []
        for line in (*unseen, *measure.fallen_back(results, [_PROTOCOL]), *machine.report):
            tell(f"note: {line}")
        if args.output is not None:
            topology.save_topology(machine, args.output, overwrite=args.force)
            tell(
                f"Wrote {args.output}",
                f"Next: toposeat map TRAFFIC -t {quoted(args.output)} -o app.place",
            )
        return 0


def _machine(base: Topology | None, facts: Topology, tried: Sequence[SharedLink]) -> Topology:
    if base is not None:
        return measure.measured_topology(base, facts, tried)
    try:
        shared = [each for each in tried if each.limits]
        return measure.topology_of_measurement("measured", facts, shared)
    except ValueError as error:
        raise measure.MeasureError(
            f"the measurement alone does not describe a machine: {error}",
            hint="add what is known of the node: -t this",
        ) from error


def _marked(machine: Topology) -> Topology:
    """The machine, marked as emulated if it is a stand-in."""
    metadata = {k: v for k, v in machine.metadata.items() if k != _EMULATED}
    stand_in = emulation.emulated_machine(os.environ)
    if stand_in:
        metadata[_EMULATED] = stand_in
    return replace(machine, metadata=metadata)


def _devices(text: str) -> list[int]:
    words = [each.strip() for each in text.split(",") if each.strip()]
    if not all(each.isdecimal() and len(each) < 5 for each in words):
        raise UsageError(f"--devices {text}: not a list of numbers", hint="for example 0,1,4")
    numbers = [int(each) for each in words]
    if len(set(numbers)) < len(numbers):
        raise UsageError(f"--devices {text}: a GPU is listed twice", hint="for example 0,1,4")
    return numbers


def _print_rounds(count: int) -> None:
    if count < 2:
        raise UsageError(
            "the number of GPUs is not known", hint="give -t SRC, or --devices 0,1,2,3"
        )
    lines = [
        f"round {number}: {' '.join(f'{a}-{b}' for a, b in matches)}\n"
        for number, matches in enumerate(measure.tournament(count), 1)
    ]
    write_result("".join(lines))
