"""Why a run left no records, as far as it can be told afterwards."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from toposeat.launch import LaunchLine
from toposeat.model.hostlist import compress_hostlist
from toposeat.profile.recording.linkage import inspect_linkage
from toposeat.profile.recording.recorders import Recorders, why_no_hook
from toposeat.profile.records.missing import noted_hosts
from toposeat.profile.records.record_layout import CAUSE_SUFFIX

_HOME_HINT = (
    "run it inside an allocation (salloc, sbatch), or name a folder that the nodes share:"
    " --keep-records DIR; what ranks left is in /dev/shm/toposeat-records-* of their nodes"
)
_NO_WAY_HINT = (
    "if its nodes cannot connect to this host, name ports that are open (TOPOSEAT_PORTS=FROM-TO),"
    " or a folder that they share: --keep-records DIR"
)
_SEE_ABOVE = "lines that start with 'toposeat:' above, if there are any, give another reason"


def why_nothing(
    line: LaunchLine,
    environment: Mapping[str, str],
    recorders: Recorders,
    *,
    folder: Path,
    exit_code: int,
    not_fetched: str,
) -> tuple[str, str]:
    """The probable cause, and a hint.

    Args:
        line: the command, taken apart.
        environment: of the run.
        recorders: what observed its ranks.
        folder: where the records should be.
        exit_code: of the application.
        not_fetched: why records of other nodes could not be fetched; empty if they could.
    """
    name = line.program[0]
    found = shutil.which(name, path=environment.get("PATH"))
    linkage = inspect_linkage(Path(found), environment) if found else None
    cause = next((path.name for path in folder.glob(f"*{CAUSE_SUFFIX}*")), "").rpartition("-")[2]
    hosts = sorted(set(noted_hosts([folder]).values()))
    if cause.isdecimal():
        message = f"no rank could keep its record in {folder}: {os.strerror(int(cause[:9]))}"
        hint = "make room there, or name a folder elsewhere: --keep-records DIR"
    elif not_fetched and hosts:
        message = f"no records were sent back by {compress_hostlist(hosts)}: {not_fetched}"
        hint = _HOME_HINT
    elif exit_code != 0:
        message = f"{name} ended with exit code {exit_code}, and no rank recorded anything"
        hint = f"run it without toposeat first; {_SEE_ABOVE}"
    elif recorders.hooks_torch and (deaf := why_no_hook(line, environment)):
        message = f"no rank recorded anything: {deaf}"
        hint = "leave the option out to profile what it sends with torch.distributed"
    elif recorders.library is None:
        message = (
            f"no rank recorded anything: no process of {name} made a process group with"
            " torch.distributed, and no MPI of it is known"
        )
        hint = f"Python started with -I, -E or -S is not recorded; {_SEE_ABOVE}"
    elif linkage is not None and linkage.is_elf and linkage.mpi_library is None:
        message = (
            f"no rank recorded anything: {name} is not linked to an MPI library, and none of its"
            " processes made an MPI call"
        )
        hint = f"profile the MPI program itself, which must not be linked statically; {_SEE_ABOVE}"
    elif found is not None and Path(found).stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        message = (
            f"no rank recorded anything: {name} is setuid, so that LD_PRELOAD has no effect on it"
        )
        hint = "profile a copy without the setuid bit"
    elif linkage is not None and not linkage.is_elf:
        message = f"no rank recorded anything: {name} (a script) started no MPI program"
        hint = "an MPI of another family than the launcher's, or a static one, cannot be recorded"
    elif not_fetched:
        message = f"no records were sent back by the nodes of the job: {not_fetched}"
        hint = _NO_WAY_HINT
    else:
        message = f"no rank recorded anything: {name} made no MPI call"
        hint = _SEE_ABOVE
    return message, hint
