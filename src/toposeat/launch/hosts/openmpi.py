"""Open MPI's words for the host of every rank: a rankfile (5), the sequential mapper (4)."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.launch.hosts.rank_hosts import HostWords, RankHosts, host_per_rank
from toposeat.launch.launch_file import LaunchFile
from toposeat.launch.option_tables import OPENMPI

_REPLACED = OPENMPI.hosts | OPENMPI.host_files | OPENMPI.per_host | {"map-by", "mapby"}


def version_5(plan: RankHosts, folder: str = "", *, oversubscribe: bool = False) -> HostWords:
    """A rankfile, and a file with the hosts and their slots.

    Outside a scheduler's job a rankfile alone does not start daemons on the hosts that it names.
    A rankfile allows no more ranks on a host than the job has slots there, the sequential mapper
    does. Slots of PRRTE's rankfiles are logical cores; the caller switches binding off.
    """
    if oversubscribe:
        return HostWords(
            options=("--map-by", "seq:oversubscribe", "--hostfile", f"{folder}hostfile"),
            replaces=_REPLACED,
            files=(host_per_rank("hostfile", plan),),
        )
    return HostWords(
        options=("--map-by", f"rankfile:file={folder}rankfile", *_hostfile(folder)),
        replaces=_REPLACED,
        files=(rankfile(plan.host_of_rank, ["0"] * plan.ranks), hosts_with_slots(plan)),
    )


def version_4(plan: RankHosts, folder: str = "") -> HostWords:
    """The sequential mapper, which leaves binding alone: a rankfile always binds."""
    return HostWords(
        options=("--mca", "rmaps", "seq", *_hostfile(folder)),
        replaces=_REPLACED,
        files=(host_per_rank("hostfile", plan),),
    )


def rankfile(hosts: Sequence[str], slots: Sequence[str]) -> LaunchFile:
    """Host and slots (CPUs) of every rank."""
    pairs = zip(hosts, slots, strict=True)
    lines = [f"rank {rank}={host} slot={slot}\n" for rank, (host, slot) in enumerate(pairs)]
    return LaunchFile(name="rankfile", text="".join(lines))


def hosts_with_slots(plan: RankHosts) -> LaunchFile:
    """Every host once, with as many slots as it has ranks."""
    lines = [f"{host} slots={count}\n" for host, count in plan.counts.items()]
    return LaunchFile(name="hostfile", text="".join(lines))


def _hostfile(folder: str) -> tuple[str, str]:
    return "--hostfile", f"{folder}hostfile"
