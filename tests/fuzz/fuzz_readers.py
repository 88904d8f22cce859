"""Mass fuzzing of every reader: damaged copies of well-formed inputs, read or refused.

    python -m tests.fuzz.fuzz_readers --count 100000
    python -m tests.fuzz.fuzz_readers --only 'ibnetdiscover,Slurm' --count 5000
    python -m tests.fuzz.fuzz_readers --page docs/explanation/fuzzing.md    the table of what was

Every registered format, the strings that users type, placements, traffic of every kind. A fault is
anything but the errors that users are meant to see, an error without hint or of several lines, more
than 2 s, more memory than the limit or 512 MiB for one input, a process that dies. Jobs that are
done are kept in build/fuzz/done.jsonl: the same command goes on where it was stopped, and runs
again what had faults. Exit code 1 after a fault; the inputs are saved under build/fuzz.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import random
import resource
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.fuzz.attempt import attempt, limit_process, peak_bytes
from tests.fuzz.job_targets import REMOVE, job_targets
from tests.fuzz.machine_targets import machine_targets
from tests.fuzz.network_targets import network_targets, string_targets
from tests.fuzz.table import page, print_row, print_target
from tests.fuzz.tally import Done, Job, Tally, read_done, total, write_done
from tests.fuzz.target import Target
from tests.fuzz.tree_target import tree_targets

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "fuzz"
INPUTS_OF_A_JOB = 2_000
_KEPT_OF_A_KIND = 3
_JOB_CPU_S = 1800  # the kernel ends what no handler can


def all_targets(shared: Path, max_bytes: int) -> list[Target]:
    """Everything that reads what somebody else wrote."""
    return [
        *machine_targets(shared, max_bytes),
        *tree_targets(),
        *network_targets(shared, max_bytes),
        *string_targets(),
        *job_targets(),
    ]


def inputs_of(target: Target, job: Job) -> Iterator[tuple[Path, bytes]]:
    """The inputs of a job, always the same."""
    source = random.Random(f"{job.target} {job.seed} {job.part}")
    for _ in range(job.inputs):
        yield target.one(source)


def _run(target: Target, job: Job, memory: int, at: Any, answer: Connection) -> None:
    """A process: all inputs of a job."""
    limit_process(memory)
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + _JOB_CPU_S, used + _JOB_CPU_S))
    tally = Tally()
    try:
        for number, (name, data) in enumerate(inputs_of(target, job)):
            at.value = number
            outcome = attempt(target, (name, data))
            tally.count(outcome)
            if outcome.fault:
                _save(target.name, data, outcome.fault)
    finally:
        for folder in REMOVE:
            shutil.rmtree(folder, ignore_errors=True)
    tally.peak_bytes = peak_bytes()
    answer.send(tally)


def _save(name: str, data: bytes, fault: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    kind = "".join(c if c.isalnum() else "-" for c in f"{name}-{fault}")[:80]
    digest = hashlib.sha256(data).hexdigest()[:8]
    if len(list(FOLDER.glob(f"{kind}*"))) < _KEPT_OF_A_KIND:
        (FOLDER / f"{kind}-{digest}").write_bytes(data)


@dataclass
class _Worker:
    job: Job
    process: BaseProcess
    answer: Connection
    at: Any  # how many inputs are done, in shared memory: known even after a violent end


def _started(target: Target, job: Job, memory: int) -> _Worker:
    context = multiprocessing.get_context("fork")  # readers cannot be sent
    at = context.Value("q", 0, lock=False)
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(target, job, memory, at, there))
    process.start()
    there.close()
    return _Worker(job, process, here, at)


def _finished(worker: _Worker, target: Target) -> Tally:
    try:
        tally: Tally = worker.answer.recv()
    except EOFError:
        worker.process.join()
        tally = Tally(inputs=worker.at.value + 1)
        fault = f"the process ended with {worker.process.exitcode}"
        tally.faults[fault] += 1
        for number, (_, data) in enumerate(inputs_of(target, worker.job)):
            if number == worker.at.value:
                _save(target.name, data, fault)
                break
    worker.process.join()
    return tally


def _jobs(target: Target, count: int, seed: int) -> Iterator[Job]:
    for part, begin in enumerate(range(0, count, INPUTS_OF_A_JOB)):
        yield Job(target.name, seed, part, min(INPUTS_OF_A_JOB, count - begin))


def _fuzz(target: Target, jobs: list[Job], args: argparse.Namespace) -> Tally:
    """All jobs of one target that are not done; the kept ones are counted with them."""
    kept = {done.job: done.tally for done in read_done(args.state)}
    found = total(kept[job] for job in jobs if job in kept)
    left = deque(job for job in jobs if job not in kept)
    running: dict[Connection, _Worker] = {}
    while left or running:
        while left and len(running) < args.processes:
            worker = _started(target, left.popleft(), args.memory_limit << 20)
            running[worker.answer] = worker
        for answer in wait(list(running)):
            worker = running.pop(answer)  # type: ignore[arg-type]
            tally = _finished(worker, target)
            write_done(args.state, worker.job, tally)
            found.add(tally)
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=10_000, help="inputs of each format")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="formats whose names hold one of these, by ','")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared" / "machines")
    parser.add_argument("--max-seed-bytes", type=int, default=4_000)
    parser.add_argument("--memory-limit", type=int, default=2048, help="MiB of one process")
    parser.add_argument("--state", type=Path, default=FOLDER / "done.jsonl")
    parser.add_argument("--fresh", action="store_true", help="forget what was done before")
    parser.add_argument("--page", type=Path, help="write the table of what was done, run nothing")
    return parser.parse_args()


def main() -> int:
    """Fuzz and print the table."""
    args = _arguments()
    if args.fresh:
        args.state.unlink(missing_ok=True)
    words = [word for word in args.only.split(",") if word]
    targets = all_targets(args.shared, args.max_seed_bytes)
    if words:  # in their order
        targets = [t for word in words for t in targets if word in t.name]
        targets = list({t.name: t for t in targets}.values())
    if args.page:
        args.page.write_text(page(targets, read_done(args.state)), encoding="utf-8")
        return 0
    print_row()
    found = []
    for target in targets:
        tally = _fuzz(target, list(_jobs(target, args.count, args.seed)), args)
        print_target(target, tally)
        found.append(tally)
    everything = total(found)
    print(f"{everything.inputs} inputs, {everything.faults.total()} faults")
    return 1 if everything.faults else 0


__all__ = ["Done", "all_targets", "inputs_of", "main"]

if __name__ == "__main__":
    sys.exit(main())
