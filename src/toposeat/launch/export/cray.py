"""Cray MPICH: the order of ranks in a file, under srun, PALS or aprun."""

from __future__ import annotations

from toposeat.errors import UsageError
from toposeat.launch.export.job import Export, ExportFile, Job, hex_mask, natural_key
from toposeat.launch.export.script import program_of

_ORDER = "MPICH_RANK_ORDER"


def under_srun(job: Job) -> Export:
    """Blocks by srun, ranks renumbered by the MPI."""
    words = ["srun", "-N", str(len(job.seats_of_host)), "-n", str(job.ranks)]
    words += [f"--ntasks-per-node={_per_host(job)}", "-m", "block"]
    words += ["-w", ",".join(_sorted_hosts(job))] if job.hosts else []
    cpus = job.cpus_alike()
    words += [] if cpus is None else ["--cpu-bind=mask_cpu:" + ",".join(map(hex_mask, cpus))]
    return _export(job, "cray", words, _sorted_hosts(job), is_bound=cpus is not None)


def under_pals(job: Job) -> Export:
    """`mpiexec` of PALS: hosts from a file, CPU lists by local rank."""
    words = ["mpiexec", "-n", str(job.ranks), "--ppn", str(_per_host(job))]
    files: tuple[ExportFile, ...] = ()
    if job.hosts:
        words += ["--hostfile", "hostfile"]
        files = (ExportFile(name="hostfile", text="".join(f"{host}\n" for host in job.hosts)),)
    cpus = job.cpus_alike()
    words += [] if cpus is None else ["--cpu-bind", "list:" + ":".join(cpus)]
    return _export(job, "pals", words, job.hosts, files=files, is_bound=cpus is not None)


def under_aprun(job: Job) -> Export:
    """`aprun` of ALPS: hosts are those of the reservation, CPU lists by local rank."""
    words = ["aprun", "-n", str(job.ranks), "-N", str(_per_host(job))]
    cpus = job.cpus_alike()
    words += [] if cpus is None else ["-cc", ":".join(cpus)]
    return _export(job, "aprun", words, _sorted_hosts(job), is_bound=cpus is not None)


def _export(
    job: Job,
    launcher: str,
    words: list[str],
    hosts: tuple[str, ...],
    *,
    files: tuple[ExportFile, ...] = (),
    is_bound: bool,
) -> Export:
    environment = {}
    order = [seat.rank for host in hosts for seat in job.seats_of_host[host]]
    if hosts and order != list(range(job.ranks)):
        files += (_order_file(job, hosts),)
        environment = {"MPICH_RANK_REORDER_METHOD": "3", "MPICH_RANK_REORDER_FILE": _ORDER}
    program, scripts, variables = program_of(
        job, cpus=job.has_cpus and not is_bound, by_variables=launcher != "cray"
    )  # srun sets variables of its own
    return Export(
        launcher=launcher,
        files=(*files, *scripts),
        command=(*words, *program),
        environment={**environment, **variables},
        notes=job.device_notes,
    )


def _order_file(job: Job, hosts: tuple[str, ...]) -> ExportFile:
    """Ranks in the order of slots: a line for each host."""
    lines = [",".join(str(seat.rank) for seat in job.seats_of_host[host]) for host in hosts]
    return ExportFile(name=_ORDER, text="\n".join(lines) + "\n")


def _sorted_hosts(job: Job) -> tuple[str, ...]:
    """The scheduler's own order, in which slots are numbered."""
    return tuple(sorted(job.hosts, key=natural_key))


def _per_host(job: Job) -> int:
    if job.per_host is None:
        raise UsageError(
            "hosts have different numbers of ranks, which an order of ranks cannot express",
            hint="use --launcher slurm, or place the same number of ranks on every host",
        )
    return job.per_host
