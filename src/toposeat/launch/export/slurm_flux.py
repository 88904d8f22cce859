"""Files and options of the schedulers' launchers: srun and flux run."""

from __future__ import annotations

from toposeat.launch.export.job import Export, Job, hex_mask
from toposeat.launch.export.script import NAME, program_of, seat_script
from toposeat.launch.hosts import others
from toposeat.launch.hosts.rank_hosts import HostWords
from toposeat.launch.hosts.slurm import srun
from toposeat.launch.launchers import NO_BINDING, LauncherKind


def slurm(job: Job) -> Export:
    """`SLURM_HOSTFILE` where blocks of sorted hosts are not enough, CPU masks by local rank.

    Slurm sets the device variables itself, after whatever the environment holds: an order of all
    devices needs the script, one device each `--gpu-bind`.
    """
    own = _of_one_host(job) if not job.hosts else srun(job.rank_hosts, order=job.order)
    words = ["srun", *own.options]
    files = list(own.files)
    notes = list(job.device_notes)
    if own.environment:
        notes.append(
            "MPICH and its kin lose shared memory under srun --mpi=pmi2 -m arbitrary: check"
            " MPI_COMM_TYPE_SHARED, or use --launcher cray or mpich"
        )
    cpus = job.cpus_alike()
    cpus_by_script = job.has_cpus and cpus is None
    if cpus is not None:
        words.append("--cpu-bind=mask_cpu:" + ",".join(map(hex_mask, cpus)))
    elif cpus_by_script:
        words += NO_BINDING[LauncherKind.SRUN]
    masked = job.own_devices_alike() if job.visibility == "mask" and job.device_lists() else None
    if masked is not None:
        words.append("--gpu-bind=map_gpu:" + ",".join(masked))
        notes.append(
            "one device per rank: in a job whose GPUs are constrained by a cgroup add"
            " --gres-flags=allow-task-sharing, or peers cannot be reached"
        )
    program: tuple[str, ...] = (job.program,)
    if cpus_by_script or job.names_nics or (job.device_lists() and masked is None):
        files.append(seat_script(job, cpus=cpus_by_script, devices=masked is None))
        program = (f"./{NAME}", job.program)
    return Export(
        launcher="slurm",
        files=tuple(files),
        command=(*words, *program),
        environment={**own.environment, **job.nic_environment()},
        notes=tuple(notes),
    )


def flux(job: Job) -> Export:
    """`--taskmap`, `-o cpu-affinity=map:`, and device variables or `gpu-affinity=map:`."""
    hosts = _of_one_host(job) if not job.hosts else others.flux(job.rank_hosts, order=job.order)
    words = ["flux", "run", *hosts.options]
    cpus = job.cpus_alike()
    cpus_by_script = job.has_cpus and cpus is None
    if cpus is not None:
        words += ["-o", "cpu-affinity=map:" + ";".join(cpus)]
    elif cpus_by_script:
        words += ["-o", "cpu-affinity=off"]
    own = None
    if job.visibility == "mask" and job.placement.vendor == "nvidia":  # flux sets CUDA's variable
        own = job.own_devices_alike()
    if own is not None:
        words += ["-o", "gpu-affinity=map:" + ";".join(own)]
    elif job.device_lists():
        words += ["-o", "gpu-affinity=off"]
    needs_script = cpus_by_script or job.names_nics
    is_set = own is not None and not needs_script  # without variables and without a script
    program, scripts, variables = (
        ((job.program,), (), {}) if is_set else program_of(job, cpus=cpus_by_script)
    )
    variables = {**variables, **job.nic_environment()}
    words += [f"--env={name}={value}" for name, value in variables.items()]
    return Export(
        launcher="flux",
        files=(*hosts.files, *scripts),
        command=(*words, *program),
        notes=job.device_notes,
    )


def _of_one_host(job: Job) -> HostWords:
    """The words for a placement that is for any host."""
    return HostWords(options=("-N", "1", "-n", str(job.ranks)))
