"""`toposeat map`: choose a placement."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from toposeat.cli.command import (
    Command,
    add_everyday_group,
    add_flag,
    add_goal_options,
    add_network_options,
    add_output_option,
    add_solver_options,
    add_stack_option,
    add_topology_option,
    environment_of,
    job_words,
    map_options,
    print_json,
    quoted,
    show,
    show_decided,
    show_mapping,
    starts_node_by_node,
    tell,
)
from toposeat.cli.constraints import add_constraint_options, add_device_options, constraints_of
from toposeat.cli.machine import machine_of, sources_of
from toposeat.cli.output import page_file, page_text, refuse_other_forms
from toposeat.cli.settings import decided_words
from toposeat.errors import UsageError
from toposeat.model.shell_words import shell_line

if TYPE_CHECKING:
    from toposeat.mapping import Machine
    from toposeat.model.evaluation import MappingResult
    from toposeat.model.map_options import MapOptions
    from toposeat.model.placement import Placement
    from toposeat.model.traffic import Traffic
    from toposeat.pipeline import StackPath
    from toposeat.report import Section


_PARTS = 1000  # of the progress bar
_EXPORT = "toposeat export {} --launcher torchrun"


class MapCommand(Command):
    """Choose which rank sits on which GPU."""

    name = "map"
    wraps = True
    usage = (
        "toposeat map TRAFFIC [-t SRC] [options] [-- LAUNCH...]\n"
        "       toposeat map --list [--json]"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "traffic",
            metavar="TRAFFIC",
            nargs="?",
            help="a profile, a matrix (CSV, NumPy; row = sender), files of Open MPI "
            "monitoring, NCCL logs, PyTorch traces, or a pattern: "
            "stencil3d:2x2x4,weight=3; llm:model=llama-3.1-70b,tp=8,pp=4,dp=8 (model=list "
            "is answered with the names)",
        )
        everyday = add_everyday_group(parser)
        add_topology_option(everyday, required=False)
        add_output_option(everyday, "the placement")
        add_device_options(everyday)
        add_goal_options(everyday)
        add_flag(everyday, "--explain", "also say why: what moved, and what was the bottleneck")
        add_flag(everyday, "--list", "show the patterns, each with a small drawing")
        group = parser.add_argument_group("search and report")
        group.add_argument(
            "--html",
            metavar="F",
            type=page_file,
            help="also write a self-contained report page to F",
        )
        add_solver_options(group)
        add_stack_option(group)
        add_network_options(parser)
        add_constraint_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Map, show, save."""
        from toposeat import mapping, pipeline, profile, report  # noqa: PLC0415
        from toposeat.model.files import check_writable, write_atomically  # noqa: PLC0415

        if args.list:
            _list(args)
            return 0
        _name_page(args)
        for target in (args.output, args.html):
            if target is not None:
                check_writable(target, overwrite=args.force)
        traffic = profile.read_traffic(_source_of_traffic(args))
        machine = machine_of(args)
        constraints = constraints_of(args, machine)
        if args.hosts == "job" and constraints.devices is None:
            devices = pipeline.devices_of_job(machine, traffic.ranks, args.launch, os.environ)
            constraints = replace(constraints, devices=devices)
        options = map_options(args, constraints=constraints, explained=args.explain)
        listed = None if args.stack is None else machine.topology
        path = pipeline.path_of_stack(
            args.stack, None, listed, traffic.ranks, environment=os.environ
        )
        around = environment_of(args.topology)
        if args.stack is None and around is not None:
            path = path.in_environment(around)
        topology = path.listed(machine, options)
        needs = [("--metric", args.metric != "bandwidth"), ("--explain", args.explain)]
        if topology is None and any(is_given for _, is_given in needs):
            raise mapping.needs_devices(next(name for name, is_given in needs if is_given))
        result = _mapped(args, machine, traffic, options, path)
        if topology is not None and path.stack is None:
            transport = pipeline.transport_of(
                topology,
                result.device_of_rank,
                environment=around,
                traffic=traffic,
            )
            result = replace(result, transport=transport)
        wrote: list[str] = []
        if args.output is not None:
            wrote += _save(args, result, machine, traffic)
        if args.html is not None:
            section = report.Section(topology, traffic, result)
            page = _page(args, section, traffic.ranks, machine.name)
            write_atomically(args.html, page, overwrite=args.force)
            wrote.append(f"Wrote {args.html}")
        # The files are safe before the result is shown: its reader may be gone.
        if args.json:
            document = report.mapping_json(result, topology, traffic)
            print_json(document | {"stack": report.form_of(path.stack)}, args)
        else:
            show_mapping(result, topology, traffic, verbose=args.verbose)
            show_decided(args)
        if not wrote and not args.json:
            wrote = [_next_words(args, result)]
        tell(*wrote)
        return 0


