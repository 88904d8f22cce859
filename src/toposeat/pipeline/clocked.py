"""Clocked times: a baseline and candidates of one launch line take turns (`compare`, `advise`)."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from toposeat import emulation, launch
from toposeat.errors import ToposeatError, UsageError
from toposeat.evaluate.paired import paired_gain
from toposeat.model.clocked import ClockedOrder, ClockedResult
from toposeat.model.placement import Placement
from toposeat.model.run_record import Verdict

Progress = Callable[[int, int], None]
_WALL = "wall time of the whole launch line, start and end included"
_PRINTED = "seconds that the program prints"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A placement to be clocked, and the environment it is to run in.

    Attributes:
        name: for the table.
        placement: the content of `path`.
        path: what toposeat-exec reads.
        predicted: share of the baseline's link time that it is predicted to save.
        variables: on top of the environment of all runs.
    """

    name: str
    placement: Placement
    path: Path
    predicted: float
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ClockPlan:
    """How runs are started and timed.

    Attributes:
        command: the launch line with its program.
        repeats: of default, every placement, default again; every other repeat runs backwards.
        pattern: finds the seconds in the program's output, as group 1 of its last match; none: wall
            time of the line.
        visibility: as `launch.run_placed` takes it; none: what the placement says.
    """

    command: tuple[str, ...]
    repeats: int = 5
    pattern: str | None = None
    visibility: str | None = None


def clock_placements(
    plan: ClockPlan,
    candidates: Sequence[Candidate],
    *,
    progress: Progress,
    environment: Mapping[str, str] | None = None,
    baseline: Candidate | None = None,
) -> ClockedResult:
    """Run every repeat and compare each candidate with the baseline's runs of the same repeat.

    Args:
        plan: how runs are started and timed.
        candidates: what is compared.
        progress: is called with what is done and how much there is in all.
        environment: of all runs; this process's own by default.
        baseline: what it is compared with; none: the line as it is, the default order.

    Raises:
        UsageError: a pattern that is none, no repeats, or a line that cannot be taken apart.
        ToposeatError: a run failed, or printed no time.
    """
    if plan.repeats < 1:
        raise UsageError("no repeats", hint="--repeats 5")
    started = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    clock = _Clock(plan, dict(os.environ if environment is None else environment))
    count = len(candidates) + 2
    times: list[list[float]] = [[] for _ in range(count)]
    for repeat in range(plan.repeats):
        turns = range(count) if repeat % 2 == 0 else reversed(range(count))
        for done, at in enumerate(turns):
            progress(repeat * count + done, plan.repeats * count)
            inner = 0 < at < count - 1
            times[at].append(clock.run(candidates[at - 1] if inner else baseline))
    progress(plan.repeats * count, plan.repeats * count)
    first, again = times[0], times[-1]
    base = [(a + b) / 2 for a, b in zip(first, again, strict=True)]
    return ClockedResult(
        what=_WALL if plan.pattern is None else _PRINTED,
        command=plan.command,
        host=socket.gethostname(),
        started_at=started,
        default_s=tuple(first),
        again_s=tuple(again),
        control=paired_gain(first, again),
        orders=tuple(
            ClockedOrder(
                name=each.name,
                seconds=tuple(own),
                gain=paired_gain(base, own),
                predicted=each.predicted,
            )
            for each, own in zip(candidates, times[1:-1], strict=True)
        ),
        emulated=emulation.emulated_machine(clock.environment),
        notes=tuple(dict.fromkeys(clock.notes)),
        baseline="default" if baseline is None else baseline.name,
    )


class _Clock:
    """Starts runs and reads their times."""

    def __init__(self, plan: ClockPlan, environment: dict[str, str]) -> None:
        self._plan = plan
        self.environment = environment
        self.notes: list[str] = []
        launch.parse_launch_line(plan.command)
        self._pattern = _compiled(plan.pattern)

    def run(self, candidate: Candidate | None) -> float:
        """Seconds of one run: of the default order without a candidate."""
        with tempfile.TemporaryFile() as output:
            start = time.perf_counter()
            if candidate is None:
                code = launch.run_child(self._plan.command, self.environment, stdout=output)
                wall_s = time.perf_counter() - start
            else:
                mode, _ = launch.visibility_of(candidate.placement, self._plan.visibility)
                record = launch.run_placed(
                    self._plan.command,
                    candidate.placement,
                    candidate.path,
                    visibility=mode,
                    environment={**self.environment, **candidate.variables},
                    stdout=output,
                )
                code, wall_s = record.exit_code, record.wall_s
                wrong = [s.rank for s in record.seats if s.verdict is Verdict.MISMATCH]
                if wrong:
                    self.notes.append(
                        f"{candidate.name}: {len(wrong)} of {len(record.seats)} ranks did not get"
                        " their whole place; `toposeat run` says what differs"
                    )
            output.seek(0)
            text = output.read().decode(errors="replace")
        if code != 0:
            raise ToposeatError(
                f"a run ended with exit code {code}",
                hint="its messages are above; does the line work alone?",
            )
        return wall_s if self._pattern is None else self._printed(text)

    def _printed(self, text: str) -> float:
        assert self._pattern is not None
        found = [match.group(1) for match in self._pattern.finditer(text)]
        try:
            seconds = float(found[-1])
        except (IndexError, ValueError):
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            raise ToposeatError(
                f"no time found in the program's output by {self._pattern.pattern!r}",
                hint="the pattern's group 1 must be a number of seconds, as in '([0-9.]+) s'",
            )
        return seconds


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"{pattern!r} is no regular expression: {error}", hint="for example '([0-9.]+) s'"
        ) from error
    if compiled.groups != 1:
        raise UsageError(
            f"{pattern!r} has {compiled.groups} groups instead of 1",
            hint="put brackets around the number: '([0-9.]+) s'",
        )
    return compiled
