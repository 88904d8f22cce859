"""toposeat seats ranks on GPUs: profile, learn the machine, place, launch, prove."""

from __future__ import annotations

from pathlib import Path

from toposeat.errors import UnavailableError

__version__ = "0.1.0"


def _native_path(name: str) -> Path:
    """A file that the native build installed, e.g. `bin/toposeat-exec`.

    Raises:
        UnavailableError: the package was installed without it.
    """
    for folder in __path__:
        candidate = Path(folder) / "_native" / name
        if candidate.exists():
            return candidate.resolve()
    raise UnavailableError(
        f"this installation of toposeat has no {name}", hint="reinstall it: pip install ."
    )
