"""`toposeat map`: choose a placement."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from toposeat.cli.command import (
    Command,
    add_network_options,
    add_output_option,
    add_solver_options,
    add_stack_option,
    add_topology_option,
    map_options,
    print_json,
    quoted,
    show_decided,
    show_mapping,
    tell,
)
from toposeat.cli.constraints import add_constraint_options, constraints_of
from toposeat.cli.large_machine import is_large
from toposeat.cli.map_scale import map_onto_shape, next_lines
from toposeat.cli.output_form import page_file, refuse_other_forms
from toposeat.cli.page import page_text
from toposeat.cli.settings import decided_words
from toposeat.errors import UsageError

if TYPE_CHECKING:
    from toposeat.model.evaluation import MappingResult
    from toposeat.model.topology import Topology
    from toposeat.model.traffic import Traffic
    from toposeat.pipeline import StackPath


class MapCommand(Command):
    """Choose which rank sits on which GPU."""

    name = "map"
    wraps = True
    usage = "toposeat map TRAFFIC -t SRC [options] [-- LAUNCH...]"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "traffic",
            metavar="TRAFFIC",
            help="a profile, a matrix (CSV, NumPy, TreeMatch; row = sender), files of Open MPI "
            "monitoring, NCCL logs, NCCL Inspector files, PyTorch traces, or a pattern: "
            "stencil3d:2x2x4,weight=3; llm:model=llama-3.1-70b,tp=8,pp=4,dp=8 (model=list "
            "is answered with the names)",
        )
        add_topology_option(parser)
        add_output_option(parser, "the placement")
        parser.add_argument(
            "--html",
            metavar="F",
            type=page_file,
            help="also write a self-contained report page to F",
        )
        add_network_options(parser)
        add_solver_options(parser, min_gain_percent=1)
        add_constraint_options(parser)
        add_stack_option(parser)
        parser.add_argument(
            "--explain",
            action="store_true",
            help="also say why: what moved, and what was the bottleneck",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Map, show, save."""
        from toposeat import pipeline, profile, report, topology  # noqa: PLC0415
        from toposeat.model.files import check_writable, write_atomically  # noqa: PLC0415

        _name_page(args)
        if is_large(args):
            if args.stack is not None:
                raise UsageError(
                    "--stack needs a measured node, not the shape of a large machine",
                    hint="map one node with --stack, or leave it out",
                )
            return map_onto_shape(args)
        for target in (args.output, args.html):
            if target is not None:
                check_writable(target, overwrite=args.force)
        machine = topology.read_topology(args.topology)
        traffic = profile.read_traffic(args.traffic)
        path = pipeline.path_of_stack(
            args.stack, None, machine, traffic.ranks, environment=os.environ
        )
        result = _mapped(args, machine, traffic, path)
        wrote: list[str] = []
        if args.output is not None:
            wrote += _save(args, result, machine, traffic)
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
            document = report.mapping_json(result, machine, traffic)
            print_json(report.with_stack(document, path.stack), args)
        else:
            show_mapping(result, machine, traffic, verbose=args.verbose)
            show_decided(args)
        if not wrote and not args.json:
            wrote = [_next_words(args, result)]
        tell(*wrote)
        return 0


def _name_page(args: argparse.Namespace) -> None:
    """`-o F.html` is the page; other pictures are refused."""
    if args.output is not None and args.output.suffix.lower() in (".html", ".htm"):
        args.output, args.html = None, args.output
    refuse_other_forms(args.output, "the placement")


def _mapped(
    args: argparse.Namespace, machine: Topology, traffic: Traffic, path: StackPath
) -> MappingResult:
    from toposeat import pipeline  # noqa: PLC0415
    from toposeat.cli.progress import search_bar  # noqa: PLC0415

    constraints = constraints_of(args, machine)
    options = map_options(args, constraints=constraints, explained=args.explain)
    with search_bar(f"placing {traffic.ranks} ranks", args.budget or 0):
        result = pipeline.map_on_path(machine, traffic, options, path)
        if args.launch is not None:
            dealing = pipeline.Dealing.of(args.launch, machine.hosts, os.environ)
            result, said = pipeline.dealt_mapping(
                machine, traffic, options, path, result, dealing=dealing
            )
            tell(*said)
    return result


def _next_words(args: argparse.Namespace, result: MappingResult) -> str:
    """What to do with an answer that is in no file."""
    more = "" if args.verbose else "; -v says more"
    if result.device_of_rank == result.default.device_of_rank:
        return f"Next: start the job as it is{more}"
    ranks = len(result.device_of_rank)
    return (
        f"Next: add -o app.place, then toposeat run -p app.place -- mpirun -n {ranks} ./app{more}"
    )


def _save(
    args: argparse.Namespace, result: MappingResult, machine: Topology, traffic: Traffic
) -> list[str]:
    """Write the placement; what to say of it."""
    from toposeat import launch, pipeline  # noqa: PLC0415
    from toposeat.model.placement_file import save_placement  # noqa: PLC0415

    placement = pipeline.placement_of(
        result,
        machine,
        traffic,
        traffic_name=args.traffic,
        machine_source=args.topology,
        stack=args.stack or "",
    )
    save_placement(placement.with_settings(decided_words(args)), args.output, overwrite=args.force)
    place = quoted(args.output)
    said = [
        *filter(None, [launch.visibility_words(placement)]),
        f"Wrote {args.output}",
        *next_lines(args, placement),
    ]
    if any(route.protocols for route in machine.routes):
        said.append(f"Protocols: toposeat advise -p {place} -- mpirun -n {traffic.ranks} ./app")
    return said
