"""`toposeat compare`: placements side by side, or the orders of a pattern."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposeat.cli.command import (
    Command,
    add_clock_options,
    add_everyday_group,
    add_flag,
    add_metric_option,
    add_network_options,
    add_stack_option,
    add_topology_option,
    job_words,
    print_command,
    print_json,
    show,
    show_decided,
    starts_node_by_node,
    tell,
    write_result,
)
from toposeat.cli.compare_pattern import add_pattern_options, compare_pattern, pattern_of
from toposeat.cli.machine import machine_of, take_from_headers
from toposeat.cli.progress import progress_bar
from toposeat.errors import UsageError
from toposeat.model.map_options import MapOptions
from toposeat.model.shell_words import shell_line

if TYPE_CHECKING:
    from toposeat.mapping.shapes import Shape
    from toposeat.model.placement import Placement
    from toposeat.model.runs import ClockedResult
    from toposeat.model.traffic import Traffic
    from toposeat.pipeline import Candidate, ClockPlan
    from toposeat.report import TextStyle

    # What to clock, the text for a style, and the JSON document: predictions.
    _Compared = tuple[list[Candidate], Callable[[TextStyle], str], Callable[[], dict[str, Any]]]


class CompareCommand(Command):
    """Predict placements beside the default and clock them; of a pattern clock the orders."""

    name = "compare"
    wraps = True
    usage = "toposeat compare PLACE...|PATTERN [-t SRC] [options] [-- LAUNCH...]"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "placements",
            metavar="PLACE",
            nargs="+",
            type=Path,
            help="one or more placements; or a pattern, whose messages a program of ours sends in "
            "the default, the placed and random orders: stencil2d:4x4, stencil3d:2x2x4, halo:, "
            "ring:, alltoall:4x2x2, allgather:, allreduce:, bcast:",
        )
        everyday = add_everyday_group(parser)
        add_topology_option(everyday, required=False)
        everyday.add_argument(
            "--traffic",
            metavar="F",
            help="a profile, CSV matrix or pattern (default: what the placements were made for, as"
            " for -t)",
        )
        add_clock_options(everyday, "runs of the launch line with every placement, in turns")
        add_flag(
            everyday, "--dry-run", "print the commands of one repeat, default first, run nothing"
        )
        add_stack_option(everyday)
        add_metric_option(everyday)
        add_network_options(parser)
        add_pattern_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Evaluate each placement, print one table, and clock where a line is given."""
        from toposeat.model.placement_file import load_placement  # noqa: PLC0415

        pattern = pattern_of(args)
        if pattern:
            return compare_pattern(args, pattern)
        _check_options(args)
        if args.topology is None or args.traffic is None:
            headers = [load_placement(path).metadata for path in args.placements]
            take_from_headers(args, args.placements, headers)
        candidates, text, document = _predicted(args)
        if args.dry_run:
            return _print_lines(args, candidates)
        clocked = None if args.launch is None else _clocked(args, candidates)
        if args.json:
            _print_document(args, document(), clocked)
        else:
            if clocked is not None:
                from toposeat import report  # noqa: PLC0415

                show(sys.stdout, report.render_clocked_text, clocked)
                write_result("\n")
            show(sys.stdout, text)
            show_decided(args)
            if clocked is None:
                job = shell_line(job_words(args.traffic, "N"))
                own = "and the job's own line" if starts_node_by_node(args) else job
                tell(f"Next: clock them: the same line with -- {own} at its end")
        return 0


def _check_options(args: argparse.Namespace) -> None:
    """Refuse options of a launch line where there is none: they would have no effect."""
    if args.launch is not None:
        return
    given = [("--repeats", args.repeats), ("--time", args.time), ("--dry-run", args.dry_run)]
    for option, value in given:
        if value not in (None, False):
            raise UsageError(
                f"{option} needs a launch line",
                hint="put one after `--`: toposeat compare PLACE... -- mpirun -n 8 ./app",
            )


def _print_document(
    args: argparse.Namespace, document: dict[str, Any], clocked: ClockedResult | None
) -> None:
    from toposeat import report  # noqa: PLC0415

    if clocked is not None:
        document["clocked"] = report.form_of(clocked)
    print_json(document, args)


