"""Traffic from whatever the user names: a profile, a matrix, another tool's files, a pattern."""

from __future__ import annotations

from pathlib import Path

from toposeat.errors import InputError, UsageError, nearest
from toposeat.model.files import path_exists
from toposeat.model.traffic import Traffic
from toposeat.profile.pattern.patterns import PATTERNS, pattern_traffic


def read_traffic(source: str | Path) -> Traffic:
    """Read the file or folder that `source` names, else take it as a pattern.

    What a file is follows from its content, not from its name; `-` is standard input. Of Open
    MPI's monitoring any one file of the run is enough; of the sources that have a file per process
    (NCCL logs, PyTorch traces) a folder with them is read as one job.

    Raises:
        InputError: the file is damaged, or of a kind that is no traffic.
        UsageError: there is no such file, and it is no pattern either.
    """
    path = Path("/dev/stdin" if str(source) == "-" else source)
    if path_exists(path):
        from toposeat.profile.importers.formats import read_path  # noqa: PLC0415 - 50 ms

        return read_path(path)
    try:
        return pattern_traffic(str(source))
    except UsageError as error:
        if ":" not in str(source) or "/" in str(source):  # no pattern, but the name of a file
            name = nearest(str(source).lower(), PATTERNS) or "stencil2d"
            pattern = PATTERNS[name].form.partition("[")[0]
            raise InputError(
                "no such file", path=source, hint=f"check the name, or give a pattern: {pattern}"
            ) from error
        raise
