! SPDX-License-Identifier: MIT OR Apache-2.0
! 1-D halo exchange with the mpi_f08 bindings: every rank sends `points` doubles to its right neighbour
! and half as many to its left one, periodically, once per iteration.
program halo_f08
  use mpi_f08
  implicit none

  integer, parameter :: points = 4096, iterations = 10
  integer :: rank, ranks, left, right, i
  double precision :: to_right(points), from_left(points)
  double precision :: to_left(points / 2), from_right(points / 2), norm, total
  type(MPI_Request) :: requests(4)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  left = modulo(rank - 1, ranks)
  right = modulo(rank + 1, ranks)
  to_right = rank
  to_left = -rank

  do i = 1, iterations
    call MPI_Irecv(from_left, points, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Irecv(from_right, points / 2, MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, requests(2))
    call MPI_Isend(to_right, points, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, requests(3))
    call MPI_Isend(to_left, points / 2, MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, requests(4))
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE)
  end do

  norm = sum(from_left) + sum(from_right)
  call MPI_Allreduce(norm, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) print '(a,i0,a,f0.1)', 'halo_f08: ', iterations, ' iterations, sum ', total
  call MPI_Finalize()
end program halo_f08
