"""`toposeat measure`: what this node's GPUs really reach between processes."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toposeat.cli.command import (
    Command,
    add_output_option,
    add_topology_option,
    print_json,
    quoted,
    tell,
    write_result,
)
from toposeat.cli.progress import progress_bar
from toposeat.errors import UsageError

if TYPE_CHECKING:
    from toposeat.topology.measure import PairResults, SharedLink


class MeasureCommand(Command):
    """Measure latency and bandwidth between this node's GPUs, pair by pair and together."""

    name = "measure"
    wraps = True
    usage = "toposeat measure [-t SRC] [options] [-- LAUNCH...]"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        from toposeat.topology.measure import PROTOCOLS  # noqa: PLC0415

        add_topology_option(parser, required=False)
        add_output_option(parser, "the topology with measured numbers")
        parser.add_argument(
            "--protocols",
            metavar="LIST",
            default="get",
            help=f"ways to copy, of {', '.join(PROTOCOLS)}; the first one gives the topology's"
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
            help="seconds for pairs alone; every pair is measured whatever it says (default: 60)",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="print the rounds of pairs, measure nothing"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Measure, show, save."""
        from toposeat import topology  # noqa: PLC0415
        from toposeat.model.files import check_writable  # noqa: PLC0415
        from toposeat.model.topology_file import save_topology  # noqa: PLC0415
        from toposeat.topology import measure  # noqa: PLC0415

        protocols = _protocols(args.protocols)
        devices = _devices(args.devices)
        base = topology.read_topology(args.topology) if args.topology is not None else None
        if args.dry_run:
            count = len(devices) or (len(base.devices) if base else 0)
            _print_rounds(count)
            return 0
        if args.output is not None:
            check_writable(args.output, overwrite=args.force)
        with measure.Workers(args.launch or (), devices) as workers:
            tell(f"Measuring {workers.count} GPUs, {', '.join(protocols)}")
            results = measure.PairResults(workers.count)
            with progress_bar("pairs alone") as bar:
                measure.measure_pairs(workers, protocols, args.budget, results, bar)
            bandwidth = results.bandwidth(protocols[0])
            with progress_bar("sets at once") as bar:
                shared = measure.find_shared_links(workers, bandwidth, protocols[0], bar)
            pci = list(workers.pci)
        facts = measure.facts_of_measurement(pci, bandwidth, results.latency(protocols[0]))
        if base is None:
            machine = measure.topology_of_measurement("measured", facts, shared)
        else:
            machine = measure.measured_topology(base, facts, shared)
        if args.json:
            print_json(_json(pci, protocols, results, shared))
        else:
            write_result(_text(protocols, results, shared))
            for line in machine.report:
                tell(f"note: {line}")
        if args.output is not None:
            save_topology(machine, args.output, overwrite=args.force)
            tell(
                f"Wrote {args.output}",
                f"Next: toposeat map TRAFFIC -t {quoted(args.output)} -o app.place",
            )
        return 0


def _protocols(text: str) -> list[str]:
    from toposeat.topology.measure import PROTOCOLS  # noqa: PLC0415

    chosen = [each.strip() for each in text.split(",") if each.strip()]
    unknown = [each for each in chosen if each not in PROTOCOLS]
    if unknown or not chosen:
        raise UsageError(
            f"no protocol {unknown[0]!r}" if unknown else "no protocol",
            hint=f"give some of: {', '.join(PROTOCOLS)}",
        )
    return list(dict.fromkeys(chosen))


def _devices(text: str) -> list[int]:
    words = [each.strip() for each in text.split(",") if each.strip()]
    if not all(each.isdecimal() and len(each) < 5 for each in words):
        raise UsageError(f"--devices {text}: not a list of numbers", hint="for example 0,1,4")
    numbers = [int(each) for each in words]
    if len(set(numbers)) < len(numbers):
        raise UsageError(f"--devices {text}: a GPU twice", hint="for example 0,1,4")
    return numbers


def _print_rounds(count: int) -> None:
    from toposeat.topology.measure import tournament  # noqa: PLC0415

    if count < 2:
        raise UsageError("nothing to plan", hint="say which machine: -t SRC, or --devices 0,1,2,3")
    lines = [
        f"round {number}: {' '.join(f'{a}-{b}' for a, b in matches)}\n"
        for number, matches in enumerate(tournament(count), 1)
    ]
    write_result("".join(lines))


def _json(
    pci: Sequence[str],
    protocols: Sequence[str],
    results: PairResults,
    shared: Sequence[SharedLink],
) -> dict[str, Any]:
    return {
        "schema": "toposeat/measurement/1",
        "devices": list(pci),
        "protocols": {
            each: {
                "bandwidth_bytes_per_s": _rows(results.bandwidth(each)),
                "latency_s": _rows(results.latency(each)),
            }
            for each in protocols
        },
        "spread": results.spread(),
        "shared": [
            {
                "devices": sorted(each.inside),
                "out_bytes_per_s": each.out_bytes_per_s,
                "in_bytes_per_s": each.in_bytes_per_s,
                "both_bytes_per_s": each.both_bytes_per_s,
            }
            for each in shared
        ],
    }


def _rows(values: Any) -> list[list[float | None]]:
    return [[None if math.isnan(x) else float(x) for x in row] for row in values]


def _text(protocols: Sequence[str], results: PairResults, shared: Sequence[SharedLink]) -> str:
    parts = []
    for each in protocols:
        parts.append(_matrix(f"{each}: GB/s (measured, 1 to 4 MiB)", results.bandwidth(each) / 1e9))
        parts.append(_matrix(f"{each}: us (measured, 8 bytes)", results.latency(each) * 1e6))
    if shared:
        lines = ["GPUs that share a link to the others   out    in  both at once (GB/s, measured)"]
        for link in shared:
            names = ", ".join(map(str, sorted(link.inside)))
            rates = (link.out_bytes_per_s, link.in_bytes_per_s, link.both_bytes_per_s)
            lines.append(f"{names:<36}" + " ".join(f"{_number(x / 1e9):>5}" for x in rates))
        parts.append("\n".join(lines) + "\n")
    else:
        parts.append("No shared link was found.\n")
    parts.append(f"Spread of large transfers (median beyond the fastest): {results.spread():.1%}\n")
    return "\n".join(parts)


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