def _predicted(args: argparse.Namespace) -> _Compared:
    """Each placement beside the default."""
    from toposeat import launch, mapping, pipeline, profile, report  # noqa: PLC0415
    from toposeat.model.placement_file import load_placement  # noqa: PLC0415

    machine = machine_of(args)
    topology = machine.listed(MapOptions(metric=args.metric), wanted=args.stack is not None)
    if topology is None and args.metric != "bandwidth":
        raise mapping.needs_devices(f"--metric {args.metric}")
    traffic = profile.read_traffic(args.traffic)
    path_taken = pipeline.path_of_stack(
        args.stack, args.launch, topology, traffic.ranks, environment=os.environ
    )
    # Of patterns and matrices device memory is assumed; only a profile has seen it.
    if args.launch is not None and traffic.rank_info and traffic.mapped_space:
        why = launch.why_not_gpu_aware(args.launch, os.environ)
        tell(*([f"This MPI is not GPU-aware, device buffers crash: {why}"] if why else []))
    placements = [load_placement(path) for path in args.placements]
    rows = [
        pipeline.positions_in(machine, placement, traffic, path)
        for placement, path in zip(placements, args.placements, strict=True)
    ]
    results = pipeline.assess(machine, traffic, rows, path=path_taken, metric=args.metric)
    if topology is not None:
        tell(*path_taken.notes([traffic]))
    notes = () if machine.shape is None else _notes(machine.shape, traffic, rows)
    found = [results[0].default, *(each.placed for each in results)]
    premises = [None, *(each.premises for each in results)]
    candidates = [
        _candidate(path, placement, found[0].predicted_s, each.predicted_s)
        for path, placement, each in zip(args.placements, placements, found[1:], strict=True)
    ]
    named = list(zip(["default", *map(str, args.placements)], found, strict=True))
    return (
        candidates,
        lambda style: report.render_comparison_text(
            list(zip(["default", *_labels(args.placements)], found, strict=True)),
            topology,
            traffic,
            style,
            machine=machine.name,
            metric=args.metric,
            premises=premises,
            notes=notes,
        ),
        lambda: {
            **report.comparison_json(
                named, machine.name, traffic, metric=args.metric, premises=premises, notes=notes
            ),
            "stack": report.form_of(path_taken.stack),
        },
    )


def _notes(shape: Shape, traffic: Traffic, rows: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """What the network leaves open, and what becomes of ranks that no rail joins, as map says."""
    from toposeat.mapping.rails_apart import rails_notes  # noqa: PLC0415

    apart = (note for row in rows for note in rails_notes(shape, traffic, row))
    return tuple(dict.fromkeys((*shape.notes, *apart)))


def _labels(paths: Sequence[Path]) -> list[str]:
    """File names as column headings: without folders, unless that would make two alike."""
    short = [path.name for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def _candidate(path: Path, placement: Placement, before: float, after: float) -> Candidate:
    from toposeat import pipeline  # noqa: PLC0415

    return pipeline.Candidate(
        name=str(path),
        placement=placement,
        path=path,
        predicted=1 - after / before if before > 0 else 0.0,
    )


def _plan(args: argparse.Namespace) -> ClockPlan:
    from toposeat import pipeline  # noqa: PLC0415

    repeats = 5 if args.repeats is None else args.repeats
    return pipeline.ClockPlan(command=tuple(args.launch), repeats=repeats, pattern=args.time)


def _print_lines(args: argparse.Namespace, candidates: Sequence[Candidate]) -> int:
    from toposeat import pipeline  # noqa: PLC0415

    plan = _plan(args)
    for line in [pipeline.clocked_line(plan, each) for each in (None, *candidates)]:
        print_command(line)
    return 0


def _clocked(args: argparse.Namespace, candidates: Sequence[Candidate]) -> ClockedResult:
    from toposeat import pipeline  # noqa: PLC0415

    with progress_bar("runs") as progress:
        return pipeline.clock_placements(_plan(args), candidates, progress=progress)
