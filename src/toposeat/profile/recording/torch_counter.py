"""The counter of `torch.distributed` calls below Python, compiled for a program's own torch.

`python_hook/counter.cpp` needs torch's headers and a C++ compiler, and PyTorch's C++ interface is
that of one release. So it is compiled after a run whose calls were many, for the torch that its
records name, and kept in the user's cache: the next run with that torch loads it. Without it
recorder.py counts all calls itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from toposeat.errors import ToposeatError
from toposeat.launch.installations import first_error_line, run_compiler
from toposeat.launch.python_hook.recorder import COUNTER_SOURCE, COUNTERS_VARIABLE, counter_name
from toposeat.model.private_cache import cache_root, cached_artefact
from toposeat.profile.records.torch_job import SUFFIX, read_torch_record

WORTH_CALLS = 20_000  # of one process; fewer cost a run less than half a second


def counter_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Where ranks look for the counter."""
    try:
        return {COUNTERS_VARIABLE: str(_folder(environment).absolute())}
    except ToposeatError:  # no home folder
        return {}


def keep_counter(records: Path, environment: Mapping[str, str]) -> None:
    """Compile the counter for the torch of these records, if its calls were many.

    Where it cannot be compiled, the next run is recorded as this one was.
    """
    with suppress(ToposeatError):
        for path in sorted(records.glob(f"*{SUFFIX}"))[:1]:
            record = read_torch_record(path)
            if sum(each.calls for each in record.calls) >= WORTH_CALLS:
                compile_counter(record.process.torch, record.process.torch_folder, environment)


def compile_counter(version: str, folder: str, environment: Mapping[str, str]) -> str:
    """Compile it for the torch in a folder; why it could not be, else empty."""
    compiler = shutil.which("c++", path=environment.get("PATH"))
    if compiler is None:
        return "there is no C++ compiler"
    torch = Path(folder)
    include, libraries = torch / "include", torch / "lib"
    line = [compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"]
    line += ["-isystem", str(include), "-isystem", str(include / "torch/csrc/api/include")]
    line += [COUNTER_SOURCE, f"-L{libraries}", "-lc10", "-ltorch_cpu", "-o"]

    def build(made: Path) -> str:
        done = run_compiler([*line, str(made)], made.parent, environment)
        return first_error_line(done.stderr) if done.returncode else ""

    try:
        name = counter_name(version, folder)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return cached_artefact(_folder(environment), name, "a counter for torch", build)[1]


def _folder(environment: Mapping[str, str]) -> Path:
    return cache_root(environment) / "torch"
