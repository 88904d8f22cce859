"""Files and options of the schedulers' launchers: srun and flux run."""

from __future__ import annotations

from toposeat.launch.apply import NO_BINDING
from toposeat.launch.export.job import Export, ExportFile, Job, hex_mask
from toposeat.launch.export.script import NAME, program_of, seat_script
from toposeat.launch.launchers import LauncherKind

_HOSTFILE = "hostfile"


def slurm(job: Job) -> Export:
    """`SLURM_HOSTFILE` where blocks of sorted hosts are not enough, CPU masks by local rank.

    Slurm sets the device variables itself, after whatever the environment holds: an order of all
    devices needs the script, one device each `--gpu-bind`.
    """
    words = ["srun", "-N", str(len(job.seats_of_host)), "-n", str(job.ranks)]
    files: list[ExportFile] = []
    environment: dict[str, str] = {}
    notes = list(job.device_notes)
    if job.hosts and job.in_blocks and job.hosts_ascend and job.per_host is not None:
        words += ["-m", "block", f"--ntasks-per-node={job.per_host}", "-w", ",".join(job.hosts)]
    elif job.hosts:
        environment["SLURM_HOSTFILE"] = _HOSTFILE
        words += ["-m", "arbitrary"]
        files.append(_host_of_rank(job))
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
    own = job.own_devices_alike() if job.visibility == "mask" and job.device_lists() else None
    if own is not None:
        words.append("--gpu-bind=map_gpu:" + ",".join(own))
        notes.append(
            "one device per rank: in a job whose GPUs are constrained by a cgroup add"
            " --gres-flags=allow-task-sharing, or peers cannot be reached"
        )
    program: tuple[str, ...] = (job.program,)
    if cpus_by_script or (job.device_lists() and own is None):
        files.append(seat_script(job, cpus=cpus_by_script, devices=own is None))
        program = (f"./{NAME}", job.program)
    return Export(
        launcher="slurm",
        files=tuple(files),
        command=(*words, *program),
        environment=environment,
        notes=tuple(notes),
    )


def flux(job: Job) -> Export:
    """`--taskmap`, `-o cpu-affinity=map:`, and device variables or `gpu-affinity=map:`."""
    words = ["flux", "run", "-N", str(len(job.seats_of_host)), "-n", str(job.ranks)]
    files: list[ExportFile] = []
    if job.hosts and not (job.in_blocks and job.hosts_ascend and job.per_host is not None):
        words.append(f"--taskmap=hostfile:{_HOSTFILE}")
        files.append(_host_of_rank(job))
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
    is_set = own is not None and not cpus_by_script  # without variables and without a script
    program, scripts, variables = (
        ((job.program,), (), {}) if is_set else program_of(job, cpus=cpus_by_script)
    )
    words += [f"--env={name}={value}" for name, value in variables.items()]
    return Export(
        launcher="flux",
        files=(*files, *scripts),
        command=(*words, *program),
        notes=job.device_notes,
    )


def _host_of_rank(job: Job) -> ExportFile:
    return ExportFile(name=_HOSTFILE, text="".join(f"{host}\n" for host in job.host_of_rank()))
