"""`toposeat compare`: placements side by side."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposeat.cli.command import (
    Command,
    add_network_options,
    add_stack_option,
    add_topology_option,
    print_command,
    print_json,
    show,
    show_decided,
    tell,
    write_result,
)
from toposeat.cli.large_machine import is_large, large_machine
from toposeat.cli.placement_header import take_from_headers
from toposeat.cli.progress import progress_bar
from toposeat.errors import UsageError
from toposeat.model.map_options import METRICS

if TYPE_CHECKING:
    from toposeat.model.clocked import ClockedResult
    from toposeat.model.placement import Placement
    from toposeat.pipeline import Candidate, ClockPlan
    from toposeat.report import TextStyle

    # What to clock, the text for a style, and the JSON document: predictions on either machine.
    _Compared = tuple[list[Candidate], Callable[[TextStyle], str], Callable[[], dict[str, Any]]]


class CompareCommand(Command):
    """Predict placements side by side with the default, and clock them if there is a line."""

    name = "compare"
    wraps = True
    usage = "toposeat compare PLACE... [-t SRC] [--traffic F] [options] [-- LAUNCH...]"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "placements", metavar="PLACE", nargs="+", type=Path, help="one or more placements"
        )
        add_topology_option(parser, required=False)
        add_network_options(parser)
        add_stack_option(parser)
        parser.add_argument(
            "--traffic",
            metavar="F",
            help="a profile, CSV matrix or pattern (default: what the placements were made for, as"
            " for -t)",
        )
        parser.add_argument(
            "--metric",
            choices=METRICS,
            default="bandwidth",
            help="what the cost of a pair of devices is computed from (default: bandwidth)",
        )

        parser.add_argument(
            "--repeats",
            metavar="N",
            type=int,
            default=None,
            help="runs of the launch line with every placement, in turns (default: 5)",
        )
        parser.add_argument(
            "--time",
            metavar="REGEX",
            help="finds the seconds that the program prints, as group 1, e.g. '([0-9.]+) s'; the "
            "last match counts (default: the wall time of the launch line)",
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="print the commands of one repeat, default first, run nothing",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Evaluate each placement, print one table, and clock where a line is given."""
        from toposeat.model.placement_file import load_placement  # noqa: PLC0415

        _check_options(args)
        if args.topology is None or args.traffic is None:
            headers = [load_placement(path).metadata for path in args.placements]
            take_from_headers(args, args.placements, headers)
        if is_large(args):
            if args.stack is not None:
                raise UsageError(
                    "--stack needs a topology with devices, not a large machine",
                    hint="compare on one node with --stack, or leave it out",
                )
            candidates, text, document = _on_network(args)
        else:
            candidates, text, document = _on_topology(args)
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
                tell("Next: clock them: the same line with -- mpirun -n N ./app at its end")
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
        document["clocked"] = report.clocked_json(clocked)
    print_json(document, args)


def _on_topology(args: argparse.Namespace) -> _Compared:
    """On a machine whose devices and routes are listed."""
    from toposeat import (  # noqa: PLC0415
        evaluation,
        launch,
        pipeline,
        profile,
        report,
        topology,
    )
    from toposeat.model.placement_file import load_placement  # noqa: PLC0415

    machine = topology.read_topology(args.topology)
    if any(route.protocols for route in machine.routes):
        tell("Curves by protocol are known: `toposeat advise` says which the MPI should use")
    traffic = profile.read_traffic(args.traffic)
    path_taken = pipeline.path_of_stack(
        args.stack, args.launch, machine, traffic.ranks, environment=os.environ
    )
    tell(*path_taken.notes(machine, [traffic]))
    # Of patterns and matrices device memory is assumed; only a profile has seen it.
    if args.launch is not None and traffic.rank_info and traffic.mapped_space:
        why = launch.why_not_gpu_aware(args.launch, os.environ)
        tell(*([f"This MPI is not GPU-aware, device buffers crash: {why}"] if why else []))
    used = path_taken.machine_for(machine, traffic)
    evaluator = evaluation.Evaluator(used, traffic, metric=args.metric)
    default = evaluator.evaluate_default()
    evaluations, candidates = [("default", default)], []
    for path in args.placements:
        placement = load_placement(path)
        devices = evaluation.device_positions(placement, machine, traffic.ranks, path)
        evaluations.append((str(path), evaluator.evaluate(devices)))
        times = default.predicted_s, evaluations[-1][1].predicted_s
        candidates.append(_candidate(path, placement, *times))
    rows = [each.device_of_rank for _, each in evaluations]
    premises = evaluation.premises_of_gains(
        used,
        evaluator,
        rows,
        [path_taken.machine_for(each, traffic) for each in topology.readings_of(machine)],
    )
    return (
        candidates,
        lambda style: report.render_comparison_text(
            evaluations, machine, traffic, style, metric=args.metric, premises=premises
        ),
        lambda: report.with_stack(
            report.comparison_json(
                evaluations, machine, traffic, metric=args.metric, premises=premises
            ),
            path_taken.stack,
        ),
    )


def _on_network(args: argparse.Namespace) -> _Compared:
    """On hosts of a network, or the shape of a large machine."""
    from toposeat import mapping, pipeline, profile, report  # noqa: PLC0415
    from toposeat.model.placement_file import load_placement  # noqa: PLC0415

    if args.metric != "bandwidth":
        raise UsageError(
            f"--metric {args.metric} needs a topology with devices, not a large machine",
            hint="leave it out: the cost is bytes x distance on the machine",
        )
    shape = large_machine(args)
    traffic = profile.read_traffic(args.traffic)
    evaluator = mapping.SlotEvaluator(shape, traffic)
    default = evaluator.evaluate(evaluator.default, "default")
    evaluations, candidates = [("default", default)], []
    for path in args.placements:
        placement = load_placement(path)
        slots = pipeline.slots_of_placement(placement, shape, traffic, path)
        evaluations.append((str(path), evaluator.evaluate(slots, str(path))))
        times = default.predicted_s or 0.0, evaluations[-1][1].predicted_s or 0.0
        candidates.append(_candidate(path, placement, *times))
    machine = f"{shape.text}: {shape.words}"
    labels = ["default", *_labels(args.placements)]
    named = [(label, each) for label, (_, each) in zip(labels, evaluations, strict=True)]
    return (
        candidates,
        lambda style: report.render_scale_comparison_text(
            named, machine, traffic, style, notes=shape.notes
        ),
        lambda: report.scale_comparison_json(evaluations, machine, traffic, notes=shape.notes),
    )


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
