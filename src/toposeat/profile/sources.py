"""Traffic from whatever the user names: a profile, a matrix, monitoring files, a pattern."""

from __future__ import annotations

from pathlib import Path

from toposeat.errors import InputError, UsageError
from toposeat.model.traffic import Traffic
from toposeat.model.traffic_file import is_profile, load_traffic
from toposeat.profile.csv_matrix import read_csv_matrix
from toposeat.profile.open_mpi_monitoring import (
    FIRST_LINE,
    looks_like_monitoring,
    read_monitoring,
)
from toposeat.profile.patterns import pattern_traffic
from toposeat.profile.recognise import with_pattern


def read_traffic(source: str | Path) -> Traffic:
    """Read the file that `source` names, else take it as a pattern.

    Files: a profile, a CSV matrix, or any one file of a run under Open MPI's monitoring.

    Raises:
        InputError: the file is damaged, or of a kind that is no traffic.
        UsageError: there is no such file, and it is no pattern either.
    """
    path = Path(source)
    if _exists(path):
        if is_profile(path):
            return load_traffic(path)
        if path.suffix in {".place", ".json", ".html"}:
            raise InputError(
                "expected a profile or a CSV matrix",
                path=path,
                hint="give the profile that `toposeat profile` wrote",
            )
        if looks_like_monitoring(_beginning(path)):
            return with_pattern(read_monitoring(path))
        return with_pattern(read_csv_matrix(path))
    try:
        return pattern_traffic(str(source))
    except UsageError as error:
        if _looks_like_a_file(str(source)):
            raise InputError(
                "no such file", path=source, hint="check the name, or give a pattern: stencil2d:4x4"
            ) from error
        raise


def _beginning(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(len(FIRST_LINE)).decode(errors="replace")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long or with a NUL is no file
        return False


def _looks_like_a_file(text: str) -> bool:
    return ":" not in text or "/" in text
