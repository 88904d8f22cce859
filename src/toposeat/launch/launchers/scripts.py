"""Seats by a shell script or by one line of variables, whatever starts the ranks."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from toposeat.errors import UsageError
from toposeat.launch.launchers.seats import Export, HostWords, Job, LaunchFile
from toposeat.launch.nic_words import PSM3, UCX, ucx_name
from toposeat.model.topology import ANY_HOST
from toposeat.model.visible_list import DEVICE_VARIABLES, keeps_order, visible_variables

NAME = "seat.sh"
_MOST_COLUMNS = 100
# In the order in which they can be trusted: a batch step's SLURM_LOCALID surrounds mpirun.
_LOCAL_RANK = (
    *("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID"),
    *("PMI_LOCAL_RANK", "FLUX_TASK_LOCAL_ID", "LOCAL_RANK", "SLURM_LOCALID"),
)
# CPUs that a batch system keeps from the rank, or no taskset: not bound, but started.
_CPU_LINES = (
    'if [ -n "$cpus" ] && ! taskset -cp "$cpus" $$ >/dev/null 2>&1; then',
    f'echo "{NAME}: warning: cannot bind local rank $local on $host to CPUs $cpus" >&2',
    "fi",
)
# A NIC that the node lacks would stop the job. What the user has set stays. PSM3 wants no port.
_NIC_LINES = (
    "device=${nic%%:*}",
    'if [ -z "$device" ]; then :',
    'elif [ -e "/sys/class/infiniband/$device" ] || [ -e "/sys/class/net/$device" ]; then',
    f'export {UCX}="${{{UCX}:-$nic}}" {PSM3}="${{{PSM3}:-$device}}"',
    "else",
    f'echo "{NAME}: warning: NIC $device is not on $host: it is left out" >&2',
    "fi",
)


def with_seats(
    job: Job,
    launcher: str,
    words: Sequence[str],
    own: HostWords,
    *,
    cpus: bool,
    devices: bool = True,
    keeps_variables: bool = True,
    say: Callable[[str, str], Sequence[str]] | None = None,
    nics: bool = False,
    notes: Sequence[str] = (),
) -> Export:
    """A launcher's line with the rest of the seats: by variables, else by a script in front.

    The script is needed to bind CPUs, to name NICs, and for devices unless one list serves all.

    Args:
        job: what is to be started.
        launcher: its name.
        words: the line as far as the launcher's options go.
        own: files, variables and notes that belong to them.
        cpus: CPUs are not bound by these words.
        devices: devices are not given by these words.
        keeps_variables: device variables of its environment reach the ranks.
        say: the words of its line that set a variable; None: its environment does.
        nics: it starts Cray MPICH, whose variables assign NICs.
        notes: what else to tell.
    """
    variables = job.device_variables() if devices and keeps_variables else {}
    scripts: tuple[LaunchFile, ...] = ()
    if cpus or job.names_nics or (devices and job.device_lists() and not variables):
        scripts, variables = (seat_script(job, cpus=cpus, devices=devices),), {}
    variables |= job.nic_environment() if nics else {}
    said = [] if say is None else [word for pair in variables.items() for word in say(*pair)]
    return Export(
        launcher=launcher,
        files=(*own.files, *scripts),
        command=(*words, *said, *((f"./{NAME}",) if scripts else ()), job.program),
        environment={**own.environment, **(variables if say is None else {})},
        notes=(*own.notes, *job.device_notes, *notes),
    )


def seat_script(job: Job, *, cpus: bool = True, devices: bool = True) -> LaunchFile:
    """The script; without `cpus` or `devices` it leaves those to the launcher."""
    lines = [
        "#!/bin/sh",
        "# Made by toposeat export. Seats one rank by host and local rank, then runs the program.",
        "host=$(hostname)",
        "host=${host%%.*}",
        "local=",
        *(f"local=${{{name}:-$local}}" for name in reversed(_LOCAL_RANK)),
        "cpus= devices= nic=",
        *_cases(job, cpus=cpus, devices=devices),
        # A launch helper never takes the job down: such a rank runs as if this were not there.
        f"*) echo \"{NAME}: warning: no seat for local rank '$local' on host $host: started without"
        ' one" >&2',
        'exec "$@" ;;',
        "esac",
    ]
    if devices and job.device_lists():
        lines += _device_lines(job)
    if cpus and job.has_cpus:
        lines += _CPU_LINES
    if job.names_nics:
        lines += _NIC_LINES
    lines.append('exec "$@"')
    return LaunchFile(name=NAME, text="\n".join(lines) + "\n", executable=True)


def script(job: Job) -> Export:
    """The script alone, for any launcher."""
    return Export(
        launcher="script",
        files=(seat_script(job),),
        command=(f"./{NAME}", job.program),
        notes=(
            "start one of these per rank, in this order of hosts: "
            + ", ".join(f"{host}:{len(each)}" for host, each in job.seats_of_host.items())
            if job.hosts
            else f"start {job.ranks} of these on one host",
            *job.device_notes,
        ),
    )


def _cases(job: Job, *, cpus: bool, devices: bool) -> list[str]:
    """The seats of every local rank, by host: those of hosts that are alike once."""
    lists = job.device_lists() if devices else {}
    alike: dict[tuple[str, ...], list[str]] = {}
    for host, seats in job.seats_of_host.items():
        rows = []
        for seat in seats:
            words = [f"cpus={seat.cpus}"] if cpus and seat.cpus is not None else []
            words += [f"devices={lists[host][seat.local_rank]}"] if lists else []
            nic = ucx_name(seat.nic) if seat.nic else None
            words += [f"nic={shlex.quote(nic)}"] if nic else []
            rows.append(f"{seat.local_rank}) {' '.join(words) or ':'} ;;")
        name = "*" if host == ANY_HOST else shlex.quote(host.split(".", 1)[0])
        alike.setdefault(tuple(rows), []).append(name)
    likes = [f"{_wrapped(rest, '|')}) like={one} ;;" for one, *rest in alike.values() if rest]
    return [
        "like=$host",
        *(("case $host in", *likes, "esac") if likes else ()),
        "case $like:$local in",
        *(f"{names[0]}:{row}" for rows, names in alike.items() for row in rows),
    ]


def _wrapped(words: Sequence[str], mark: str) -> str:
    """These words with a mark between each two, on as many lines of a shell as they need."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > _MOST_COLUMNS:
            lines.append("")
        lines[-1] += word + mark
    return "\\\n".join(lines).removesuffix(mark)


