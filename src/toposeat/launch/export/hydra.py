"""Host files and binding options of Hydra: MPICH and Intel MPI."""

from __future__ import annotations

from toposeat.launch.export.job import Export, Job, hex_mask, plus_list
from toposeat.launch.export.script import program_of
from toposeat.launch.hosts import hydra
from toposeat.launch.hosts.rank_hosts import HostWords
from toposeat.launch.launchers import NO_BINDING, LauncherKind


def mpich(job: Job) -> Export:
    """`-f hostfile`, `-rankmap` where ranks are not in blocks, `-bind-to user:`."""
    own = hydra.mpich(job.rank_hosts) if job.hosts else HostWords()
    words = ["mpiexec", "-n", str(job.ranks), *own.options]
    notes = list(job.device_notes)
    if "-rankmap" in own.options:
        notes.append("-rankmap needs MPICH 4.3 or later (4.0 refuses it)")
        notes.append("without MALLOC_PERTURB_ for mpiexec, ranks may wait in MPI_Init for ever")
    cpus = job.cpus_alike()
    by_script = job.has_cpus and cpus is None
    if cpus is not None:
        words += ["-bind-to", "user:" + ",".join(map(plus_list, cpus))]
    elif by_script:
        words += NO_BINDING[LauncherKind.MPICH]
    return _with_devices(job, "mpich", words, own, notes, cpus_by_script=by_script)


def intel(job: Job) -> Export:
    """`-machinefile` and `I_MPI_PIN_DOMAIN` masks by local rank.

    Raises:
        UsageError: an order of ranks for which Intel MPI has no words.
    """
    own = hydra.intel(job.rank_hosts) if job.hosts else HostWords()
    words = ["mpiexec", "-n", str(job.ranks), *own.options]
    cpus = job.cpus_alike()
    by_script = job.has_cpus and cpus is None
    if cpus is not None:
        # Without 0x, 2021.18 refuses them and binds its own way.
        masks = ",".join(map(hex_mask, cpus))
        words += ["-genv", "I_MPI_PIN_DOMAIN", f"[{masks}]"]
    elif by_script:
        words += NO_BINDING[LauncherKind.INTEL]
    if job.nic_environment():  # Slingshot: it pins ranks to the nearest NICs, by its own choice
        words += ["-genv", "I_MPI_MULTIRAIL", "1"]
    return _with_devices(job, "intel", words, own, [*job.device_notes], cpus_by_script=by_script)


def _with_devices(
    job: Job,
    launcher: str,
    words: list[str],
    own: HostWords,
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
        files=(*own.files, *scripts),
        environment=own.environment,
        command=(*words, *program),
        notes=tuple(notes),
    )
