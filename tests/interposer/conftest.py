"""Fixtures of the interposer tests."""

import pytest

from tests.support.mpi import ALL_MPI_NAMES, find_mpi


@pytest.fixture(scope="session", params=ALL_MPI_NAMES)
def mpi(request):
    """Every MPI on this machine in turn, also those of TOPOSEAT_TEST_MPIS and by standard ABI."""
    found = find_mpi(request.param)
    if isinstance(found, str):
        pytest.skip(found)
    return found
