"""`bench` on a real machine: interleaved runs of the microbenchmark program under a launch line."""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from toposeat import emulation, launch, mapping
from toposeat.errors import MissingProgramError, ToposeatError, UsageError
from toposeat.launch.microbench import (
    PROGRAM,
    MicrobenchAnswer,
    compiled_microbench,
    microbench_arguments,
    parse_microbench,
)
from toposeat.model.job_folder import job_folder
from toposeat.model.placement import Placement
from toposeat.model.placement_file import save_placement
from toposeat.model.record import Record
from toposeat.model.runs import BenchOrder, BenchResult, BenchRun, BenchSource, Verdict
from toposeat.pipeline.bench import BenchPlan, Devices, Progress, result_of
from toposeat.pipeline.stack_path import check_gpu_aware

_BY_MESSAGES = (
    "the all-to-all was sent as messages, all at once: this MPI reports that its collectives do not"
    " accept device memory"
)


class BenchJob(Record, frozen=True, kw_only=True):
    """How the runs are started.

    Attributes:
        command: the launch line without a program, e.g. `mpirun -n 16`.
        repeats: of every order.
        visibility: how a rank is shown its device, see `launch.run_placed`.
        seat_default: start the default order through toposeat-exec too, with CPUs bound as for the
            other orders, so that only the order of the devices differs.
    """

    command: tuple[str, ...]
    repeats: int = 5
    visibility: str = "permute"
    seat_default: bool = False


def bench_lines(plan: BenchPlan, job: BenchJob) -> list[tuple[str, ...]]:
    """The exact lines of one repeat that `run_bench` would start; the program is compiled.

    The placement files they name exist only while `run_bench` runs.
    """
    with _Runner(plan, job) as runner:
        return [runner.line(order, devices) for order, devices in _sequence(plan, 0)]


def run_bench(plan: BenchPlan, job: BenchJob, progress: Progress) -> BenchResult:
    """Run every repeat: default, placed, random, default again; every other repeat backwards."""
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    runs: list[BenchRun] = []
    answer: MicrobenchAnswer | None = None
    with launch.StopSignals() as signals, _Runner(plan, job) as runner:
        command = runner.line(BenchOrder.DEFAULT, plan.default)
        for repeat in range(job.repeats):
            sequence = _sequence(plan, repeat)
            for order, devices in sequence if repeat % 2 == 0 else reversed(sequence):
                progress(len(runs), job.repeats * len(sequence))
                answer = runner.run(order, devices, signals)
                medians = tuple(statistics.median(samples) for samples in answer.seconds)
                runs.append(
                    BenchRun(order=order, device_of_rank=devices, repeat=repeat, seconds=medians)
                )
        progress(len(runs), len(runs))
        notes = tuple(dict.fromkeys(runner.notes))
    emulated = emulation.emulated_machine(os.environ)
    if emulated:
        notes = (
            f"EMULATED: all times are those of the stand-in of {emulated}, not of a GPU",
            *notes,
        )
    assert answer is not None  # repeats >= 1
    if answer.by_messages:
        notes = (*notes, _BY_MESSAGES)
    result = result_of(plan, BenchSource.MEASURED, runs, repeats=job.repeats)
    return replace(
        result,
        buffers=plan.program.buffers,
        mpi=answer.mpi,
        host=socket.gethostname(),
        started_at=started,
        command=command,
        notes=(*notes, *result.notes),
    )


def _sequence(plan: BenchPlan, repeat: int) -> list[tuple[BenchOrder, Devices]]:
    """Runs of one repeat; each repeat takes the next of the random orders."""
    middle = [(BenchOrder.PLACED, plan.placed)]
    if plan.randoms:
        middle.append((BenchOrder.RANDOM, plan.randoms[repeat % len(plan.randoms)]))
    return [(BenchOrder.DEFAULT, plan.default), *middle, (BenchOrder.AGAIN, plan.default)]