def _list(args: argparse.Namespace) -> None:
    """Show the patterns."""
    from toposeat import profile, report  # noqa: PLC0415

    if args.json:
        entries = [
            {"name": name, "form": each.form, "meaning": each.meaning, "drawing": each.drawing}
            for name, each in profile.PATTERNS.items()
        ]
        print_json({"schema": "toposeat/patterns/1", "patterns": entries})
        return
    rows = [(each.form, each.drawing, each.meaning) for each in profile.PATTERNS.values()]
    show(sys.stdout, report.render_patterns_text, rows)
    tell("Next: toposeat map ring:8 -t dgx-1v, or without -t for this machine")


def _source_of_traffic(args: argparse.Namespace) -> str:
    if args.traffic is None:
        raise UsageError(
            "what the ranks send each other is missing",
            hint="give a profile or a pattern: toposeat map --list",
        )
    return str(args.traffic)


def _page(args: argparse.Namespace, section: Section, ranks: int, machine: str) -> str:
    """The report page of a mapping."""
    place = quoted(args.output or "app.place")
    return page_text(
        [section],
        title=f"{ranks} ranks on {machine}",
        subtitle=f"traffic: {args.traffic}",
        commands=[_start(args, place, ranks)],
    )


def _name_page(args: argparse.Namespace) -> None:
    """`-o F.html` is the page; other pictures are refused."""
    if args.output is not None and args.output.suffix.lower() in (".html", ".htm"):
        args.output, args.html = None, args.output
    refuse_other_forms(args.output, "the placement")


def _mapped(
    args: argparse.Namespace,
    machine: Machine,
    traffic: Traffic,
    options: MapOptions,
    path: StackPath,
) -> MappingResult:
    from toposeat import launch, pipeline  # noqa: PLC0415
    from toposeat.cli.progress import progress_bar, search_bar  # noqa: PLC0415

    if args.launch:
        line = launch.parse_launch_line(args.launch)
        options = pipeline.with_script(line, machine, traffic, options, tell)
    what = f"placing {traffic.ranks} ranks"
    budget_s = 0 if machine.lists is None else args.budget or 0  # a large search shows its stages
    with search_bar(what, budget_s), progress_bar(what) as advance:
        return pipeline.map_on_path(
            machine,
            traffic,
            options,
            path,
            progress=lambda _stage, share: advance(round(share * _PARTS), _PARTS),
        )


def _next_words(args: argparse.Namespace, result: MappingResult) -> str:
    """What to do with an answer that is in no file."""
    more = "" if args.verbose else "; -v says more"
    if result.kept_default:
        return f"Next: start the job as it is{more}"
    start = _start(args, "app.place", len(result.device_of_rank))
    return f"Next: add -o app.place, then {start}{more}"


def _start(args: argparse.Namespace, place: str, ranks: int) -> str:
    """What starts the job as the placement says, of which `place` is the quoted name."""
    if starts_node_by_node(args):
        return _EXPORT.format(place)
    launcher = "srun" if args.node is not None and "SLURM_JOB_ID" in os.environ else "mpirun"
    command = args.launch or job_words(args.traffic, ranks, launcher)
    return f"toposeat run -p {place} -- {shell_line(command)}"


def _save(
    args: argparse.Namespace, result: MappingResult, machine: Machine, traffic: Traffic
) -> list[str]:
    """Write the placement; what to say of it."""
    from toposeat import launch, pipeline  # noqa: PLC0415
    from toposeat.model.placement_file import save_placement  # noqa: PLC0415

    placement = pipeline.placement_of(
        result,
        machine,
        traffic,
        traffic_name=args.traffic,
        machine_source=(args.topology or "this") if machine.shape is None else sources_of(args),
        stack=args.stack or "",
    )
    save_placement(placement.with_settings(decided_words(args)), args.output, overwrite=args.force)
    place = quoted(args.output)
    said = [
        *filter(None, [launch.visibility_words(placement)]),
        f"Wrote {args.output}",
        *_next_lines(args, placement),
    ]
    if args.node is not None and not starts_node_by_node(args):
        said.append(f"Export: {_EXPORT.format(place)}")
    return said


def _next_lines(args: argparse.Namespace, placement: Placement) -> list[str]:
    """What to type for a placement that was written, or why the line of `args` cannot start it."""
    from toposeat import pipeline  # noqa: PLC0415

    refusal = pipeline.why_not_realised(args.launch, placement) if args.launch is not None else []
    line = f"Next: {_start(args, quoted(args.output), placement.ranks)}"
    return refusal or [line]
