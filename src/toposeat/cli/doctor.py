"""`toposeat doctor`: what this node is, what is missing, and what could be gained."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.cli.command import Command, print_json, write_result
from toposeat.errors import ToposeatError

if TYPE_CHECKING:
    from toposeat.model.topology import Topology

PRESENT, MISSING, DOUBT = "ok", "missing", "doubt"
VISIBILITY_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
)
LAUNCHERS = ("mpirun", "mpiexec", "srun", "flux", "torchrun")
SMALL_SHM_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    topic: str
    status: str
    detail: str
    hint: str = ""


class DoctorCommand(Command):
    """Say what this node is, what is missing, and what could be gained."""

    name = "doctor"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "--strict", action="store_true", help="exit with 1 if anything needed is missing"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Look at everything, print it, judge."""
        findings = list(_findings())
        if args.json:
            print_json(
                {"schema": "toposeat/doctor/1", "findings": [asdict(each) for each in findings]}
            )
        else:
            _print(findings)
        missing = any(each.status == MISSING for each in findings)
        return 1 if args.strict and missing else 0


def _print(findings: list[Finding]) -> None:
    width = max(len(each.topic) for each in findings)
    lines = []
    for each in findings:
        lines.append(f"{each.status:8}{each.topic:{width}}  {each.detail}\n")
        if each.hint:
            lines.append(f"{'':8}{'':{width}}  hint: {each.hint}\n")
    write_result("".join(lines))


def _findings() -> Iterator[Finding]:
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _host,
        _gpus,
        _environment,
        _native_parts,
        _launchers,
        _mpi,
        _solvers,
        _shared_memory,
    )
    for check in checks:
        yield from check()


def _host() -> Iterator[Finding]:
    allowed = len(os.sched_getaffinity(0))
    online = os.cpu_count() or allowed
    nodes = sorted(Path("/sys/devices/system/node").glob("node[0-9]*"))
    detail = f"{os.uname().nodename}, {online} CPUs, {max(len(nodes), 1)} NUMA nodes"
    yield Finding("host", PRESENT, detail)
    if allowed < online:
        yield Finding(
            "CPU set",
            DOUBT,
            f"this process may use {allowed} of {online} CPUs",
            "placements bind inside that set; ask your scheduler for whole nodes if unintended",
        )


def _gpus() -> Iterator[Finding]:
    from toposeat import topology  # noqa: PLC0415

    try:
        machine = topology.read_topology("this")
    except ToposeatError as error:
        yield Finding("GPUs", MISSING, error.message, error.hint)
        return
    names = sorted({device.name or device.vendor.value for device in machine.devices})
    yield Finding("GPUs", PRESENT, f"{len(machine.devices)} x {', '.join(names)}")
    yield Finding("NICs", PRESENT, f"{len(machine.nics)}")
    for doubt in machine.report:
        yield Finding("topology", DOUBT, doubt)
    yield _possible_gain(machine)


def _possible_gain(machine: Topology) -> Finding:
    """Whether device pairs differ at all: only then can placement gain anything."""
    classes = {
        route.path_class
        for route in machine.routes
        if route.source != route.target and route.target in {d.id for d in machine.devices}
    }
    if len(machine.devices) < 2:
        return Finding("gain", PRESENT, "one GPU: nothing to place; CPU and NIC binding only")
    caps = {
        route.cap_bytes_per_s.value for route in machine.routes if route.cap_bytes_per_s is not None
    }
    if len(classes) < 2 and len(caps) < 2:
        return Finding("gain", PRESENT, "all GPU pairs are alike: expect none from rank placement")
    words = ", ".join(sorted(each.value for each in classes))
    return Finding(
        "gain",
        PRESENT,
        f"GPU pairs differ ({words}): placement can matter",
        "find out: toposeat tune -- mpirun -n N ./app",
    )


def _environment() -> Iterator[Finding]:
    for name in VISIBILITY_VARIABLES:
        if name in os.environ:
            yield Finding(
                "environment",
                DOUBT,
                f"{name}={os.environ[name]}",
                "placements are applied inside this list and never widen it",
            )


def _native_parts() -> Iterator[Finding]:
    import toposeat  # noqa: PLC0415

    parts = (
        "bin/toposeat-exec",
        "lib/libtoposeat_ompi.so",
        "lib/libtoposeat_mpich.so",
        "lib/libtoposeat_witness.so",
    )
    for part in parts:
        try:
            yield Finding("toposeat", PRESENT, str(toposeat._native_path(part)))
        except ToposeatError as error:
            yield Finding("toposeat", MISSING, error.message, error.hint)


def _launchers() -> Iterator[Finding]:
    found = [name for name in LAUNCHERS if shutil.which(name)]
    if found:
        yield Finding("launchers", PRESENT, ", ".join(f"{n} ({shutil.which(n)})" for n in found))
    else:
        yield Finding(
            "launchers",
            MISSING,
            f"none of {', '.join(LAUNCHERS)} on PATH",
            "load your MPI module, or: pip install mpich",
        )


def _mpi() -> Iterator[Finding]:
    from toposeat import launch  # noqa: PLC0415

    installations = launch.find_installations()
    for each in installations:
        yield Finding("MPI", PRESENT, f"{each.description}: {each.mpirun}")
    if not installations:
        yield Finding(
            "MPI",
            DOUBT,
            "no mpicc with mpirun: `toposeat demo` cannot compile its example",
            "pip install mpich",
        )


def _solvers() -> Iterator[Finding]:
    from toposeat import mapping  # noqa: PLC0415

    if mapping.scotch_available():
        yield Finding("Scotch", PRESENT, "found; `map --solver scotch` works")
    else:
        yield Finding(
            "Scotch",
            PRESENT,
            "not found; only `map --solver scotch` needs it",
            "apt-get install libscotch-dev",
        )


def _shared_memory() -> Iterator[Finding]:
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError:
        yield Finding("/dev/shm", DOUBT, "not there: profiles are recorded in the temporary folder")
        return
    if free < SMALL_SHM_BYTES:
        yield Finding(
            "/dev/shm",
            DOUBT,
            f"only {free // 2**20} MiB free",
            "many MPI libraries and the profiler need it; containers: --shm-size",
        )
