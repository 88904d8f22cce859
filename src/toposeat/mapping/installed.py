"""Check that Scotch, the only solver outside the package, is installed."""

from __future__ import annotations

from toposeat import _core
from toposeat.errors import UnavailableError


def check_installed(solver: str) -> None:
    """Refuse Scotch where its library is missing."""
    if solver == "scotch" and not _core.scotch_available():
        raise UnavailableError(
            "the Scotch library (libscotch) was not found",
            hint="install it (Debian, Ubuntu: apt install libscotch-dev) or use --solver auto",
        )
