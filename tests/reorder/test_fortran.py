"""Fortran's three bindings reorder as C does, with Fortran's own constants for weights."""

import pytest

from tests.reorder.reordered import PROGRAMS, run_reordered
from tests.support.interposed import compile_c, only_one

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

NODES = (0, 1, 2, 0, 1, 2)

_BINDINGS = {
    "mpif": {"use": "", "include": "include 'mpif.h'", "handle": "integer"},
    "mpi": {"use": "use mpi", "include": "", "handle": "integer"},
    "mpi_f08": {"use": "use mpi_f08", "include": "", "handle": "type(MPI_Comm)"},
}


def program_text():
    """One job for all bindings."""
    each = (PROGRAMS / "pairs.f90").read_text()
    calls = [f"call pairs_{binding}" for binding in _BINDINGS]
    main = ["program all", "integer :: ierr", "call MPI_Init(ierr)", *calls]
    parts = [each.format(binding=name, **words) for name, words in _BINDINGS.items()]
    return "\n".join([*parts, *main, "call MPI_Finalize(ierr)", "end program", ""])


@pytest.mark.parametrize("mpi", ["debian-openmpi", "debian-mpich"], indirect=True)
def test_fortran(mpi, build_dir):
    if mpi.fortran is None:
        pytest.skip(f"{mpi.name} has no mpifort")
    source = build_dir / "pairs.f90"
    with only_one(source):
        source.write_text(program_text())
    done = run_reordered(mpi, NODES, [compile_c(mpi, source, build_dir)])
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == len(NODES) * len(_BINDINGS)
    for binding in _BINDINGS:
        rows = sorted([int(word) for word in words] for name, *words in lines if name == binding)
        assert len(rows) == len(NODES)
        for column in range(1, 5):
            node_of_role = {row[column]: NODES[row[0]] for row in rows}
            assert all(node_of_role[role] == node_of_role[role ^ 1] for role in node_of_role)
