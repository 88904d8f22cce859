"""What is installed: the version, and the files that the native build made."""

from __future__ import annotations

import sys
from pathlib import Path

from toposeat.errors import UnavailableError

# Here alone: the build and CMake read it, tools/generate_reference.py writes it into recipes.
VERSION = "0.1.0"


def native_path(name: str) -> Path:
    """A file that the native build installed, e.g. `bin/toposeat-exec`.

    Raises:
        UnavailableError: the package was installed without it.
    """
    for folder in sys.modules["toposeat"].__path__:
        candidate = Path(folder) / "_native" / name
        if candidate.exists():
            return candidate.resolve()
    raise UnavailableError(
        f"this installation of toposeat has no {name}", hint="reinstall it: pip install ."
    )


def node_path(name: str, remote: str = "") -> str:
    """The same on a job's nodes, where native parts lie in the folder `remote`; "" for as here."""
    return f"{remote}/{name}" if remote else str(native_path(name))
