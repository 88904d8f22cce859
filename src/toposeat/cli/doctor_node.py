"""What `doctor` looks at on this node besides its wiring: environment, launchers, MPI, memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from toposeat.errors import ToposeatError
from toposeat.installed import native_path
from toposeat.model.health import Finding, Severity
from toposeat.report.units import plural

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


def node_findings() -> tuple[Finding, ...]:
    """Findings on this node, in the order in which a person would look for them."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _host,
        _numa_balancing,
        _environment,
        _native_parts,
        _launchers,
        _mpi,
        _solvers,
        _shared_memory,
    )
    return tuple(finding for check in checks for finding in check())


def _finding(
    severity: Severity, code: str, detail: str, *, subject: str = "", hint: str = ""
) -> Finding:
    return Finding(severity=severity, code=code, subject=subject, detail=detail, hint=hint)


def _host() -> Iterator[Finding]:
    allowed = len(os.sched_getaffinity(0))
    online = os.cpu_count() or allowed
    nodes = sorted(Path("/sys/devices/system/node").glob("node[0-9]*"))
    detail = f"{plural(online, 'CPU')}, {plural(max(len(nodes), 1), 'NUMA node')}"
    yield _finding(Severity.OK, "host", detail, subject=os.uname().nodename)
    if allowed < online:
        yield _finding(
            Severity.DOUBT,
            "cpu-set",
            f"this process may use {allowed} of {online} CPUs",
            hint="placements bind inside that set; ask your scheduler for whole nodes if"
            " unintended",
        )


def _numa_balancing() -> Iterator[Finding]:
    try:
        state = Path("/proc/sys/kernel/numa_balancing").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return
    several = len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) > 1
    if state not in ("", "0") and several:
        yield _finding(
            Severity.INFO,
            "numa-balancing",
            "the kernel moves pages between NUMA nodes by itself, which disturbs GPU copies",
            subject="kernel.numa_balancing",
            hint="the administrator may switch it off: sysctl kernel.numa_balancing=0",
        )


def _environment() -> Iterator[Finding]:
    for name in VISIBILITY_VARIABLES:
        if name in os.environ:
            yield _finding(
                Severity.DOUBT,
                "visibility-inherited",
                f"is set to {os.environ[name]}",
                subject=name,
                hint="placements are applied inside this list and never widen it",
            )


def _native_parts() -> Iterator[Finding]:

    parts = (
        "bin/toposeat-exec",
        "lib/libtoposeat_ompi.so",
        "lib/libtoposeat_mpich.so",
        "lib/libtoposeat_probe.so",
    )
    missing = []
    for part in parts:
        try:
            native_path(part)
        except ToposeatError as error:
            missing.append(part)
            yield _finding(
                Severity.FAULT, "toposeat-incomplete", error.message, subject=part, hint=error.hint
            )
    if not missing:
        detail = "launcher, interposers and rank probe are installed"
        yield _finding(Severity.OK, "toposeat", detail)


def _launchers() -> Iterator[Finding]:
    found = [name for name in LAUNCHERS if shutil.which(name)]
    if found:
        detail = ", ".join(f"{name} ({shutil.which(name)})" for name in found)
        yield _finding(Severity.OK, "launchers", detail)
    else:
        yield _finding(
            Severity.DOUBT,
            "launcher-missing",
            f"none of {', '.join(LAUNCHERS)} on PATH",
            hint="load your MPI module, or: pip install mpich",
        )


def _mpi() -> Iterator[Finding]:
    from toposeat import launch  # noqa: PLC0415

    installations = launch.find_installations()
    for each in installations:
        yield _finding(Severity.OK, "mpi", f"{each.description}: {each.mpirun}")
    if not installations:
        yield _finding(
            Severity.DOUBT,
            "mpi-missing",
            "no mpicc with mpirun: `toposeat demo` cannot compile its example",
            hint="pip install mpich",
        )


def _solvers() -> Iterator[Finding]:
    from toposeat import mapping  # noqa: PLC0415

    if mapping.scotch_available():
        yield _finding(Severity.OK, "scotch", "found; `map --solver scotch` works")
    else:
        yield _finding(
            Severity.INFO,
            "scotch-missing",
            "`map --solver scotch` needs it, and large jobs are mapped without this candidate",
            hint="apt-get install libscotch-dev",
        )


def _shared_memory() -> Iterator[Finding]:
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError:
        yield _finding(
            Severity.DOUBT,
            "shm-missing",
            "is missing: profiles are recorded in the temporary folder",
            subject="/dev/shm",
        )
        return
    if free < SMALL_SHM_BYTES:
        yield _finding(
            Severity.DOUBT,
            "shm-small",
            f"only {free // 2**20} MiB free",
            subject="/dev/shm",
            hint="many MPI libraries and the profiler need it; containers: --shm-size",
        )
