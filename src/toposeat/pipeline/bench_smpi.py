"""`bench` on SimGrid's SMPI: the microbenchmark program itself, on a platform of the topology."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from toposeat import launch
from toposeat.evaluation import compile_for_smpi, run_on_smpi, smpi_collective, smpi_version
from toposeat.launch.microbench import (
    FLAGS,
    PROGRAM,
    microbench_arguments,
    microbench_sources,
    parse_microbench,
)
from toposeat.model.bench import BenchResult, BenchSource
from toposeat.model.job_folder import job_folder
from toposeat.pipeline.bench import BenchPlan, Devices, Progress, once_each


def simulate_bench(plan: BenchPlan, progress: Progress) -> BenchResult:
    """Every order once: the simulator's clock has no noise.

    Latencies are those of the topology. SimGrid gives a flow of shorter latency a larger share of a
    link, which the flow model does not: up to some percent where latencies differ. A collective is
    run by the same algorithm as the model has.

    Raises:
        UnavailableError: there is no SimGrid.
        ApplicationError: a signal stopped it, or a simulation failed.
        ToposeatError: the program does not compile.
    """
    total = 2 + len(plan.randoms)
    done = 0
    with launch.StopSignals(), _program() as program:

        def times(order: Devices) -> tuple[float, ...]:
            nonlocal done
            progress(done, total)
            done += 1
            return _times(plan, program, order)

        result = once_each(plan, BenchSource.SIMULATED, times)
    version = ".".join(map(str, smpi_version()))
    return replace(result, mpi=f"SimGrid {version} SMPI", buffers=plan.program.buffers)


def _times(plan: BenchPlan, program: Path, order: Devices) -> tuple[float, ...]:
    """Simulated seconds of every size; one run for all, or one each where routes have curves."""
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
    plan: BenchPlan, program: Path, order: Devices, message_bytes: float | None
) -> tuple[float, ...]:
    arguments = microbench_arguments(plan.exchange, plan.program)
    text = run_on_smpi(
        plan.machine,
        order,
        program,
        arguments,
        message_bytes=message_bytes,
        options=smpi_collective(plan.exchange.name, plan.algorithm) if plan.algorithm else (),
    )
    answer = parse_microbench(text, plan.program)
    return tuple(statistics.median(samples) for samples in answer.seconds)


@contextmanager
def _program() -> Iterator[Path]:
    with job_folder("bench") as folder:
        program = folder / PROGRAM
        compile_for_smpi(microbench_sources(), program, [*FLAGS, "-ldl"])
        yield program
