"""Cray MPICH: the order of ranks in a file, under srun, PALS or aprun."""

from __future__ import annotations

from toposeat.launch.export.job import Export, Job, hex_mask
from toposeat.launch.export.script import program_of
from toposeat.launch.hosts import cray
from toposeat.launch.hosts.rank_hosts import HostWords
from toposeat.launch.hosts.slurm import srun


def under_srun(job: Job) -> Export:
    """Blocks by srun, ranks renumbered by the MPI."""
    own = HostWords(options=("-N", "1", "-n", str(job.ranks)))
    if job.hosts:
        own = srun(job.rank_hosts, order=job.order, pmi="cray_shasta")
    words = ["srun", *own.options]
    cpus = job.cpus_alike()
    words += [] if cpus is None else ["--cpu-bind=mask_cpu:" + ",".join(map(hex_mask, cpus))]
    return _export(job, "cray", words, own, is_bound=cpus is not None)


def under_pals(job: Job) -> Export:
    """`mpiexec` of PALS: hosts from a file, CPU lists by local rank."""
    own = HostWords(options=("--ppn", str(job.ranks)))
    if job.hosts:
        own = cray.pals(job.rank_hosts)
    words = ["mpiexec", "-n", str(job.ranks), *own.options]
    cpus = job.cpus_alike()
    words += [] if cpus is None else ["--cpu-bind", "list:" + ":".join(cpus)]
    return _export(job, "pals", words, own, is_bound=cpus is not None)


def under_aprun(job: Job) -> Export:
    """`aprun` of ALPS: hosts are those of the reservation, CPU lists by local rank."""
    own = cray.order_file(job.rank_hosts, "", job.order) if job.hosts else HostWords()
    words = ["aprun", "-n", str(job.ranks), "-N", str(cray.per_host(job.rank_hosts))]
    cpus = job.cpus_alike()
    words += [] if cpus is None else ["-cc", ":".join(cpus)]
    return _export(job, "aprun", words, own, is_bound=cpus is not None)


def _export(job: Job, launcher: str, words: list[str], own: HostWords, *, is_bound: bool) -> Export:
    program, scripts, variables = program_of(
        job, cpus=job.has_cpus and not is_bound, by_variables=launcher != "cray"
    )  # srun sets variables of its own
    return Export(
        launcher=launcher,
        files=(*own.files, *scripts),
        command=(*words, *program),
        environment={**own.environment, **variables, **job.nic_environment()},
        notes=job.device_notes,
    )
