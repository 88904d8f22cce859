"""`compare PATTERN -- LAUNCH`: default, placed and random orders of the microbenchmark program."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from toposeat import launch, mapping
from toposeat.errors import MissingProgramError, UsageError
from toposeat.launch import MICROBENCH, compiled_microbench, microbench_arguments
from toposeat.model.job_folder import job_folder
from toposeat.model.placement import Placement
from toposeat.model.placement_file import save_placement
from toposeat.model.runs import ClockedPattern, ClockedResult
from toposeat.pipeline.clocked import Candidate, ClockPlan, Progress, clock_runs, clocked_line
from toposeat.pipeline.pattern_plan import Devices, PatternPlan
from toposeat.pipeline.stack_path import check_gpu_aware

_BY_MESSAGES = (
    "the all-to-all was sent as messages, all at once: this MPI reports that its collectives do not"
    " accept device memory"
)


def pattern_lines(plan: PatternPlan, command: Sequence[str]) -> list[tuple[str, ...]]:
    """The exact lines of one repeat that `clock_pattern` would start; the program is compiled.

    The placement files that they name exist only while `clock_pattern` runs.

    Args:
        plan: the pattern and the orders.
        command: the launch line without a program, e.g. `mpirun -n 16`.
    """
    with _runs(plan, command, repeats=1) as (clock, candidates):
        return [clocked_line(clock, each) for each in (None, *candidates, None)]


def clock_pattern(
    plan: PatternPlan, command: Sequence[str], *, repeats: int, progress: Progress
) -> ClockedPattern:
    """Run every repeat: default, placed, random, default again; every other repeat backwards."""
    with _runs(plan, command, repeats=repeats) as (clock, candidates):
        runs = clock_runs(clock, candidates, progress=progress)
    assert runs.answer is not None, "every run has one"
    by_messages = [_BY_MESSAGES] if runs.answer.by_messages else []
    forecast = zip(plan.predicted(plan.default), plan.predicted(plan.placed), strict=True)
    return ClockedPattern(
        pattern=plan.exchange.text(),
        ranks=plan.exchange.ranks,
        topology=plan.machine.name,
        device_of_rank=plan.placed,
        is_default_kept=plan.placed == plan.default,
        randoms=len(plan.randoms),
        buffers=plan.program.buffers,
        algorithm=plan.algorithm,
        mpi=runs.answer.mpi,
        sizes=plan.program.sizes,
        results=tuple(
            _with_forecast(result, before, after)
            for result, (before, after) in zip(runs.results, forecast, strict=True)
        ),
        notes=(*runs.results[0].notes, *by_messages, *plan.notes),
    )


def _with_forecast(result: ClockedResult, before: float, after: float) -> ClockedResult:
    """A size's result with what the flow model expects of it."""
    placed, *rest = result.orders
    gain = 1 - after / before if before > 0 else 0.0
    return replace(
        result,
        orders=(replace(placed, predicted=gain), *rest),
        notes=(),
        predicted_s=(before, after),
    )


@contextmanager
def _runs(
    plan: PatternPlan, command: Sequence[str], *, repeats: int
) -> Iterator[tuple[ClockPlan, list[Candidate]]]:
    """What takes turns; the placement files live as long as the context."""
    environment = dict(os.environ)
    if plan.program.buffers == "device":
        check_gpu_aware((*command, MICROBENCH), environment=environment)
    line = (*command, *_program_words(plan, command, environment))
    clock = ClockPlan(command=line, repeats=repeats, program=plan.program)
    with _shared_folder(plan, launch.parse_launch_line(line)) as folder:
        named = [("placed", [plan.placed]), ("random", plan.randoms)]
        yield clock, [_candidate(plan, folder, name, orders) for name, orders in named if orders]


def _candidate(plan: PatternPlan, folder: Path, name: str, orders: Sequence[Devices]) -> Candidate:
    seated: list[tuple[Placement, Path]] = []
    for number, devices in enumerate(orders):
        placement = mapping.seat_ranks(
            plan.machine, len(devices), devices, metadata={"made_by": "toposeat-compare"}
        )
        path = folder / f"{name}{number}.place"
        save_placement(placement, path)
        seated.append((placement, path))
    (placement, path), *others = seated
    return Candidate(name=name, placement=placement, path=path, others=tuple(others))


def _program_words(
    plan: PatternPlan, command: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """The microbenchmark and its arguments."""
    if shutil.which(command[0], path=environment.get("PATH")) is None:
        raise MissingProgramError(
            f"launcher {command[0]!r} not found", hint="check the name, or load its module"
        )
    line = launch.parse_launch_line([*command, MICROBENCH])
    if line.program != (MICROBENCH,):
        raise UsageError(
            f"the launch line has a program: {line.program[0]}",
            hint="a pattern has its own program: give only the launcher and its options",
        )
    if line.ranks not in (None, plan.exchange.ranks):
        raise UsageError(
            f"{plan.exchange.text()} has {plan.exchange.ranks} ranks, the launch line starts "
            f"{line.ranks}",
            hint=f"start {plan.exchange.ranks}, or use another grid",
        )
    program = compiled_microbench(line, environment)
    return [str(program), *microbench_arguments(plan.exchange, plan.program)]


@contextmanager
def _shared_folder(plan: PatternPlan, line: launch.LaunchLine) -> Iterator[Path]:
    """Where every node can read placements: the working directory if there may be other nodes."""
    kinds = (launch.LauncherKind.SRUN, launch.LauncherKind.FLUX)
    remote = line.kind in kinds or len(plan.machine.hosts) > 1
    parent = Path.cwd() if remote and os.access(Path.cwd(), os.W_OK) else None
    with job_folder("compare", parent=parent) as folder:
        yield folder
