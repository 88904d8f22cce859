"""The constants of each ABI, against the mpi.h of every MPI on the machine."""

from pathlib import Path

import pytest

from tests.reorder.reordered import PROGRAMS
from tests.support.interposed import compile_c
from tests.support.mpi import ALL_MPI_NAMES
from tests.support.processes import ran

pytestmark = pytest.mark.each_abi

HEADER = Path(__file__).resolve().parents[2] / "reorder" / "src" / "abi.h"
NAMES = {"ompi": "OPENMPI", "mpich": "MPICH", "abi": "STANDARD"}


@pytest.mark.parametrize("mpi", ALL_MPI_NAMES, indirect=True)
def test_constants(mpi, build_dir):
    name = NAMES[mpi.abi]
    options = (f'-DABI_HEADER="{HEADER}"', f"-DOURS(name)={name}_##name", f"-D{name}_HANDLES")
    program = compile_c(mpi, PROGRAMS / "constants.c", build_dir, *options)
    done = ran([program], env=dict(mpi.env))
    assert (done.returncode, done.stdout) == (0, "")
