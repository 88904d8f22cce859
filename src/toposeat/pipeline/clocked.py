"""Clocked times: a baseline and candidates of one launch line take turns (`compare`, `advise`)."""

from __future__ import annotations

import os
import re
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from msgspec import field

from toposeat import emulation, launch
from toposeat.errors import ApplicationError, ToposeatError, UsageError
from toposeat.evaluation.paired import paired_gain
from toposeat.launch import MicrobenchAnswer, MicrobenchOptions, parse_microbench
from toposeat.model.placement import Placement
from toposeat.model.record import Record
from toposeat.model.runs import ClockedOrder, ClockedResult, SeatVerdict
from toposeat.report.units import clean

Progress = Callable[[int, int], None]
_WALL = "wall time of the whole launch line, start and end included"
_PRINTED = "seconds that the program prints"
_EXCHANGE = "wall time of the slowest rank, per exchange"
_SHORTEST_S, _LONGEST_S = 1e-9, 1e9  # nothing that is printed beyond is the time of a run
_READ_BYTES = 1 << 24  # the end of a program's output, in which the last time is looked for
_SHOWN = 120  # characters of a line of it


class Candidate(Record, frozen=True, kw_only=True):
    """A placement to be clocked, and the environment it is to run in.

    Attributes:
        name: for the table.
        placement: the content of `path`.
        path: what toposeat-exec reads.
        predicted: share of the baseline's link time that it saves, if that was predicted.
        variables: on top of the environment of all runs.
        others: placements that take turns with it, another in each repeat.
    """

    name: str
    placement: Placement
    path: Path
    predicted: float | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    others: tuple[tuple[Placement, Path], ...] = ()

    def of_repeat(self, repeat: int) -> tuple[Placement, Path]:
        """The placement of a repeat, and its file."""
        each = ((self.placement, self.path), *self.others)
        return each[repeat % len(each)]


class ClockPlan(Record, frozen=True, kw_only=True):
    """How runs are started and timed.

    Attributes:
        command: the launch line with its program.
        repeats: of default, every placement, default again; every other repeat runs backwards.
        pattern: finds the seconds in the program's output, as group 1 of its last match; none: wall
            time of the line.
        program: the program is the microbenchmark, and times each of these sizes.
    """

    command: tuple[str, ...]
    repeats: int = 5
    pattern: str | None = None
    program: MicrobenchOptions | None = None


class ClockedRuns(Record, frozen=True, kw_only=True):
    """What the runs took: a result for each size of the microbenchmark, else one."""

    results: tuple[ClockedResult, ...]
    answer: MicrobenchAnswer | None  # of the last run


def clock_placements(
    plan: ClockPlan,
    candidates: Sequence[Candidate],
    *,
    progress: Progress,
    environment: Mapping[str, str] | None = None,
    baseline: Candidate | None = None,
) -> ClockedResult:
    """The runs of a line that takes one time, see `clock_runs`."""
    (result,) = clock_runs(
        plan, candidates, progress=progress, environment=environment, baseline=baseline
    ).results
    return result


def clock_runs(
    plan: ClockPlan,
    candidates: Sequence[Candidate],
    *,
    progress: Progress,
    environment: Mapping[str, str] | None = None,
    baseline: Candidate | None = None,
) -> ClockedRuns:
    """Run every repeat and compare each candidate with the baseline's runs of the same repeat.

    Args:
        plan: how runs are started and timed.
        candidates: what is compared.
        progress: is called with what is done and how much there is in all.
        environment: of all runs; this process's own by default.
        baseline: what it is compared with; none: the line as it is, the default order.
    """
    if plan.repeats < 1:
        raise UsageError("no repeats", hint="--repeats 5")
    if baseline is not None:
        clocked_line(plan, baseline, environment=environment)
    for each in candidates:
        clocked_line(plan, each, environment=environment)
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    clock = _Clock(plan, dict(os.environ if environment is None else environment))
    count = len(candidates) + 2
    times: list[list[tuple[float, ...]]] = [[] for _ in range(count)]
    with launch.StopSignals() as signals:
        for repeat in range(plan.repeats):
            turns = range(count) if repeat % 2 == 0 else reversed(range(count))
            for done, at in enumerate(turns):
                progress(repeat * count + done, plan.repeats * count)
                inner = 0 < at < count - 1
                own = candidates[at - 1] if inner else baseline
                before = "; the runs before it are dropped" if times[0] or times[-1] else ""
                when = f"repeat {repeat + 1} of {plan.repeats}{before}"
                times[at].append(clock.seconds(own, repeat, when, signals))
    progress(plan.repeats * count, plan.repeats * count)
    head: dict[str, Any] = {
        "what": clock.what,
        "command": plan.command,
        "host": socket.gethostname(),
        "started_at": started,
        "emulated": emulation.emulated_machine(clock.environment),
        "notes": tuple(dict.fromkeys(clock.notes)),
        "baseline": "default" if baseline is None else baseline.name,
    }
    results = []
    for size in range(len(times[0][0])):
        first, *inner_s, again = [tuple(run[size] for run in of_order) for of_order in times]
        base = [(a + b) / 2 for a, b in zip(first, again, strict=True)]
        orders = tuple(
            ClockedOrder(
                name=each.name,
                seconds=own_s,
                gain=paired_gain(base, own_s),
                predicted=each.predicted,
            )
            for each, own_s in zip(candidates, inner_s, strict=True)
        )
        control = paired_gain(first, again)
        results.append(
            ClockedResult(**head, default_s=first, again_s=again, control=control, orders=orders)
        )
    return ClockedRuns(results=tuple(results), answer=clock.answer)


