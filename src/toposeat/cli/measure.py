"""`toposeat measure`: what this node's GPUs really reach between processes."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposeat import emulation
from toposeat.cli.command import (
    Command,
    add_flag,
    add_output_option,
    add_topology_option,
    print_json,
    quoted,
    read_machine,
    show_decided,
    tell,
    write_result,
)
from toposeat.cli.output import check_output
from toposeat.cli.progress import progress_bar
from toposeat.errors import UsageError
from toposeat.topology import measure

if TYPE_CHECKING:
    from toposeat.model.pair import HostNumbers
    from toposeat.model.topology import Topology
    from toposeat.topology.measure import PairResults, SharedLink

_EMULATED = "emulated"  # member of a topology's metadata: the stand-in that was measured


class MeasureCommand(Command):
    """Measure latency and bandwidth between this node's GPUs, pair by pair and together."""

    name = "measure"
    wraps = True
    usage = "toposeat measure [-t SRC] [options] [-- LAUNCH...]"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        from toposeat.model.route import CopyProtocol  # noqa: PLC0415

        add_topology_option(parser, required=False)
        add_output_option(parser, "the topology with measured numbers")
        parser.add_argument(
            "--protocols",
            metavar="LIST",
            default="get",
            help=f"copy protocols, of {', '.join(CopyProtocol)}; the first one gives the topology's"
            " numbers (default: get)",
        )
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
        parser.add_argument(
            "--raw",
            metavar="F",
            type=Path,
            help="write each single time to this file; if it exists, the measurement is continued",
        )
        add_flag(parser, "--dry-run", "print the rounds of pairs, measure nothing")

    def run(self, args: argparse.Namespace) -> int:
        """Measure, show, save."""
        from toposeat.topology.topology_file import save_topology  # noqa: PLC0415

        protocols = _protocols(args.protocols)
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
            tell(f"Measuring {workers.count} GPUs, {', '.join(protocols)}")
            pci, ordinals = list(workers.pci), list(workers.ordinals)
            if base is not None:
                measure.check_machine(base, pci, ordinals)
            with _kept(args.raw, pci) as results:
                with progress_bar("pairs alone") as bar:
                    measure.measure_pairs(workers, protocols, args.budget, results, bar)
                with progress_bar("both directions") as bar:
                    for protocol in protocols:
                        measure.measure_both_ways(workers, protocol, results, bar)
            bandwidth, _ = measure.pair_numbers(results, protocols[0])
            with progress_bar("sets at once") as bar:
                tried = measure.try_sets(workers, bandwidth, protocols[0], bar)
            with progress_bar("copies to and from the host") as bar:
                host = measure.measure_host(workers, bar)
        facts = measure.facts_of_measurement(pci, results, protocols[0], host, ordinals)
        if args.json:
            print_json(measurement_document(pci, protocols, results, tried, host), args)
        else:
            write_result(measurement_text(protocols, results, tried, host))
            show_decided(args)
        machine = _machine(base, facts, tried)
        machine = measure.with_results(machine, pci, results, protocols[0])
        machine = _marked(machine)
        unseen = measure.unseen_devices(base, pci) if base is not None and not devices else []
        for line in (*unseen, *measure.fallen_back(results, protocols), *machine.report):
            tell(f"note: {line}")
        if args.output is not None:
            save_topology(machine, args.output, overwrite=args.force)
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


def _kept(path: Path | None, pci: Sequence[str]) -> AbstractContextManager[PairResults]:
    if path is None:
        return nullcontext(measure.PairResults(len(pci)))
    return measure.raw_file(path, pci)


def _protocols(text: str) -> list[str]:
    chosen = [each.strip() for each in text.split(",") if each.strip()]
    unknown = [each for each in chosen if each not in measure.PROTOCOLS]
    if unknown or not chosen:
        raise UsageError(
            f"no protocol {unknown[0]!r}" if unknown else "no protocol",
            hint=f"choose from: {', '.join(measure.PROTOCOLS)}",
        )
    return list(dict.fromkeys(chosen))


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


