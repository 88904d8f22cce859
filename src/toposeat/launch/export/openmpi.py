"""Rankfiles of Open MPI: which host, which CPUs."""

from __future__ import annotations

from toposeat.launch.apply import NO_BINDING
from toposeat.launch.export.job import Export, ExportFile, Job
from toposeat.launch.export.script import NAME, program_of
from toposeat.launch.launchers import LauncherKind

_RANKFILE = "rankfile"


def openmpi4(job: Job) -> Export:
    """`--rankfile` with the operating system's CPU numbers, which need an MCA parameter."""
    hosts = job.host_of_rank()
    words = ["mpirun", "-n", str(job.ranks)]
    files: tuple[ExportFile, ...] = ()
    if all(seat.cpus is not None for seat in job.placement.seats):
        slots = [seat.cpus or "" for seat in job.placement.seats]
        files = (_rankfile(hosts, slots),)
        words += ["--rankfile", _RANKFILE, "--mca", "rmaps_rank_file_physical", "1"]
    else:  # a rankfile always binds: name hosts only
        words += NO_BINDING[LauncherKind.OPENMPI]
        if job.hosts:
            files = (ExportFile(name="hostfile", text="".join(f"{host}\n" for host in hosts)),)
            words += ["--mca", "rmaps", "seq", "--hostfile", "hostfile"]
    program, scripts, variables = program_of(job, cpus=False)
    words += [word for name, each in variables.items() for word in ("-x", f"{name}={each}")]
    return Export(
        launcher="openmpi4",
        files=(*files, *scripts),
        command=(*words, *program),
        notes=job.device_notes,
    )


def prrte(job: Job) -> Export:
    """A rankfile for the order of hosts; CPUs by the script.

    Slots of PRRTE's rankfiles are logical cores, whose numbers a placement does not know.
    """
    hosts = job.host_of_rank()
    words = ["mpirun", "-n", str(job.ranks), "--map-by", f"rankfile:file={_RANKFILE}"]
    words += NO_BINDING[LauncherKind.OPENMPI]
    program, scripts, variables = program_of(job, cpus=job.has_cpus)
    words += [word for name, each in variables.items() for word in ("-x", f"{name}={each}")]
    bound = (
        (f"the rankfile orders hosts; {NAME} binds CPUs: rankfiles of PRRTE count logical cores",)
        if job.has_cpus
        else ()
    )
    return Export(
        launcher="openmpi",
        files=(_rankfile(hosts, ["0"] * job.ranks), *scripts),
        command=(*words, *program),
        notes=(*bound, *job.device_notes),
    )


def _rankfile(hosts: list[str], slots: list[str]) -> ExportFile:
    pairs = zip(hosts, slots, strict=True)
    lines = [f"rank {rank}={host} slot={slot}\n" for rank, (host, slot) in enumerate(pairs)]
    return ExportFile(name=_RANKFILE, text="".join(lines))