def clocked_line(
    plan: ClockPlan, candidate: Candidate | None, *, environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The exact line of a candidate's runs, or of the default order's; nothing is started."""
    if candidate is None:
        return plan.command
    mode, _ = launch.visibility_of(candidate.placement, None)
    record = launch.run_placed(
        plan.command,
        candidate.placement,
        candidate.path,
        visibility=mode,
        environment=environment,
        dry_run=True,
        verify=False,
    )
    return record.launched


class _Run(Record, frozen=True, kw_only=True):
    """A run that ended."""

    who: str
    when: str  # for errors
    exit_code: int
    wall_s: float
    output: IO[bytes]

    def check(self) -> None:
        """Refuse a run that failed."""
        if self.exit_code != 0:
            raise ApplicationError(
                f"a run of {self.who} ended with exit code {self.exit_code} ({self.when})",
                hint=f"its messages are above{self._last_line()}; check that the line works without"
                " toposeat",
                exit_code=self.exit_code,
            )

    def printed(self, pattern: re.Pattern[str]) -> float:
        """The seconds that the program printed."""
        found = [match.group(1) for match in pattern.finditer(self.text())]
        if not found or found[-1] is None:
            raise ToposeatError(
                f"no time found by {pattern.pattern!r} in the output of {self.who} ({self.when})",
                hint="group 1 must be a number of seconds on standard output, as in"
                f" '([0-9.]+) s'{self._last_line()}",
            )
        try:
            seconds = float(found[-1])
        except ValueError:
            seconds = float("nan")
        if not _SHORTEST_S <= seconds <= _LONGEST_S:
            raise ToposeatError(
                f"{_short(found[-1])!r}, found by {pattern.pattern!r} in the output of {self.who}"
                f" ({self.when}), is not the time of a run",
                hint="group 1 must be seconds > 0 with a decimal point, as in '([0-9.]+) s'; a"
                " program that is too short needs more iterations",
            )
        return seconds

    def text(self) -> str:
        """The end of its standard output, from the start of a line on."""
        size = self.output.seek(0, os.SEEK_END)
        self.output.seek(max(0, size - _READ_BYTES))
        if size > _READ_BYTES:
            self.output.readline()
        return self.output.read().decode(errors="replace")

    def _last_line(self) -> str:
        lines = self.text().split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        return (
            f"; its output ends with {_short(last)!r}" if last else "; its standard output is empty"
        )


def _short(text: str) -> str:
    one = clean(text).strip()
    return one if len(one) <= _SHOWN else one[:_SHOWN] + "..."


class _Clock:
    """Starts runs and reads what they took."""

    def __init__(self, plan: ClockPlan, environment: dict[str, str]) -> None:
        self._plan = plan
        self.environment = environment
        self.notes: list[str] = []
        self.answer: MicrobenchAnswer | None = None
        launch.parse_launch_line(plan.command)
        self._pattern = _compiled(plan.pattern)
        self.what = _WALL if plan.pattern is None else _PRINTED
        if plan.program is not None:
            self.what = _EXCHANGE

    def seconds(
        self, candidate: Candidate | None, repeat: int, when: str, signals: launch.StopSignals
    ) -> tuple[float, ...]:
        """One run from start to end, of the default order without a candidate: what it took.

        That is one time, or one for each size of the microbenchmark.
        """
        with tempfile.TemporaryFile() as output:
            begin = time.perf_counter()
            if candidate is None:
                code = launch.run_child(self._plan.command, self.environment, stdout=output)
                wall_s = time.perf_counter() - begin
            else:
                code, wall_s = self._placed(candidate, repeat, output)
            signals.check()
            who = "default" if candidate is None else candidate.name
            run = _Run(who=who, when=when, exit_code=code, wall_s=wall_s, output=output)
            if self._plan.program is not None:
                # What the program printed says more than its exit code.
                self.answer = parse_microbench(run.text(), self._plan.program)
                run.check()
                return tuple(map(statistics.median, self.answer.seconds))
            run.check()
            return (wall_s if self._pattern is None else run.printed(self._pattern),)

    def _placed(self, candidate: Candidate, repeat: int, output: IO[bytes]) -> tuple[int, float]:
        placement, path = candidate.of_repeat(repeat)
        mode, _ = launch.visibility_of(placement, None)
        record = launch.run_placed(
            self._plan.command,
            placement,
            path,
            visibility=mode,
            environment={**self.environment, **candidate.variables},
            stdout=output,
        )
        wrong = [s.rank for s in record.seats if s.verdict is SeatVerdict.MISMATCH]
        if wrong:
            self.notes.append(
                f"{candidate.name}: {len(wrong)} of {len(record.seats)} ranks did not get"
                " everything as placed; `toposeat run` shows the differences"
            )
        return record.exit_code, record.wall_s


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"{pattern!r} is not a regular expression: {error}", hint="for example '([0-9.]+) s'"
        ) from error
    if compiled.groups != 1:
        raise UsageError(
            f"{pattern!r} has {compiled.groups} groups instead of 1",
            hint="put brackets around the number: '([0-9.]+) s'",
        )
    return compiled
