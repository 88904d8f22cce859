"""Whether all ranks of a launch line run on this node."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from toposeat.errors import InputError
from toposeat.launch.allocation import allocation_of
from toposeat.launch.launch_line import LaunchLine
from toposeat.launch.launchers import LauncherKind
from toposeat.model.hostlist import short_name

# What starts processes of its own node alone.
_STARTS_HERE = (LauncherKind.NONE, LauncherKind.TORCHRUN)
# What stays on its own node unless its line, a job or one of these variables tells of others.
_STAYS_HERE = (LauncherKind.OPENMPI, LauncherKind.MPICH, LauncherKind.INTEL)
_TELL_HOSTS = (
    *("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"),
    *("HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_HOSTS_GROUP"),
)
_REACHES_OTHERS = frozenset({"dvm-uri", "hnp", "dvm", "add-host", "add-hostfile"})
_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def all_here(line: LaunchLine, environment: Mapping[str, str]) -> bool:
    """Whether every rank will run on this node; False where that is not known.

    Of `torchrun` it is: each node has a torchrun of its own.
    """
    if line.kind in _STARTS_HERE:
        return True
    table = line.table
    told = table.hosts | table.host_files | _REACHES_OTHERS if table else _REACHES_OTHERS
    if any(option.name in told for each in line.further for option in each.options):
        return False
    try:
        allocation = allocation_of(line, environment)
    except InputError:  # the launcher will say what it thinks of it
        return False
    if allocation is not None:
        return all(is_here(host) for host in allocation.hosts)
    told_so = line.has(_REACHES_OTHERS) or any(environment.get(name) for name in _TELL_HOSTS)
    return line.kind in _STAYS_HERE and not told_so


def is_here(host: str) -> bool:
    """Whether a launcher's name of a host is one of this node."""
    return host in _OWN_NAMES or short_name(host) == short_name(socket.gethostname())
