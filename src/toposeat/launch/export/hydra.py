"""Host files and binding options of Hydra: MPICH and Intel MPI."""

from __future__ import annotations

from toposeat.errors import UsageError
from toposeat.launch.apply import NO_BINDING
from toposeat.launch.export.job import Export, ExportFile, Job, hex_mask, plus_list
from toposeat.launch.export.script import program_of
from toposeat.launch.launchers import LauncherKind


def mpich(job: Job) -> Export:
    """`-f hostfile`, `-rankmap` where ranks are not in blocks, `-bind-to user:`."""
    words = ["mpiexec", "-n", str(job.ranks)]
    files, notes = [], list(job.device_notes)
    if job.hosts:
        files.append(_hostfile("hostfile", job))
        words += ["-f", "hostfile"]
    if not job.in_blocks:
        number = {host: at for at, host in enumerate(job.hosts)}
        words += ["-rankmap", ",".join(str(number[host]) for host in job.host_of_rank())]
        notes.append("-rankmap needs MPICH 4.3 or later (4.0 refuses it)")
    cpus = job.cpus_alike()
    by_script = job.has_cpus and cpus is None
    if cpus is not None:
        words += ["-bind-to", "user:" + ",".join(map(plus_list, cpus))]
    elif by_script:
        words += NO_BINDING[LauncherKind.MPICH]
    return _with_devices(job, "mpich", words, files, notes, cpus_by_script=by_script)


def intel(job: Job) -> Export:
    """`-machinefile` and `I_MPI_PIN_DOMAIN` masks by local rank.

    Raises:
        UsageError: ranks that are not in blocks, for which Intel MPI has no file.
    """
    if not job.in_blocks:
        raise UsageError(
            "Intel MPI's machine file assigns ranks host by host, and this placement does not",
            hint="use toposeat run, or --launcher slurm with SLURM_HOSTFILE",
        )
    words = ["mpiexec", "-n", str(job.ranks)]
    files = []
    if job.hosts:
        files.append(_hostfile("machinefile", job))
        words += ["-machinefile", "machinefile"]
    cpus = job.cpus_alike()
    by_script = job.has_cpus and cpus is None
    if cpus is not None:
        # Without 0x, 2021.18 refuses them and binds its own way.
        masks = ",".join(map(hex_mask, cpus))
        words += ["-genv", "I_MPI_PIN_DOMAIN", f"[{masks}]"]
    elif by_script:
        words += NO_BINDING[LauncherKind.INTEL]
    return _with_devices(job, "intel", words, files, [*job.device_notes], cpus_by_script=by_script)


def _with_devices(
    job: Job,
    launcher: str,
    words: list[str],
    files: list[ExportFile],
    notes: list[str],
    *,
    cpus_by_script: bool,
) -> Export:
    """Variables for all ranks if one device list serves, else the script."""
    program, scripts, variables = program_of(job, cpus=cpus_by_script)
    for name, value in variables.items():
        words += ["-genv", name, value]
    return Export(
        launcher=launcher,
        files=(*files, *scripts),
        command=(*words, *program),
        notes=tuple(notes),
    )


def _hostfile(name: str, job: Job) -> ExportFile:
    """Every host once: Hydra takes a repeated name for another node."""
    lines = [f"{host}:{len(seats)}\n" for host, seats in job.seats_of_host.items()]
    return ExportFile(name=name, text="".join(lines))
