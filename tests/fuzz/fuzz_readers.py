"""Mass fuzzing of every topology reader: damaged copies of recorded files, read or refused.

    python -m tests.fuzz.fuzz_readers --count 100000 --processes 2

For each registered format recorded files of that kind are damaged with `tests.support.mutations`
and read as `discover -t` reads them. A crash is anything but the errors that users are meant to
see, an error without hint or of several lines, more memory than the limit, or more time. Prints a
table; exit code 1 after a crash. Crashing inputs are saved under build/fuzz.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import multiprocessing
import random
import resource
import signal
import sys
import tarfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.mutations import damage
from toposeat.errors import InputError, ToposeatError
from toposeat.model.files import encode_json
from toposeat.model.topology_file import TOPOLOGY_SCHEMA
from toposeat.topology import catalogue_names, read_topology
from toposeat.topology.facts import MachineFacts
from toposeat.topology.formats import (
    FORMATS,
    TREES,
    UNUSABLE,
    Format,
    Parsed,
    TreeFormat,
    format_of,
    parse_outputs,
)
from toposeat.topology.merge import makes_machine, merge_topologies
from toposeat.topology.readers.file_text import decoded

ROOT = Path(__file__).resolve().parents[2]
SLOW_S = 2.0
_SEEDS_OF_A_FORMAT = 24


class _TooSlowError(BaseException):
    """Past every `except Exception` of a reader."""


@dataclass
class Tally:
    """What became of the inputs of one format."""

    inputs: int = 0
    read: int = 0
    refused: int = 0
    slow: int = 0
    slowest_s: float = 0.0
    crashes: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Take over another process's counts."""
        self.inputs += other.inputs
        self.read += other.read
        self.refused += other.refused
        self.slow += other.slow
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.crashes += other.crashes


Seed = tuple[Path, bytes]  # with its file: a few formats go by suffixes and files beside it


@dataclass(frozen=True)
class Target:
    """One format with the files to start from, and how damaged bytes of it are read."""

    name: str
    seeds: tuple[Seed, ...]
    read: Callable[[Path, bytes], list[Parsed]]
    cost: int = 1  # one input of an archive costs as much as so many of a text: there are fewer


# ---- where to start from


def targets(shared: Path, max_bytes: int) -> list[Target]:
    """Every registered format that has at least one file to start from."""
    texts: dict[str, list[Seed]] = {each.name: [] for each in (*FORMATS, *UNUSABLE)}
    trees: dict[str, list[Seed]] = {each.name: [] for each in TREES}
    for path in sorted(shared.rglob("*")):
        if path.is_file() and path.name != "INDEX.tsv":
            _sort_file(path, texts, trees)
    texts["toposeat topology JSON"] += [_json_of(name) for name in catalogue_names()]
    found = [
        Target(each.name, _chosen(texts[each.name], max_bytes), _reader_of_text(each))
        for each in (*FORMATS, *UNUSABLE)
        if texts[each.name]
    ]
    found += [
        Target(each.name, _chosen(trees[each.name], max_bytes), _reader_of_tree(each), cost=20)
        for each in TREES
        if trees[each.name]
    ]
    return found


def _sort_file(path: Path, texts: dict[str, list[Seed]], trees: dict[str, list[Seed]]) -> None:
    for tree in TREES:
        if tree.looks_like(path):
            trees[tree.name].append((path, _plain_tar(path)))
            return
    data = path.read_bytes()
    try:
        texts[format_of(decoded(data, path)).name].append((path, data))
    except ToposeatError:
        return


def _json_of(name: str) -> Seed:
    return Path(name), encode_json(read_topology(name), schema=TOPOLOGY_SCHEMA).encode()


def _plain_tar(path: Path) -> bytes:
    """The same members without compression: else every damage would only break the packing."""
    out = io.BytesIO()
    with tarfile.open(path) as packed, tarfile.open(fileobj=out, mode="w") as plain:
        for member in packed:
            plain.addfile(member, packed.extractfile(member) if member.isreg() else None)
    return out.getvalue()


def _chosen(files: list[Seed], max_bytes: int) -> tuple[Seed, ...]:
    """The smaller files: what a reader does wrong it does wrong with few lines as well."""
    by_size = sorted(files, key=lambda seed: len(seed[1]))
    small = [each for each in by_size if len(each[1]) <= max_bytes]
    return tuple((small or by_size[:1])[:_SEEDS_OF_A_FORMAT])


# ---- one input


def _reader_of_text(of: Format) -> Callable[[Path, bytes], list[Parsed]]:
    """Reads as a user's file is read, but by this reader wherever it would take the file."""

    def read(name: Path, data: bytes) -> list[Parsed]:
        file = decoded(data, name)
        if not of.looks_like(file):
            return parse_outputs(file)
        try:
            return [of.parse(file)]
        except ValueError as error:
            raise InputError(str(error), path=name, hint="as parse_outputs does") from error

    return read


def _reader_of_tree(of: TreeFormat) -> Callable[[Path, bytes], list[Parsed]]:
    def read(name: Path, data: bytes) -> list[Parsed]:
        path = Path(f"/dev/shm/toposeat-fuzz-{multiprocessing.current_process().pid}.tar")
        path.write_bytes(data)
        try:
            return [of.parse(path)]
        except ValueError as error:
            raise InputError(str(error), path=name, hint="as sources does") from error
        finally:
            path.unlink()

    return read


