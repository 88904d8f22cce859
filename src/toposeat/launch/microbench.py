"""The communication microbenchmark program: compiled for the user's MPI, its line, its answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from toposeat.errors import ToposeatError
from toposeat.installed import native_path
from toposeat.launch.installations import (
    FLAGS,
    MPICC_VARIABLE,
    compile_program,
    compiler_wrappers,
)
from toposeat.launch.launchers.launcher import LaunchLine
from toposeat.model.private_cache import cache_root, cached_artefact
from toposeat.model.runs import COLLECTIVES, GridExchange

MICROBENCH = "toposeat-microbench"
MOST_SIZES = 64  # of the program, microbench/microbench.h
_MARK = '{"toposeat_microbench"'
_PROGRAM_PATTERN = {name: name for name in (*COLLECTIVES, "ring")}  # all others are neighbours


@dataclass(frozen=True, kw_only=True, slots=True)
class MicrobenchOptions:
    """How one run of the program measures.

    A sample is the time of `batch` exchanges behind one barrier, divided by `batch`.
    """

    sizes: tuple[int, ...]
    iterations: int = 20  # samples per size
    batch: int = 10
    batch_bytes: int = 65536  # batches of larger messages are shorter, down to one
    warmup: int = 2
    buffers: str = "host"


@dataclass(frozen=True, kw_only=True, slots=True)
class MicrobenchAnswer:
    """What rank 0 reported; `seconds[i]` are the samples of `sizes[i]`, each the slowest rank's.

    An all-to-all `by_messages` was not the library's: that takes no device memory.
    """

    mpi: str
    device: str  # PCI bus id of rank 0's device; "" for host buffers
    by_messages: bool
    sizes: tuple[int, ...]
    seconds: tuple[tuple[float, ...], ...]


def compiled_microbench(line: LaunchLine, env: Mapping[str, str]) -> Path:
    """The program for the MPI of a launch line, by its mpicc: from the cache, or compiled now."""
    reasons = []
    for mpicc in compiler_wrappers(line, env):
        program, reason = cached_artefact(
            cache_root(env) / "microbench",
            f"{MICROBENCH}-{_key(mpicc)}",
            "a compiled microbenchmark",
            partial(compile_program, mpicc, microbench_sources(), env),
        )
        if not reason:
            return program
        reasons.append(f"{mpicc}: {reason}")
    raise ToposeatError(
        "cannot compile the microbenchmark: " + ("; ".join(reasons) or "no mpicc found"),
        hint=f"load the module of your MPI, or name its mpicc in {MPICC_VARIABLE}",
    )


def microbench_sources() -> tuple[Path, ...]:
    """The program's C files."""
    return tuple(sorted(native_path("share/microbench").glob("*.c")))


def microbench_arguments(exchange: GridExchange, options: MicrobenchOptions) -> list[str]:
    """The program's command line, without its name."""
    words = [
        *("--pattern", _PROGRAM_PATTERN.get(exchange.name, "neighbours")),
        *("--grid", "x".join(map(str, exchange.grid))),
        *("--sizes", ",".join(map(str, options.sizes))),
        *("--iterations", str(options.iterations)),
        *("--batch", str(options.batch)),
        *("--batch-bytes", str(options.batch_bytes)),
        *("--warmup", str(options.warmup)),
        *("--buffers", options.buffers),
    ]
    if exchange.weight != 1:
        words += ["--weight", repr(exchange.weight)]
    if exchange.layers != 1:
        words += ["--layers", str(exchange.layers)]
    words += ["--wrap"] if exchange.wrap else []
    return words + (["--diagonals"] if exchange.diagonals else [])


def parse_microbench(text: str, options: MicrobenchOptions) -> MicrobenchAnswer:
    """What the program wrote, among whatever else a launcher writes."""
    head, sizes, seconds = {}, [], []
    done = False
    for line in text.splitlines():
        if not line.startswith(_MARK):
            continue
        record = _record(line)
        done = done or record.get("done") is True
        if "error" in record:
            raise ToposeatError(
                f"the microbenchmark cannot run: {record['error']}", hint=_hint(record["error"])
            )
        if "mpi" in record:
            head = record
        elif "bytes" in record:
            sizes.append(int(record["bytes"]))
            seconds.append(tuple(float(each) for each in record["seconds"]))
    if not done or tuple(sizes) != options.sizes:
        raise ToposeatError(
            f"the microbenchmark ended after {len(sizes)} of {len(options.sizes)} sizes",
            hint="its messages are above; try fewer ranks or smaller --sizes",
        )
    return MicrobenchAnswer(
        mpi=str(head.get("mpi", "")),
        device=str(head.get("device", "")),
        by_messages=head.get("collective") == "messages",
        sizes=tuple(sizes),
        seconds=tuple(seconds),
    )


def _hint(cause: object) -> str:
    text = str(cause)
    if "driver" in text:
        return "use --buffers host where there is no GPU"
    if "device memory" in text:
        return "use --buffers host, a stencil or an all-to-all, or an MPI built for this GPU"
    if "compiled for another MPI" in text:
        return f"name the mpicc that fits the launcher in {MPICC_VARIABLE}"
    return "check the launch line against the pattern's grid"


def _record(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:  # two processes wrote at once
        return {}
    return record if isinstance(record, dict) else {}


def _key(mpicc: Path) -> str:
    """Changes with the compiler wrapper's file and the program's sources."""
    real = mpicc.resolve()
    status = real.stat() if real.is_file() else None
    identity = (str(mpicc), str(real), status and status.st_size, status and status.st_mtime_ns)
    digest = hashlib.sha256(repr((identity, FLAGS)).encode())
    for path in sorted(native_path("share/microbench").iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]
