"""Rankfiles of Open MPI: which host, which CPUs."""

from __future__ import annotations

from toposeat.launch.export.job import Export, Job
from toposeat.launch.export.script import NAME, program_of
from toposeat.launch.hosts import openmpi
from toposeat.launch.hosts.rank_hosts import HostWords
from toposeat.launch.launchers import NO_BINDING, LauncherKind


def openmpi4(job: Job) -> Export:
    """`--rankfile` with the operating system's CPU numbers, which need an MCA parameter."""
    cpus = [seat.cpus for seat in job.placement.seats if seat.cpus is not None]
    if len(cpus) == job.ranks:
        files = [openmpi.rankfile(job.rank_hosts.host_of_rank, cpus)]
        words = ["--rankfile", "rankfile", "--mca", "rmaps_rank_file_physical", "1"]
        if job.hosts:
            files.append(openmpi.hosts_with_slots(job.rank_hosts))
            words += ["--hostfile", "hostfile"]
        own = HostWords(options=tuple(words), files=tuple(files))
    else:
        own = openmpi.version_4(job.rank_hosts) if job.hosts else HostWords()
        own = HostWords(options=(*NO_BINDING[LauncherKind.OPENMPI], *own.options), files=own.files)
    return _export(job, "openmpi4", own, cpus_by_script=False)


def prrte(job: Job) -> Export:
    """A rankfile for the order of hosts; CPUs by the script.

    Slots of PRRTE's rankfiles are logical cores, whose numbers a placement does not know.
    """
    own = openmpi.version_5(job.rank_hosts)
    options = own.options if job.hosts else own.options[:2]
    files = own.files if job.hosts else own.files[:1]
    bound = (
        (f"the rankfile orders hosts; {NAME} binds CPUs: rankfiles of PRRTE count logical cores",)
        if job.has_cpus
        else ()
    )
    own = HostWords(options=(*options, *NO_BINDING[LauncherKind.OPENMPI]), files=files, notes=bound)
    return _export(job, "openmpi", own, cpus_by_script=job.has_cpus)


def _export(job: Job, launcher: str, own: HostWords, *, cpus_by_script: bool) -> Export:
    program, scripts, variables = program_of(job, cpus=cpus_by_script)
    shown = [word for name, each in variables.items() for word in ("-x", f"{name}={each}")]
    return Export(
        launcher=launcher,
        files=(*own.files, *scripts),
        command=("mpirun", "-n", str(job.ranks), *own.options, *shown, *program),
        notes=(*own.notes, *job.device_notes),
    )