def try_input(target: Target, seed: Seed, limit_s: float) -> tuple[str, float]:
    """Read one input.

    Returns:
        "read", "refused" or what went wrong, and the CPU seconds it took.
    """
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        outcome = _outcome(target, seed)
    except _TooSlowError:
        outcome = f"no end within {limit_s:g} s"
    except MemoryError:
        outcome = "memory limit"
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        outcome = f"{type(error).__name__} at {where}: {str(error)[:80]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return outcome, time.process_time() - start


def _outcome(target: Target, seed: Seed) -> str:
    try:
        parsed = target.read(*seed)
        if any(not isinstance(each, MachineFacts) or makes_machine(each) for each in parsed):
            _merge(parsed)
    except ToposeatError as error:
        if not error.hint or "\n" in str(error) or len(str(error)) > 8000:
            return f"bad message: {str(error)[:80]!r}, hint {error.hint!r}"
        return "refused"
    return "read"


def _merge(parsed: list[Parsed]) -> None:
    try:
        merge_topologies(parsed, "fuzzed")
    except ValueError as error:  # as `sources` takes it
        raise InputError(str(error), path="fuzzed", hint="as sources does") from error


# ---- many

_Job = tuple[int, int, int, float]  # target, seed, inputs, seconds for one input
_TARGETS: list[Target] = []  # filled before the processes fork: readers cannot be sent


def _work(job: _Job) -> Tally:
    number, seed, count, limit_s = job
    target = _TARGETS[number]
    source = random.Random(f"{target.name} {seed}")
    tally = Tally()
    for _ in range(count):
        name, data = source.choice(target.seeds)
        others = [each for _, each in target.seeds] if source.random() < 0.1 else ()
        data = damage(source, data, others=others)
        outcome, seconds = try_input(target, (name, data), limit_s)
        tally.inputs += 1
        tally.read += outcome == "read"
        tally.refused += outcome == "refused"
        tally.slow += seconds > SLOW_S
        tally.slowest_s = max(tally.slowest_s, seconds)
        if outcome not in ("read", "refused") or seconds > SLOW_S:
            _save(target.name, data, outcome)
        if outcome not in ("read", "refused"):
            tally.crashes[outcome] += 1
    return tally


def _save(name: str, data: bytes, outcome: str) -> None:
    folder = ROOT / "build" / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    kind = "".join(c if c.isalnum() else "-" for c in f"{name}-{outcome}")[:80]
    digest = hashlib.sha256(data).hexdigest()[:8]
    if len(list(folder.glob(f"{kind}*"))) < 3:
        (folder / f"{kind}-{digest}").write_bytes(data)


def _limit(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    signal.signal(signal.SIGPROF, _stop)
    warnings.simplefilter("error")  # a library's warning on a user's screen is a fault of ours


def _stop(*_: object) -> None:
    raise _TooSlowError


def _jobs(count: int, share: int, seed: int, limit_s: float) -> Iterator[_Job]:
    for number in range(len(_TARGETS)):
        inputs = max(1, count // _TARGETS[number].cost)
        for part, begin in enumerate(range(0, inputs, share)):
            yield number, seed * 1_000_003 + part, min(share, inputs - begin), limit_s


def main() -> int:
    """Fuzz and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=10_000, help="inputs of each format")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="formats whose name holds this")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared" / "machines")
    parser.add_argument("--max-seed-bytes", type=int, default=24_000)
    parser.add_argument("--time-limit", type=float, default=20.0, help="CPU seconds for one input")
    parser.add_argument("--memory-limit", type=int, default=2048, help="MiB of one process")
    args = parser.parse_args()
    found = [t for t in targets(args.shared, args.max_seed_bytes) if args.only in t.name]
    _TARGETS.extend(found)
    tallies: dict[str, Tally] = {target.name: Tally() for target in found}
    jobs = list(_jobs(args.count, 2_000, args.seed, args.time_limit))
    left = Counter(job[0] for job in jobs)
    _print_row("format", ("seeds", "inputs", "read", "refused", "crashes", "slow", "slowest"))
    context = multiprocessing.get_context("fork")
    with context.Pool(args.processes, _limit, (args.memory_limit << 20,)) as pool:
        for job, tally in zip(jobs, pool.imap(_work, jobs), strict=True):
            target = found[job[0]]
            tallies[target.name].add(tally)
            left[job[0]] -= 1
            if not left[job[0]]:
                _print_target(target, tallies[target.name])
    return _print_end(tallies, alone=bool(args.only))


def _print_row(name: str, cells: Sequence[object]) -> None:
    print(f"{name:34}" + "".join(f"{cell!s:>9}" for cell in cells), flush=True)


def _print_target(target: Target, t: Tally) -> None:
    counts = (len(target.seeds), t.inputs, t.read, t.refused, t.crashes.total(), t.slow)
    _print_row(target.name, (*counts, f"{t.slowest_s:.2f}s"))
    for what, times in t.crashes.most_common():
        print(f"    {times} x {what}", flush=True)


def _print_end(tallies: dict[str, Tally], *, alone: bool) -> int:
    crashes = sum(t.crashes.total() for t in tallies.values())
    without = [f.name for f in (*FORMATS, *UNUSABLE, *TREES) if f.name not in tallies]
    if without and not alone:
        print(f"no file to start from: {', '.join(without)}")
    print(f"{sum(t.inputs for t in tallies.values())} inputs, {crashes} crashes")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
