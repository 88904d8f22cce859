"""`toposeat bench`: communication microbenchmarks, the default order against placed and random."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from toposeat.cli.command import (
    Command,
    add_solver_options,
    add_topology_option,
    map_options,
    print_command,
    print_json,
    show,
    show_decided,
    tell,
)
from toposeat.cli.progress import progress_bar

if TYPE_CHECKING:
    from toposeat.model.runs import BenchResult
    from toposeat.pipeline import BenchJob, BenchPlan


class BenchCommand(Command):
    """Time a communication pattern with the default, the placed and random orders of the GPUs."""

    name = "bench"
    wraps = True
    usage = "toposeat bench PATTERN [-t SRC] [--on real|model] [options] -- LAUNCH..."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        from toposeat.cli.bench_options import PLACES, add_bench_options  # noqa: PLC0415

        parser.add_argument(
            "pattern",
            metavar="PATTERN",
            help="stencil2d:4x4, stencil3d:2x2x4, halo:2x2x4, ring:16, or a collective of "
            "sub-communicators, alltoall:4x2x2, allgather: allreduce: bcast:, with options as for "
            "`map`: ,wrap ,weight=3 ,diagonals ,layers=4",
        )
        add_topology_option(parser, required=False)
        parser.add_argument(
            "--on",
            choices=PLACES,
            default="real",
            help="where the times come from: the launch line after `--` (real, the default), "
            "or the flow model (model)",
        )
        add_bench_options(parser)
        add_solver_options(parser, min_gain_percent=0)

    def run(self, args: argparse.Namespace) -> int:
        """Plan, run, and print one row per message size."""
        from toposeat import pipeline, report, topology  # noqa: PLC0415
        from toposeat.cli.bench_options import bench_path, job_of, program_options  # noqa: PLC0415

        job = job_of(args)
        machine = topology.read_topology(args.topology or "this")
        plan = pipeline.plan_bench(
            args.pattern,
            machine,
            program_options(args),
            options=map_options(args),
            randoms=args.random,
            algorithm=args.algorithm,
            path=bench_path(args, machine),
        )
        if args.dry_run:
            show_decided(args, as_remark=True)
            return _print_lines(plan, job)
        result = _result(plan, job)
        if args.json:
            print_json(report.bench_json(result), args)
        else:
            show(sys.stdout, report.render_bench_text, result)
            show_decided(args)
        return 0


def _print_lines(plan: BenchPlan, job: BenchJob | None) -> int:
    from toposeat import pipeline  # noqa: PLC0415

    assert job is not None  # `job_of` refuses --dry-run where nothing is run
    for line in pipeline.bench_lines(plan, job):
        print_command(line)
    return 0


def _result(plan: BenchPlan, job: BenchJob | None) -> BenchResult:
    from toposeat import pipeline  # noqa: PLC0415

    if job is None:
        return pipeline.predict_bench(plan)
    what = f"{plan.exchange.text()} on {plan.machine.name}, {len(plan.program.sizes)} sizes"
    tell(f"Bench     {what}: running")
    with progress_bar("runs") as progress:
        return pipeline.run_bench(plan, job, progress)
