"""The CPUs of this machine that are no rank's: outside of the job's cgroup, or spare threads.

What a step or a task of the job is bound to says nothing of its others: of the cgroups around this
process the outermost that has not all CPUs is that of the job, or of the container.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from toposeat.model.cpu_list import RESERVED, cpus_of, format_cpu_list, parse_cpu_list
from toposeat.model.topology import Topology
from toposeat.topology.constants import CGROUP, THREADS
from toposeat.topology.live.sysfs import read_cpu_list, read_small

_FILES = ("cpuset.cpus.effective", "cpuset.effective_cpus")  # of cgroups v2 and v1


def with_cpus_of_job(
    machine: Topology, environment: Mapping[str, str], root: Path = Path("/")
) -> Topology:
    """This machine, with the CPUs that the job may not use or did not ask for reserved."""
    lists = [*(part.cpus for part in machine.components), *(d.cpus for d in machine.devices)]
    every = frozenset[int]().union(*map(cpus_of, lists))
    job = next((cpus for cpus in _cgroups(root) if every - cpus), every)
    asked = environment.get(THREADS, "")
    threads = int(asked) if asked.isascii() and asked.isdigit() else 0
    cores = [parse_cpu_list(core) for part in machine.components for core in part.cores]
    spare = {cpu for core in cores for cpu in core[threads:]} if threads else set()
    kept, report = cpus_of(machine.metadata.get(RESERVED)), machine.report
    for what, cpus in ((CGROUP, every - job), (f"{THREADS}={asked}", spare)):
        if cpus:
            kept |= cpus
            report += (f"{what} leaves out CPUs {format_cpu_list(cpus)}: no rank is bound to them",)
    if report == machine.report:
        return machine
    return replace(
        machine, metadata={**machine.metadata, RESERVED: format_cpu_list(kept)}, report=report
    )


def _cgroups(root: Path) -> Iterator[frozenset[int]]:
    """The CPUs of each cgroup around this process, from the outermost in, as far as it is shown."""
    try:
        lines = read_small(root / "proc/self/cgroup").decode(errors="replace").splitlines()
    except OSError:
        return
    for number, controllers, path in (line.split(":", 2) for line in lines if line.count(":") > 1):
        names = controllers.split(",")
        if number != "0" and "cpuset" not in names:
            continue
        folder = root / "sys/fs/cgroup" / ("" if number == "0" else "cpuset")
        for step in ("", *path.strip("/").split("/")):
            folder /= step
            found = next((text for file in _FILES if (text := read_cpu_list(folder / file))), None)
            if found:
                yield cpus_of(found)
