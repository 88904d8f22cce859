"""`toposeat doctor`: how a machine is wired, what is wrong with it, what order could gain."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from toposeat import launch, pipeline, report, topology
from toposeat.cli.command import (
    Command,
    add_flag,
    add_topology_option,
    environment_of,
    print_json,
    read_machine,
    show,
    source_words,
    tell,
)
from toposeat.errors import ToposeatError, UnavailableError
from toposeat.installed import native_path
from toposeat.model.health import Finding, Health, JobOrder, PossibleGain, Severity, Verdict
from toposeat.model.plural import plural
from toposeat.model.quantity import WORTH_SAYING
from toposeat.model.shell_words import names_this
from toposeat.model.transport import nccl_setting
from toposeat.topology import finding

if TYPE_CHECKING:
    from toposeat.model.topology import Topology
    from toposeat.model.transport import NcclSetting

_Found = TypeVar("_Found", PossibleGain, JobOrder)


class DoctorCommand(Command):
    """Check a machine: its wiring, its faults, and what the order of ranks could gain."""

    name = "doctor"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        add_topology_option(parser, required=False)
        add_flag(
            parser, "--strict", "exit with 1 for doubts too, not only for faults and unknown facts"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Collect the findings, print them, return the verdict as exit code."""
        source = "this" if args.topology is None else args.topology
        node = node_findings() if names_this(source) else ()
        machine, missing = _machine(source)
        health = Health(findings=missing, node=node)
        if machine is not None:
            around = environment_of(source)
            setting = nccl_setting(around or {})
            part = _own_part(machine, source)
            gains, orders = _gains(machine, part, setting)
            machine = replace(machine, metadata={**machine.metadata, **part.metadata})
            health = Health(
                wiring=topology.wiring_of(machine),
                gains=gains,
                orders=orders,
                transport=pipeline.transport_of(machine, environment=around),
                findings=topology.findings_of(machine),
                node=node,
            )
            if setting is not None and not (health.transport and health.transport.setting):
                tell(f"note: {setting.note}")
        if args.json:
            print_json(report.health_json(machine, health))
        else:
            show(sys.stdout, report.render_health_text, machine, health, _question(source, health))
            if machine is not None and any(gain.share >= WORTH_SAYING for gain in health.gains):
                tell(_next_words(source, len(health.gains[0].device_of_rank)))
        doubtful = args.strict and health.severity is Severity.DOUBT
        return 1 if doubtful or health.verdict is not Verdict.HEALTHY else 0


def _own_part(machine: Topology, source: str) -> Topology:
    """The job's devices; of a list that leaves none there is a finding."""
    try:
        part = topology.part_of_job(machine, source, os.environ)
        tell(*topology.said_of_lists(part))
        return part
    except UnavailableError:
        return topology.without_devices(machine, {device.id for device in machine.devices})


def _gains(
    machine: Topology, part: Topology, setting: NcclSetting | None
) -> tuple[tuple[PossibleGain, ...], tuple[JobOrder, ...]]:
    """What orders of the devices of a part gain, as positions in the whole machine."""
    gains, orders = pipeline.possible_gains(pipeline.as_nccl_is_set(part, setting))
    at = {device.id: position for position, device in enumerate(machine.devices)}
    whole = [at[device.id] for device in part.devices]

    def in_whole(found: _Found) -> _Found:
        return replace(found, device_of_rank=tuple(whole[d] for d in found.device_of_rank))

    return tuple(map(in_whole, gains)), tuple(map(in_whole, orders))


def _question(source: str, health: Health) -> str:
    """The command that asks for the order of one job: its pattern stands for the user's own."""
    patterns = [gain.pattern for gain in health.gains]
    if not patterns:
        return ""
    asked = min((p for p in patterns if p.startswith("llm:tp=2")), key=len, default=patterns[0])
    return f"toposeat map {asked}{'' if source == 'this' else source_words(source)}"


def _next_words(source: str, devices: int) -> str:
    """How to gain what an order of ranks may save."""
    if source == "this":
        return f"Next: toposeat tune -- mpirun -n {devices} ./app"
    return f"Next: toposeat map TRAFFIC{source_words(source)}"


def _machine(source: str) -> tuple[Topology | None, tuple[Finding, ...]]:
    """The machine, or a finding where this one has no GPU; a file that is wrong is an error."""
    try:
        return read_machine(source), ()
    except UnavailableError as error:
        row = "gpu-hidden here" if "hidden from this process" in error.message else "gpu-missing"
        return None, (finding(row, message=error.message, hint=error.hint),)


LAUNCHERS = ("mpirun", "mpiexec", "srun", "flux", "torchrun")
SMALL_SHM_BYTES = 256 * 1024 * 1024


def node_findings() -> tuple[Finding, ...]:
    """Findings on this node, in the order in which a person would look for them."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _host,
        _numa_balancing,
        lambda: iter(topology.findings_of_paths()),
        _environment,
        _native_parts,
        _launchers,
        _mpi,
        _shared_memory,
    )
    return tuple(found for check in checks for found in check())


def _host() -> Iterator[Finding]:
    allowed = len(os.sched_getaffinity(0))
    online = os.cpu_count() or allowed
    nodes = sorted(Path("/sys/devices/system/node").glob("node[0-9]*"))
    cpus, numa = plural(online, "CPU"), plural(max(len(nodes), 1), "NUMA node")
    yield finding("host", os.uname().nodename, cpus=cpus, nodes=numa)
    if allowed < online:
        yield finding("cpu-set", allowed=allowed, online=online)


def _numa_balancing() -> Iterator[Finding]:
    try:
        state = Path("/proc/sys/kernel/numa_balancing").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return
    several = len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) > 1
    if state not in ("", "0") and several:
        yield finding("numa-balancing", "kernel.numa_balancing")


def _environment() -> Iterator[Finding]:
    from toposeat.model.visible_list import DEVICE_VARIABLES  # noqa: PLC0415

    for name in (DEVICE_VARIABLES[0], "CUDA_DEVICE_ORDER", *DEVICE_VARIABLES[1:]):
        if name in os.environ:
            yield finding("visibility-inherited", name, value=os.environ[name])


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
            yield finding("toposeat-incomplete", part, message=error.message, hint=error.hint)
    if not missing:
        yield finding("toposeat")


def _launchers() -> Iterator[Finding]:
    found = [name for name in LAUNCHERS if shutil.which(name)]
    if found:
        yield finding("launchers", found=", ".join(f"{x} ({shutil.which(x)})" for x in found))
    else:
        yield finding("launcher-missing", names=", ".join(LAUNCHERS))


def _mpi() -> Iterator[Finding]:
    installations = launch.find_installations()
    for each in installations:
        yield finding("mpi", description=each.description, mpirun=each.mpirun)
    if not installations:
        yield finding("mpi-missing")


def _shared_memory() -> Iterator[Finding]:
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError:
        yield finding("shm-missing", "/dev/shm")
        return
    if free < SMALL_SHM_BYTES:
        yield finding("shm-small", "/dev/shm", free=free // 2**20)
