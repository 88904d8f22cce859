"""`toposeat map`: choose a placement."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.cli.command import (
    Command,
    add_output_option,
    add_solver_options,
    add_topology_option,
    print_json,
    quoted,
    show,
    tell,
)
from toposeat.cli.page import page_text
from toposeat.errors import UsageError

if TYPE_CHECKING:
    from toposeat.model.topology import Topology


class MapCommand(Command):
    """Choose which rank sits on which GPU."""

    name = "map"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "traffic",
            metavar="TRAFFIC",
            help="a profile, a CSV matrix of bytes (row = sender), one of the files of Open MPI's "
            "monitoring, or a pattern such as stencil3d:2x2x4,weight=3",
        )
        add_topology_option(parser)
        add_output_option(parser, "the placement")
        parser.add_argument(
            "--html", metavar="F", type=Path, help="also write a self-contained report page to F"
        )
        add_solver_options(parser, min_gain_percent=0)
        parser.add_argument(
            "--devices", metavar="LIST", help="use only these devices, by index: 0-3,6"
        )
        parser.add_argument(
            "--pin",
            metavar="RANK=DEVICE",
            action="append",
            default=[],
            help="fix a rank on a device (repeatable)",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Map, show, save."""
        from toposeat import pipeline, profile, report, topology  # noqa: PLC0415
        from toposeat.model.files import check_writable, write_atomically  # noqa: PLC0415
        from toposeat.model.placement_file import save_placement  # noqa: PLC0415

        for target in (args.output, args.html):
            if target is not None:
                check_writable(target, overwrite=args.force)
        machine = topology.read_topology(args.topology)
        traffic = profile.read_traffic(args.traffic)
        result = pipeline.MapOptions.from_namespace(args).map(
            machine,
            traffic,
            devices=(None if args.devices is None else _device_positions(args.devices, machine)),
            pins=_pins(args.pin, machine),
        )
        wrote: list[str] = []
        if args.output is not None:
            placement = pipeline.placement_of(result, machine, traffic, traffic_name=args.traffic)
            save_placement(placement, args.output, overwrite=args.force)
            wrote += [
                f"Wrote {args.output}",
                f"Next: toposeat run -p {quoted(args.output)} -- mpirun -n {traffic.ranks} ./app",
            ]
        if args.html is not None:
            place = quoted(args.output or "app.place")
            page = page_text(
                [report.Section(machine, traffic, result)],
                title=f"{traffic.ranks} ranks on {machine.name}",
                subtitle=f"traffic: {args.traffic}",
                commands=[f"toposeat run -p {place} -- mpirun -n {traffic.ranks} ./app"],
            )
            write_atomically(args.html, page, overwrite=args.force)
            wrote.append(f"Wrote {args.html}")
        # The files are safe before the result is shown: its reader may be gone.
        if args.json:
            print_json(report.mapping_json(result, machine, traffic))
        else:
            show(sys.stdout, report.render_mapping_text, result, machine, traffic)
        tell(*wrote)
        return 0


def _device_positions(text: str, machine: Topology) -> list[int]:
    positions: list[int] = []
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        last = last if dash else first
        if not (_is_number(first) and _is_number(last) and int(first) <= int(last)):
            raise UsageError(
                f"--devices: expected a list such as 0-3,6, got {text!r}",
                hint="use the device indices that `toposeat discover` shows",
            )
        positions += [_position(index, machine) for index in range(int(first), int(last) + 1)]
    return list(dict.fromkeys(positions))


def _pins(texts: Sequence[str], machine: Topology) -> dict[int, int]:
    pins: dict[int, int] = {}
    for text in texts:
        rank, equals, device = text.partition("=")
        if not (equals and _is_number(rank) and _is_number(device)):
            raise UsageError(
                f"--pin: expected RANK=DEVICE, got {text!r}", hint="for example --pin 0=3"
            )
        position = _position(int(device), machine)
        if pins.setdefault(int(rank), position) != position:
            raise UsageError(f"--pin: rank {rank} is pinned twice", hint="keep one of them")
    return pins


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _position(index: int, machine: Topology) -> int:
    """Position in `Topology.devices` of the device that the machine's tools call `index`."""
    found = [at for at, device in enumerate(machine.devices) if device.index == index]
    if len(found) != 1:
        raise UsageError(
            f"{machine.name} has {'no' if not found else 'more than one'} device {index}",
            hint=f"it has {len(machine.devices)} devices; see: toposeat discover -t ...",
        )
    return found[0]
