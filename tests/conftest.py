"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mpi import MPI_NAMES, MpiToolchain, find_mpi

_ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Recorded machines, traffic and benchmark instances beside the checkout."""
    shared = _ROOT.parent / "shared"
    if not (shared / "machines").is_dir():
        pytest.skip("no ../shared beside the checkout: recorded machines are not here")
    return shared


@pytest.fixture(scope="session", params=MPI_NAMES)
def mpi(request: pytest.FixtureRequest) -> MpiToolchain:
    """Every MPI on this machine in turn; the missing ones skip with the reason."""
    found = find_mpi(request.param)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def examples_dir() -> Path:
    """The project's example programs."""
    return _ROOT / "examples"
