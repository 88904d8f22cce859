"""What is recorded of real PyTorch jobs, beside the formulas: with nccl on one GPU, or with gloo.

    python -m benchmarks.torch_conformance --backend nccl     # on a machine with a GPU
    python -m benchmarks.torch_conformance --backend gloo     # on any machine
    python -m benchmarks.torch_conformance --only fsdp pp

Four ranks train and exchange under `toposeat profile -- torchrun ...`, one job per case of
`tests/support/torch_program.py`. The bytes of every collective per group and member, and those from
rank to rank, are compared with `tests/support/torch_bytes.py`; with nccl also those in the traces
of PyTorch's profiler. There all ranks share the first GPU: each says that it is a host of its own
(NCCL_HOSTID), and sends over sockets of the loopback device.

TOPOSEAT_TEST_TORCH names the Python that has PyTorch, if this one has not. toposeat need not be
built: PYTHONPATH=src, with numpy and msgspec. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.pytorch import PROGRAM, python_with_torch, torchrun
from tests.support.torch_bytes import MOVED, RANKS, differences

from toposeat.errors import ToposeatError
from toposeat.model.traffic import MemorySpace, Traffic
from toposeat.profile import read_traffic
from toposeat.profile.importers.pytorch_trace import read_pytorch_traces

STEPS = 3
_TOPOSEAT = (sys.executable, "-c", "from toposeat.cli.main import entry; entry()")
_SPACE = {"nccl": MemorySpace.DEVICE, "gloo": MemorySpace.HOST}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--backend", choices=_SPACE, default="nccl")
    parser.add_argument("--only", nargs="+", choices=MOVED, default=list(MOVED), metavar="CASE")
    options = parser.parse_args(arguments)
    print(_versions(), flush=True)
    wrong = 0
    for case in options.only:
        found = _case(case, options.backend)
        print(f"{case:10} {options.backend}: {'as by formula' if not found else 'DIFFERS'}")
        print("".join(f"    {line}\n" for line in found), end="", flush=True)
        wrong += bool(found)
    print(f"{len(options.only) - wrong} of {len(options.only)} cases as by formula")
    return 1 if wrong else 0


def _versions() -> str:
    text = (
        "import sys, torch, torch.cuda.nccl as n; c = torch.cuda.is_available();"
        "print('Python', sys.version.split()[0], 'torch', torch.__version__,"
        " 'NCCL', *(n.version() if c else ['none']), torch.cuda.get_device_name(0) if c else '')"
    )
    done = subprocess.run(
        [python_with_torch(), "-c", text], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr.strip()


def _case(case: str, backend: str) -> list[str]:
    """What differs in one job."""
    with tempfile.TemporaryDirectory(prefix="toposeat-torch-") as folder:
        profile, traces = Path(folder, "a.prof"), Path(folder, "traces")
        line = torchrun(PROGRAM, case, str(STEPS), backend, ranks=RANKS)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRACES": str(traces)}
        done = subprocess.run(
            ["timeout", "-k", "9", "150", *_TOPOSEAT, "profile", "-o", str(profile), "--", *line],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode or not profile.exists():
            return [f"exit code {done.returncode}", *(done.stdout + done.stderr).splitlines()[-40:]]
        try:
            live = read_traffic(profile)
        except ToposeatError as error:
            return [f"the profile: {error}"]
        found = [*differences(case, STEPS, live), *_form(live, backend)]
        if backend == "gloo":
            return found
        return [*found, *_traces(case, sorted(traces.glob("*.trace.json")))]


def _traces(case: str, paths: Sequence[Path]) -> list[str]:
    """What the profiler's traces say otherwise."""
    try:
        traced = read_pytorch_traces(paths)
    except ToposeatError as error:
        return [f"traces: {error}"]
    return [f"traces: {each}" for each in differences(case, STEPS, traced)]


def _form(live: Traffic, backend: str) -> list[str]:
    """Where buffers, groups, devices or ends of ranks are not what the backend makes them."""
    wrong = []
    spaces = {space for (_, space), table in live.tables.items() if len(table)}
    if spaces != {_SPACE[backend]}:
        wrong.append(f"buffers in {[space.value for space in spaces]}")
    direct = {"barrier", "alltoallv", "gather", "scatter"}
    as_sets = {event.operation for event in live.collectives} - direct
    libraries = {group.library for group in live.groups}
    if libraries != ({"nccl"} if backend == "nccl" and as_sets else set()):
        wrong.append(f"groups of {sorted(libraries)}, {sorted(as_sets)} were called")
    for info in live.rank_info:
        if not info.finalized or info.local_rank != info.rank:
            wrong.append(f"rank {info.rank}: {info}")
        if backend == "nccl" and (info.device_ordinal != 0 or not info.device_pci_bus_id):
            wrong.append(
                f"rank {info.rank}: device {info.device_ordinal}, {info.device_pci_bus_id}"
            )
    return wrong + [f"report: {line}" for line in live.report if "could not be read" in line]


if __name__ == "__main__":
    sys.exit(main())
