"""Placements as files and options of launchers, for jobs that start without toposeat."""

from __future__ import annotations

from dataclasses import replace

from toposeat.errors import UsageError
from toposeat.launch.launchers import EXPORTERS
from toposeat.launch.launchers.seats import DEFAULT_PROGRAM, Export, Job
from toposeat.launch.order_readers import meeting_note
from toposeat.model.cpu_list import RESERVED
from toposeat.model.placement import CORES_KEY, Placement

_KEPT = "CPUs that the site keeps (Slurm: CoreSpecCount) may be among these: map --reserve-cpus"
# Their programs find the host where they meet themselves.
_ONE_PROCESS_A_RANK = ("openmpi", "openmpi4", "mpich", "intel", "slurm", "flux", "cray", "pals")


def export_placement(
    placement: Placement,
    launcher: str,
    *,
    visibility: str = "permute",
    program: str = DEFAULT_PROGRAM,
) -> Export:
    """The files and the line that realise a placement with a launcher's own means, for `program`.

    Raises:
        UsageError: no such launcher or mode, or one that cannot express this placement.
    """
    if launcher not in EXPORTERS:
        raise UsageError(
            f"no files for launcher {launcher!r}", hint=f"choose one of {', '.join(EXPORTERS)}"
        )
    job = Job.of(placement, visibility, program)
    export = EXPORTERS[launcher][1](job)
    said = meeting_note(job.hosts) if launcher in _ONE_PROCESS_A_RANK else ""
    binds = any(seat.cpus for seat in placement) and RESERVED not in placement.metadata
    cores = placement.metadata.get(CORES_KEY, "")
    guess = f"cores are {cores}; lscpu > FILE as another -t tells" if cores else ""
    notes = (*export.notes, *filter(None, (said, _KEPT if binds else "", guess)))
    return replace(export, notes=notes)


def rank_environment(placement: Placement, rank: int, visibility: str) -> dict[str, str]:
    """The variables that give one rank its devices and its NIC, in a form for any launcher.

    Where ranks share a device each sees its own alone, whatever mode is asked for: no order of one
    list can say it.
    """
    if placement.shares_devices and visibility in ("permute", "rotate"):
        visibility = "mask"
    job = Job.of(placement, visibility, DEFAULT_PROGRAM)
    return job.rank_variables(placement.seats[rank])
