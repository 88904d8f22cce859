! Every rank tells of the edge from its role to the other of its pair, by this binding.
subroutine pairs_{binding}
  {use}
  implicit none
  {include}
  {handle} :: comm
  integer :: rank, ranks, ierr, peer(1), weight(1), one(1), own(1), index(6), edges(6), i
  integer :: cart_rank, graph_rank, dist_rank, adjacent_rank, mapped
  integer :: ins, outs, sources(1), targets(1), weights_in(1), weights_out(1)
  logical :: weighted, periods(2)
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
  print '(a, 5i4)', '{binding}', rank, cart_rank, graph_rank, dist_rank, adjacent_rank
end subroutine pairs_{binding}