def _device_lines(job: Job) -> list[str]:
    others = (name for name in DEVICE_VARIABLES if name != job.variable)
    own = visible_variables(job.placement.vendor, ["$devices"])
    return [f"unset {' '.join(others)}", *(f"export {name}={value}" for name, value in own.items())]


def variables(job: Job) -> Export:
    """`CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3,1,2,0`: local rank i takes the i-th.

    Only the job's own devices are listed: such launchers take all that they see.
    """
    if job.visibility != "permute":
        raise UsageError(
            f"--visibility {job.visibility} is different for every rank, or sets nothing: one line"
            " of variables orders the devices of a whole node",
            hint="--visibility permute, or --launcher script",
        )
    own = _devices(job)
    notes = []
    if len(job.seats_of_host) > 1:
        notes.append(
            "for every node alike; the order of nodes is for --launcher torchrun and the like"
        )
    if job.has_cpus or job.names_nics:
        notes.append("variables bind no CPUs and name no NICs; --launcher script does")
    return Export(launcher="env", command=(), environment=_variables(job, own), notes=tuple(notes))


def _devices(job: Job) -> tuple[str, ...]:
    own = job.own_devices_alike()
    counts = {len(seats) for seats in job.seats_of_host.values()}
    if own is None or len(counts) > 1:
        raise UsageError(
            "the nodes have different orders of devices: no one line serves all of them",
            hint="--launcher torchrun or script, which choose by host name",
        )
    return own


def _variables(job: Job, own: tuple[str, ...]) -> dict[str, str]:
    vendor = job.placement.vendor
    found = visible_variables(vendor, own)
    if not found:
        raise UsageError(
            f"no variable orders the devices of vendor {vendor}",
            hint="--launcher script binds the CPUs",
        )
    if not keeps_order(vendor, own):
        raise UsageError(
            f"ZE_AFFINITY_MASK={','.join(own)} chooses these devices, but keeps Level Zero's own"
            " order",
            hint="let the application take its device by local rank; --launcher script binds CPUs",
        )
    return found


LAUNCHERS = ()
EXPORTS = {
    "env": ("one line of device variables for a whole node", variables),
    "script": ("a shell script in front of the program, whatever starts it", script),
}
