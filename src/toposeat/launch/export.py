"""Placements as files and options of launchers, for jobs that start without toposeat."""

from __future__ import annotations

from toposeat.errors import UsageError
from toposeat.launch.launchers import EXPORTERS
from toposeat.launch.launchers.seats import DEFAULT_PROGRAM, Export, Job
from toposeat.model.placement import Placement


def export_placement(
    placement: Placement,
    launcher: str,
    *,
    visibility: str = "permute",
    program: str = DEFAULT_PROGRAM,
) -> Export:
    """The files and the line that realise a placement with a launcher's own means.

    Args:
        placement: seats of all ranks.
        launcher: a key of `EXPORTERS`.
        visibility: as for `run`.
        program: what the line starts.

    Raises:
        UsageError: no such launcher or mode, or one that cannot express this placement.
    """
    if launcher not in EXPORTERS:
        raise UsageError(
            f"no files for launcher {launcher!r}", hint=f"choose one of {', '.join(EXPORTERS)}"
        )
    return EXPORTERS[launcher][1](Job.of(placement, visibility, program))
