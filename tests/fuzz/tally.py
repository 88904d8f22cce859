"""Counts of what became of inputs: added up over jobs, kept in a file so that a run can go on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.fuzz.attempt import Outcome
from tests.support.processes import ran

_MESSAGES = 5_000  # causes told apart; more would only fill the file


@dataclass
class Tally:
    """What became of some inputs of one target; `peak_bytes` is of the process."""

    inputs: int = 0
    read: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    messages: set[int] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)

    def count(self, outcome: Outcome) -> None:
        """One input more."""
        self.inputs += 1
        self.read += not outcome.fault and not outcome.refused
        self.refused += not outcome.fault and outcome.refused
        self.slowest_s = max(self.slowest_s, outcome.seconds)
        self.cpu_s += outcome.seconds
        if outcome.refused and len(self.messages) < _MESSAGES:
            self.messages.add(outcome.message)
        if outcome.fault:
            self.faults[outcome.fault] += 1

    def add(self, other: Tally) -> None:
        """Take over another job's counts."""
        self.inputs += other.inputs
        self.read += other.read
        self.refused += other.refused
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.cpu_s += other.cpu_s
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        self.messages |= other.messages
        self.faults += other.faults


@dataclass(frozen=True)
class Job:
    """Some inputs of one target: which ones follows from `seed` and `part` alone."""

    target: str
    seed: int
    part: int
    inputs: int


@dataclass(frozen=True)
class Done:
    """One line of the file."""

    job: Job
    tally: Tally
    day: str
    commit: str


def write_done(path: Path, job: Job, tally: Tally) -> None:
    """Add a job to the file."""
    counts = {**asdict(tally), "messages": sorted(tally.messages), "faults": dict(tally.faults)}
    day = datetime.now(UTC).date().isoformat()
    line = {"job": asdict(job), "tally": counts, "day": day, "commit": _commit()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:  # one write: several runs may share the file
        file.write(json.dumps(line) + "\n")


def read_done(path: Path) -> list[Done]:
    """The jobs of earlier runs, the last of each; those with faults are to be run again."""
    if not path.exists():
        return []
    found: dict[Job, Done] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        counts = line["tally"]
        tally = Tally(
            **{
                **counts,
                "messages": set(counts["messages"]),
                "faults": Counter(counts["faults"]),
            }
        )
        job = Job(**line["job"])
        found[job] = Done(job, tally, line["day"], line["commit"])
    return [done for done in found.values() if not done.tally.faults]


def total(tallies: Iterable[Tally]) -> Tally:
    """All of them in one."""
    found = Tally()
    for each in tallies:
        found.add(each)
    return found


def _commit() -> str:
    done = ran(["git", "rev-parse", "--short=10", "HEAD"], cwd=Path(__file__).parent)
    return done.stdout.strip() or "unknown"
