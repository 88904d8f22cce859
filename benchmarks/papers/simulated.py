"""The microbenchmark program on SimGrid's SMPI, on a platform of the topology."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.referee.simgrid import compile_for_smpi, run_on_smpi, smpi_collective

from toposeat.launch.microbench import (
    FLAGS,
    MICROBENCH,
    microbench_arguments,
    microbench_sources,
    parse_microbench,
)
from toposeat.model.job_folder import job_folder
from toposeat.pipeline import PatternPlan


@contextmanager
def simulated_program() -> Iterator[Path]:
    """The microbenchmark compiled for SimGrid, while the block runs.

    Raises:
        UnavailableError: there is no SimGrid.
        ToposeatError: the program does not compile.
    """
    with job_folder("papers") as folder:
        program = folder / MICROBENCH
        compile_for_smpi(microbench_sources(), program, [*FLAGS, "-ldl"])
        yield program


def simulated_seconds(
    plan: PatternPlan, orders: Sequence[Sequence[int]], program: Path
) -> list[tuple[float, ...]]:
    """Seconds of every size, for each order of the devices, by a `simulated_program`.

    Latencies are those of the topology. SimGrid gives a flow of shorter latency a larger share of a
    link, which the flow model does not: up to some percent where latencies differ. A collective is
    run by the same algorithm as the model has.

    Raises:
        ApplicationError: a simulation failed.
    """
    return [_times(plan, program, order) for order in orders]


def _times(plan: PatternPlan, program: Path, order: Sequence[int]) -> tuple[float, ...]:
    """One run for all sizes, or one each where routes have curves."""
    has_curves = any(route.curve for route in plan.machine.routes)
    if not has_curves:
        return _run(plan, program, order, None)
    return tuple(
        _run(
            replace(plan, program=replace(plan.program, sizes=(size,))), program, order, float(size)
        )[0]
        for size in plan.program.sizes
    )


def _run(
    plan: PatternPlan, program: Path, order: Sequence[int], message_bytes: float | None
) -> tuple[float, ...]:
    text = run_on_smpi(
        plan.machine,
        order,
        program,
        microbench_arguments(plan.exchange, plan.program),
        message_bytes=message_bytes,
        options=smpi_collective(plan.exchange.name, plan.algorithm) if plan.algorithm else (),
    )
    answer = parse_microbench(text, plan.program)
    return tuple(statistics.median(samples) for samples in answer.seconds)
