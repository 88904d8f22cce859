"""`toposeat discover`: what a machine is."""

from __future__ import annotations

import argparse
import sys

from toposeat.cli.command import (
    Command,
    add_output_option,
    add_topology_option,
    print_json,
    quoted,
    show,
    tell,
    write_result,
)


class DiscoverCommand(Command):
    """Learn how a machine's GPUs are wired, from the machine, a file or the catalogue."""

    name = "discover"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        add_topology_option(parser, required=False)
        add_output_option(parser, "the topology")
        parser.add_argument(
            "--format", choices=("text", "json", "svg"), default="text", help="default: text"
        )
        parser.add_argument(
            "--list", action="store_true", help="list the catalogue of known machines"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Read, show, save."""
        from toposeat import report, topology  # noqa: PLC0415
        from toposeat.model.files import check_writable  # noqa: PLC0415
        from toposeat.model.topology_file import save_topology  # noqa: PLC0415

        if args.list:
            names = topology.catalogue_names()
            if args.json:
                print_json({"schema": "toposeat/catalogue/1", "machines": list(names)})
            else:
                write_result("".join(f"{name}\n" for name in names))
            return 0
        if args.output is not None:
            check_writable(args.output, overwrite=args.force)
        machine = topology.read_topology("this" if args.topology is None else args.topology)
        if args.output is not None:
            save_topology(machine, args.output, overwrite=args.force)
            tell(
                f"Wrote {args.output}",
                f"Next: toposeat map TRAFFIC -t {quoted(args.output)} -o app.place",
            )
        if args.json or args.format == "json":
            print_json(report.topology_json(machine))
        elif args.format == "svg":
            write_result(report.topology_svg(machine).encode("utf-8", "replace"))
        elif args.output is None:
            show(sys.stdout, report.render_topology_text, machine)
        return 0
