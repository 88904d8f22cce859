"""`toposeat bench`: communication microbenchmarks, the default order against placed and random."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING

from toposeat import pipeline, profile, report
from toposeat.cli.command import (
    Command,
    add_flag,
    add_solver_options,
    add_stack_option,
    add_topology_option,
    map_options,
    natural,
    print_command,
    print_json,
    read_machine,
    require_launch,
    show,
    show_decided,
    tell,
)
from toposeat.cli.progress import progress_bar
from toposeat.errors import UsageError
from toposeat.launch import VISIBILITIES
from toposeat.launch.microbench import BUFFERS, MAX_SIZES, PROGRAM, MicrobenchOptions
from toposeat.model.runs import COLLECTIVES
from toposeat.model.topology import Topology

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
        _add_program_options(parser)
        _add_run_options(parser)
        add_solver_options(parser, min_gain_percent=0)

    def run(self, args: argparse.Namespace) -> int:
        """Plan, run, and print one row per message size."""
        job = job_of(args)
        machine = read_machine(args.topology, to_plan=True)
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
    assert job is not None  # `job_of` refuses --dry-run where nothing is run
    for line in pipeline.bench_lines(plan, job):
        print_command(line)
    return 0


def _result(plan: BenchPlan, job: BenchJob | None) -> BenchResult:
    if job is None:
        return pipeline.predict_bench(plan)
    what = f"{plan.exchange.text()} on {plan.machine.name}, {len(plan.program.sizes)} sizes"
    tell(f"Bench     {what}: running")
    with progress_bar("runs") as progress:
        return pipeline.run_bench(plan, job, progress)


DEFAULT_SIZES = "1..16M"
PLACES = ("real", "model")
_SIZE = re.compile(r"([0-9]{1,10})([KMG]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_MAX_SIZE = 2**31 - 1
_STEP = 4  # between the sizes of a range
_ONLY_REAL = ("repeats", "iterations", "warmup", "buffers", "visibility")


def program_options(args: argparse.Namespace) -> MicrobenchOptions:
    """How the program measures. A prediction has no noise: one sample, no warm-up."""
    noisy = args.on == "real"
    return MicrobenchOptions(
        sizes=sizes_of(args.sizes),
        iterations=args.iterations or 20 if noisy else 1,
        batch=args.batch,
        warmup=2 if args.warmup is None and noisy else args.warmup or 0,
        buffers=args.buffers or "host",
    )


def job_of(args: argparse.Namespace) -> pipeline.BenchJob | None:
    """The real job, None where nothing real is run."""
    if args.on == "real":
        return pipeline.BenchJob(
            command=tuple(require_launch(args, "bench PATTERN")),
            repeats=args.repeats or 5,
            visibility=args.visibility or "permute",
            seat_default=args.seat_default,
        )
    given = [name for name in _ONLY_REAL if getattr(args, name) is not None]
    given += ["seat-default"] if args.seat_default else []
    if given:
        raise UsageError(
            f"--{given[0]} is for real runs, not for --on {args.on}", hint="leave it out"
        )
    if args.launch:
        raise UsageError(
            f"--on {args.on} starts no real job: `-- {' '.join(args.launch)}` is not used",
            hint="omit the launch line, or omit --on to run it",
        )
    if args.dry_run:
        raise UsageError(f"--on {args.on} starts no job", hint="omit --dry-run")
    return None


def bench_path(args: argparse.Namespace, machine: Topology) -> pipeline.StackPath:
    """The way that the messages take; host buffers stand for copies straight between GPUs."""
    device = args.buffers == "device"
    if args.stack is None and not device:
        return pipeline.StackPath()
    if args.on == "real" and not device:
        raise UsageError(
            f"--stack {args.stack[:40]} is for messages between GPUs, not for host buffers",
            hint="add --buffers device, or leave --stack out",
        )
    command = [*args.launch, PROGRAM] if args.launch else None
    ranks = profile.grid_exchange(args.pattern).ranks
    return pipeline.path_of_stack(args.stack, command, machine, ranks, environment=os.environ)


def sizes_of(text: str) -> tuple[int, ...]:
    """Message sizes from `1,1K,64KiB` or a range in steps of four, `1..16M`."""
    sizes: set[int] = set()
    for item in text.split(","):
        first, dots, last = (word.strip() for word in item.partition(".."))
        low = _one_size(first, text)
        high = _one_size(last, text) if dots else low
        if low > high:
            raise UsageError(
                f"--sizes {text[:80]}: {item!r} begins with the larger size",
                hint="for example: 1..16M",
            )
        while low <= high:
            sizes.add(low)
            low *= _STEP
        sizes.add(high)
    if len(sizes) > MAX_SIZES:
        raise UsageError(
            f"--sizes {text[:80]}: {len(sizes)} sizes", hint=f"at most {MAX_SIZES} in one run"
        )
    return tuple(sorted(sizes))


def _one_size(word: str, text: str) -> int:
    match = _SIZE.fullmatch(word)
    size = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not 1 <= size <= _MAX_SIZE:
        raise UsageError(
            f"--sizes {text[:80]}: {word[:40]!r} is not a message size from 1 B to 2 GiB",
            hint="for example: --sizes 1,1K,64K,1M or --sizes 1..16M",
        )
    return size


def _add_program_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is timed")
    group.add_argument(
        "--sizes",
        metavar="LIST",
        default=DEFAULT_SIZES,
        help=f"message sizes, 1,1K,1M or a range in steps of four (default: {DEFAULT_SIZES})",
    )
    group.add_argument(
        "--algorithm",
        metavar="NAME",
        help="of a collective, for the flow model; a real MPI chooses its own. "
        + "; ".join(f"{name}: {', '.join(names)}" for name, names in COLLECTIVES.items())
        + " (default: the first)",
    )
    group.add_argument(
        "--buffers",
        choices=BUFFERS,
        help="host memory, or the memory of the GPU that local rank i sees as number i "
        "(default: host)",
    )
    add_stack_option(group)
    group.add_argument(
        "--iterations",
        metavar="N",
        type=_count,
        help="samples per size (default: 20)",
    )
    group.add_argument(
        "--batch",
        metavar="N",
        type=_count,
        default=10,
        help="exchanges without a barrier in one sample, fewer of large messages (default: 10)",
    )
    group.add_argument(
        "--warmup",
        metavar="N",
        type=natural,
        help="exchanges before the first sample (default: 2)",
    )


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("runs")
    group.add_argument(
        "--repeats", metavar="N", type=_count, default=None, help="runs of every order (default: 5)"
    )
    group.add_argument(
        "--random",
        metavar="N",
        type=natural,
        default=4,
        help="random orders to compare with; a real run takes one per repeat (default: 4)",
    )
    group.add_argument(
        "--visibility",
        choices=VISIBILITIES,
        help="how ranks are shown their GPU, as for `run` (default: permute)",
    )
    add_flag(
        group,
        "--seat-default",
        "bind the CPUs of the default order too, so that only the order of the GPUs differs",
    )
    add_flag(group, "--dry-run", "print the exact commands of one repeat, run nothing")


def _count(text: str) -> int:
    value = natural(text)
    if not 1 <= value <= 1_000_000:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 1000000, got {text}")
    return value