def measurement_document(
    pci: Sequence[str],
    protocols: Sequence[str],
    results: PairResults,
    tried: Sequence[SharedLink],
    host: Sequence[HostNumbers],
) -> dict[str, Any]:
    """The whole measurement, with the protocols that pairs fell back to."""
    return {
        "schema": "toposeat/measurement/1",
        "devices": list(pci),
        "protocols": {
            each: {
                "bandwidth_bytes_per_s": _rows(results.bandwidth(each)),
                "latency_s": _rows(results.latency(each)),
                "bandwidth_ratio": _rows(results.bandwidth_ratio(each)),
                "latency_ratio": _rows(results.latency_ratio(each)),
                "both_ways_bytes_per_s": _rows(results.both_ways(each)),
                "both_ways_ratio": _rows(results.both_ways_ratio(each)),
            }
            for each in _used(protocols, results)
        },
        "spread": results.spread(),
        "shared": [
            {
                "devices": sorted(each.inside),
                "out_bytes_per_s": each.out_bytes_per_s,
                "in_bytes_per_s": each.in_bytes_per_s,
                "both_bytes_per_s": each.both_bytes_per_s,
                "limits": each.limits,
            }
            for each in tried
        ],
        "host": [
            {
                "device": int(each.device.removeprefix("GPU")),
                "what": each.what,
                "to_device": each.to_device,
                "from_device": each.from_device,
            }
            for each in host
        ],
    }


def _used(protocols: Sequence[str], results: PairResults) -> list[str]:
    """The protocols asked for, then those that pairs fell back to."""
    return list(dict.fromkeys([*protocols, *sorted({key[2] for key in results.of})]))


def _rows(values: Any) -> list[list[float | None]]:
    return [[None if math.isnan(x) else float(x) for x in row] for row in values]


def measurement_text(
    protocols: Sequence[str],
    results: PairResults,
    tried: Sequence[SharedLink],
    host: Sequence[HostNumbers],
) -> str:
    """Matrices, shared links, host copies, spread."""
    first, tables = protocols[0], []
    for each in _used(protocols, results):
        tables.append((f"{each}: GB/s (measured, 1 to 4 MiB)", results.bandwidth(each) / 1e9))
        tables.append((f"{each}: us (measured, 8 bytes)", results.latency(each) * 1e6))
    tables.append((f"{first}: bandwidth ratio to the farthest", results.bandwidth_ratio(first)))
    tables.append((f"{first}: latency ratio to the farthest", results.latency_ratio(first)))
    both, ratio = results.both_ways(first), results.both_ways_ratio(first)
    if not all(math.isnan(x) for row in both for x in row):
        tables.append((f"{first}: GB/s of both directions at once (measured)", both / 1e9))
        tables.append((f"{first}: ratio to the farthest, both directions", ratio))
    parts = [_matrix(title, values) for title, values in tables]
    parts.append(_shared([each for each in tried if each.limits]))
    parts += [_roomy(each) for each in tried if not each.limits]
    if host:
        parts.append(_host(host))
    parts.append(f"Spread of large transfers (median beyond the fastest): {results.spread():.1%}\n")
    return "\n".join(parts)


def _shared(links: Sequence[SharedLink]) -> str:
    if not links:
        return "No shared link was found.\n"
    lines = ["GPUs that share a link to the others   out    in  both at once (GB/s, measured)"]
    for link in links:
        names = ", ".join(map(str, sorted(link.inside)))
        rates = (link.out_bytes_per_s, link.in_bytes_per_s, link.both_bytes_per_s)
        lines.append(f"{names:<36}" + " ".join(f"{_number(x / 1e9):>5}" for x in rates))
    return "\n".join(lines) + "\n"


def _roomy(link: SharedLink) -> str:
    """A set whose GPUs together do not fill the link between them and the others."""
    names = ", ".join(map(str, sorted(link.inside)))
    rates = (link.out_bytes_per_s, link.in_bytes_per_s)
    out, into = (_number(x / 1e9) for x in rates)
    return (
        f"Not a bottleneck: the connection of GPUs {names} to the others carries all that they"
        f" send and\nreceive together ({out} GB/s out, {into} in, measured); its capacity cannot be"
        " measured with them.\n"
    )


def _host(host: Sequence[HostNumbers]) -> str:
    lines = ["Pinned host memory   to device  from device (measured)"]
    for each in host:
        factor, unit = (1e9, "GB/s") if each.what == "bandwidth" else (1e-6, "us")
        rates = [math.nan if x is None else x for x in (each.to_device, each.from_device)]
        cells = " ".join(f"{_number(x / factor):>10}" for x in rates)
        name = each.device.replace("GPU", "G")
        lines.append(f"{f'{name} {unit}':<18}{cells}")
    return "\n".join(lines) + "\n"


def _matrix(title: str, values: Any) -> str:
    cells = [
        ["X" if i == j else _number(x) for j, x in enumerate(row)] for i, row in enumerate(values)
    ]
    width = max(4, *(len(cell) for row in cells for cell in row))
    head = " " * 4 + " ".join(f"{f'G{j}':>{width}}" for j in range(len(cells)))
    lines = [title, head]
    for i, row in enumerate(cells):
        lines.append(f"{f'G{i}':<4}" + " ".join(f"{cell:>{width}}" for cell in row))
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"
