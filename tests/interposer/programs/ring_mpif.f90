! SPDX-License-Identifier: MIT OR Apache-2.0
! Every rank sends 100 doubles to its right neighbour ten times, then one persistent send, twice.
program ring

  implicit none
  include 'mpif.h'
  integer :: rank, ranks, left, right, i, ierr, status(MPI_STATUS_SIZE), request
  double precision :: sent(100), received(100)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  left = modulo(rank - 1, ranks)
  right = modulo(rank + 1, ranks)
  sent = rank
  do i = 1, 10
    call MPI_Sendrecv(sent, 100, MPI_DOUBLE_PRECISION, right, 1, received, 100, &
                      MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, status, ierr)
  end do
  call MPI_Send_init(sent, 50, MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, request, ierr)
  do i = 1, 2
    call MPI_Start(request, ierr)
    call MPI_Recv(received, 50, MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, status, ierr)
    call MPI_Wait(request, status, ierr)
  end do
  call MPI_Request_free(request, ierr)
  call MPI_Allreduce(MPI_IN_PLACE, sent, 100, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)
end program ring
