"""Fortran's three bindings reorder as C does, with Fortran's own constants for weights."""

import pytest

from tests.reorder.reordered import run_reordered
from tests.support.interposed import compile_c, only_one

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

NODES = (0, 1, 2, 0, 1, 2)

# Every rank tells of the edge from its role to the next one but two, around: pairs of opposites.
_PROGRAM = """
program pairs
  {use}
  implicit none
  {include}
  {handle} :: comm
  integer :: rank, ranks, ierr, peer(1), weight(1), one(1), own(1), index(6), edges(6), i
  integer :: cart_rank, graph_rank, dist_rank, adjacent_rank, mapped
  integer :: ins, outs, sources(1), targets(1), weights_in(1), weights_out(1)
  logical :: weighted, periods(2)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  peer = ieor(rank, 1)
  weight = 10 + peer
  one = 1
  own = rank
  do i = 1, 6
    index(i) = i
    edges(i) = ieor(i - 1, 1)
  end do
  periods = .false.
  call MPI_Cart_map(MPI_COMM_WORLD, 2, (/3, 2/), periods, mapped, ierr)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, (/3, 2/), periods, .true., comm, ierr)
  call MPI_Comm_rank(comm, cart_rank, ierr)
  if (cart_rank /= mapped) call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
  call MPI_Comm_free(comm, ierr)
  call MPI_Graph_create(MPI_COMM_WORLD, 6, index, edges, .true., comm, ierr)
  call MPI_Comm_rank(comm, graph_rank, ierr)
  call MPI_Comm_free(comm, ierr)
  call MPI_Dist_graph_create(MPI_COMM_WORLD, 1, own, one, peer, MPI_UNWEIGHTED, &
                             MPI_INFO_NULL, .true., comm, ierr)
  call MPI_Comm_rank(comm, dist_rank, ierr)
  call MPI_Dist_graph_neighbors_count(comm, ins, outs, weighted, ierr)
  if (ins /= 1 .or. outs /= 1 .or. weighted) call MPI_Abort(MPI_COMM_WORLD, 4, ierr)
  call MPI_Comm_free(comm, ierr)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, peer, weight, 1, peer, weight, &
                                      MPI_INFO_NULL, .true., comm, ierr)
  call MPI_Comm_rank(comm, adjacent_rank, ierr)
  call MPI_Dist_graph_neighbors(comm, 1, sources, weights_in, 1, targets, weights_out, ierr)
  if (sources(1) /= ieor(adjacent_rank, 1) .or. weights_in(1) /= 10 + sources(1) .or. &
      targets(1) /= sources(1) .or. weights_out(1) /= weights_in(1)) &
    call MPI_Abort(MPI_COMM_WORLD, 5, ierr)
  call MPI_Comm_free(comm, ierr)
  print '(5i4)', rank, cart_rank, graph_rank, dist_rank, adjacent_rank
  call MPI_Finalize(ierr)
end program pairs
"""
_BINDINGS = {
    "mpif": {"use": "", "include": "include 'mpif.h'", "handle": "integer"},
    "mpi": {"use": "use mpi", "include": "", "handle": "integer"},
    "mpi_f08": {"use": "use mpi_f08", "include": "", "handle": "type(MPI_Comm)"},
}


@pytest.mark.parametrize("mpi", ["debian-openmpi", "debian-mpich"], indirect=True)
@pytest.mark.parametrize("binding", list(_BINDINGS))
def test_fortran(mpi, binding, build_dir):
    if mpi.fortran is None:
        pytest.skip(f"{mpi.name} has no mpifort")
    source = build_dir / f"pairs_{binding}.f90"
    with only_one(source):
        source.write_text(_PROGRAM.format(**_BINDINGS[binding]))
    done = run_reordered(mpi, NODES, [compile_c(mpi, source, build_dir)])
    assert done.returncode == 0, done.stdout + done.stderr
    rows = sorted([int(word) for word in line.split()] for line in done.stdout.splitlines())
    assert len(rows) == len(NODES)
    for column in range(1, 5):
        node_of_role = {row[column]: NODES[row[0]] for row in rows}
        assert all(node_of_role[role] == node_of_role[role ^ 1] for role in node_of_role)