class _Runner:
    """Starts runs; its folder of placement files lives as long as the context."""

    def __init__(self, plan: BenchPlan, job: BenchJob) -> None:
        self._plan = plan
        self._job = job
        self._environment = dict(os.environ)
        self._numbers: dict[Devices, int] = {}  # of the placement files
        self.notes: list[str] = []
        if plan.program.buffers == "device":
            check_gpu_aware((*job.command, PROGRAM), environment=self._environment)
        words = _program_words(plan, job.command, self._environment)
        self._command = (*job.command, *words)
        self._folder = _shared_folder(plan, launch.parse_launch_line(self._command))

    def __enter__(self) -> _Runner:
        self._path = self._folder.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.__exit__(None, None, None)

    def line(self, order: BenchOrder, devices: Devices) -> tuple[str, ...]:
        """The exact line of one run."""
        if self._is_plain(order):
            return self._command
        placement, path = self._placement(devices)
        record = launch.run_placed(
            self._command, placement, path, visibility=self._job.visibility, dry_run=True
        )
        return record.launched

    def run(
        self, order: BenchOrder, devices: Devices, signals: launch.StopSignals
    ) -> MicrobenchAnswer:
        """One run; its other output goes where ours does."""
        with tempfile.TemporaryFile() as output:
            code = self._start(order, devices, output)
            signals.check()
            output.seek(0)
            text = output.read().decode(errors="replace")
        answer = parse_microbench(text, self._plan.program)
        if code != 0:
            raise ToposeatError(
                f"the microbenchmark ended with exit code {code} in {order.value} order",
                hint="its messages are above; the exact lines are shown by --dry-run",
            )
        return answer

    def _is_plain(self, order: BenchOrder) -> bool:
        is_default = order in (BenchOrder.DEFAULT, BenchOrder.AGAIN)
        return is_default and not self._job.seat_default

    def _start(self, order: BenchOrder, devices: Devices, output: IO[bytes]) -> int:
        if self._is_plain(order):
            return launch.run_child(self._command, self._environment, stdout=output)
        placement, path = self._placement(devices)
        record = launch.run_placed(
            self._command, placement, path, visibility=self._job.visibility, stdout=output
        )
        self.notes += record.notes
        wrong = [seat.rank for seat in record.seats if seat.verdict is Verdict.MISMATCH]
        if wrong:
            self.notes.append(f"{order.value} order: rank {wrong[0]} did not get its place")
        return record.exit_code

    def _placement(self, devices: Devices) -> tuple[Placement, Path]:
        placement = mapping.seat_ranks(
            self._plan.machine, len(devices), devices, metadata={"made_by": "toposeat-bench"}
        )
        number = self._numbers.setdefault(devices, len(self._numbers))
        path = self._path / f"order{number}.place"
        save_placement(placement, path, overwrite=True)
        return placement, path


def _program_words(
    plan: BenchPlan, command: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """The microbenchmark and its arguments."""
    if shutil.which(command[0], path=environment.get("PATH")) is None:
        raise MissingProgramError(
            f"launcher {command[0]!r} not found", hint="check the name, or load its module"
        )
    line = launch.parse_launch_line([*command, PROGRAM])
    if line.program != (PROGRAM,):
        raise UsageError(
            f"the launch line has a program: {line.program[0]}",
            hint="bench runs its own program: give only the launcher and its options",
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
def _shared_folder(plan: BenchPlan, line: launch.LaunchLine) -> Iterator[Path]:
    """Where every node can read placements: the working directory if there may be other nodes."""
    kinds = (launch.LauncherKind.SRUN, launch.LauncherKind.FLUX)
    remote = line.kind in kinds or len(plan.machine.hosts) > 1
    parent = Path.cwd() if remote and os.access(Path.cwd(), os.W_OK) else None
    with job_folder("bench", parent=parent) as folder:
        yield folder
