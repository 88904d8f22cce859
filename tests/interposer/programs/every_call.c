/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Uses every kind of call once or a few times and writes what it owes to whom: for each of the
 * three kinds (point-to-point, collective, one-sided) a size x size matrix of bytes, then of
 * messages, int64, row = sender. Run with 4 ranks or more. Ends with code 1 if MPI delivered wrong
 * data.
 */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum kind { P2P, COLLECTIVE, ONE_SIDED, KINDS };

static int rank, size;
static long long *truth;
static char buffer[1 << 16], other[1 << 16];

static long long *cell(enum kind kind, int messages, int from, int to) {
  return truth +
         (((size_t)kind * 2 + (size_t)messages) * (size_t)size + (size_t)from) * (size_t)size +
         (size_t)to;
}

/* Counts at the sender; a get is noted by the origin in the target's row, so adds are atomic. */
static void owe(enum kind kind, int from, int to, long long bytes) {
  __atomic_fetch_add(cell(kind, 0, from, to), bytes, __ATOMIC_RELAXED);
  __atomic_fetch_add(cell(kind, 1, from, to), 1, __ATOMIC_RELAXED);
}

static void open_truth(const char *path) {
  size_t bytes = sizeof *truth * KINDS * 2 * (size_t)size * (size_t)size;
  int file = open(path, O_RDWR | O_CREAT, 0644);
  if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
    MPI_Abort(MPI_COMM_WORLD, 2);
  truth = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
}

static void send_modes(MPI_Comm comm, const int *world_of) {
  int me, members;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &members);
  int right = (me + 1) % members, left = (me + members - 1) % members;
  int to = world_of[right];
  MPI_Request in, out;
  MPI_Status status;
  static char space[1 << 17];
  MPI_Buffer_attach(space, sizeof space);
  for (int mode = 0; mode < 8; ++mode) {
    int n = 100 + mode;
    MPI_Irecv(other, 1000, MPI_INT, left, mode, comm, &in);
    MPI_Barrier(comm); /* the receive is posted: ready mode is allowed */
    out = MPI_REQUEST_NULL;
    switch (mode) {
    case 0:
      MPI_Send(buffer, n, MPI_INT, right, mode, comm);
      break;
    case 1:
      MPI_Bsend(buffer, n, MPI_INT, right, mode, comm);
      break;
    case 2:
      MPI_Ssend(buffer, n, MPI_INT, right, mode, comm);
      break;
    case 3:
      MPI_Rsend(buffer, n, MPI_INT, right, mode, comm);
      break;
    case 4:
      MPI_Isend(buffer, n, MPI_INT, right, mode, comm, &out);
      break;
    case 5:
      MPI_Ibsend(buffer, n, MPI_INT, right, mode, comm, &out);
      break;
    case 6:
      MPI_Issend(buffer, n, MPI_INT, right, mode, comm, &out);
      break;
    default:
      MPI_Irsend(buffer, n, MPI_INT, right, mode, comm, &out);
      break;
    }
    owe(P2P, rank, to, 4 * n);
    MPI_Wait(&in, &status);
    MPI_Wait(&out, &status);
  }
  void *detached;
  int detached_size;
  MPI_Buffer_detach(&detached, &detached_size);
  MPI_Sendrecv(buffer, 7, MPI_DOUBLE, right, 9, other, 7, MPI_DOUBLE, left, 9, comm, &status);
  owe(P2P, rank, to, 56);
  MPI_Sendrecv_replace(buffer, 3, MPI_SHORT, right, 10, left, 10, comm, &status);
  owe(P2P, rank, to, 6);
  MPI_Send(buffer, 5, MPI_INT, MPI_PROC_NULL, 0, comm); /* no message */
}

static void persistent(void) {
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Request requests[3];
  MPI_Status statuses[3];
  static char space[1 << 14];
  MPI_Buffer_attach(space, sizeof space);
  for (int round = 0; round < 3; ++round) { /* freed and made again: handles come back */
    int n = 10 * (round + 1);
    MPI_Recv_init(other, 1000, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(buffer, n, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Bsend_init(buffer, n + 1, MPI_BYTE, rank, 2, MPI_COMM_WORLD, &requests[2]);
    for (int i = 0; i < 4; ++i) {
      MPI_Startall(2, requests);
      owe(P2P, rank, right, n);
      MPI_Waitall(2, requests, statuses);
    }
    MPI_Start(&requests[2]);
    owe(P2P, rank, rank, n + 1);
    MPI_Recv(other, 1000, MPI_BYTE, rank, 2, MPI_COMM_WORLD, &statuses[0]);
    MPI_Wait(&requests[2], &statuses[0]);
    for (int i = 0; i < 3; ++i)
      MPI_Request_free(&requests[i]);
  }
  void *detached;
  int detached_size;
  MPI_Buffer_detach(&detached, &detached_size);
}

/* Communicators with other members come and go, so that a stale handle would show. */
static void communicators(void) {
  int *world_of = malloc(sizeof *world_of * (size_t)size);
  for (int i = 0; i < size; ++i)
    world_of[i] = size - 1 - i;
  MPI_Comm reversed;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
  send_modes(reversed, world_of);
  MPI_Comm_free(&reversed);
  for (int round = 0; round < 6; ++round) {
    MPI_Comm part;
    int modulus = 2 + round % 2; /* ranks with the same remainder */
    MPI_Comm_split(MPI_COMM_WORLD, rank % modulus, round % 4 < 2 ? rank : -rank, &part);
    int me, members;
    MPI_Comm_rank(part, &me);
    MPI_Comm_size(part, &members);
    int next = (me + 1) % members;
    int lowest = rank % modulus;
    int position = round % 4 < 2 ? next : members - 1 - next;
    MPI_Request request;
    MPI_Isend(buffer, 11 + round, MPI_BYTE, next, 0, part, &request);
    owe(P2P, rank, lowest + modulus * position, 11 + round);
    MPI_Recv(other, 100, MPI_BYTE, (me + members - 1) % members, 0, part, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&part);
  }
  free(world_of);
}

/* Odd and even ranks as two groups that talk across. */
static void inter_communicator(void) {
  MPI_Comm half, across;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &across);
  int me, remote;
  MPI_Comm_rank(across, &me);
  MPI_Comm_remote_size(across, &remote);
  if (me < remote) {
    MPI_Sendrecv(buffer, 13, MPI_BYTE, me, 6, other, 13, MPI_BYTE, me, 6, across,
                 MPI_STATUS_IGNORE);
    owe(P2P, rank, 2 * me + 1 - rank % 2, 13);
  }
  MPI_Comm_free(&across);
  MPI_Comm_free(&half);
}

static void vector_collectives(void) {
  int *counts = calloc((size_t)size * 4, sizeof *counts);
  int *in = counts + size, *displs = counts + 2 * size, *in_displs = counts + 3 * size;
  for (int p = 0; p < size; ++p) {
    counts[p] = (rank + 2 * p) % 5; /* some are zero */
    in[p] = (p + 2 * rank) % 5;
    displs[p] = 8 * p;
    in_displs[p] = 8 * p;
  }
  MPI_Alltoallv(buffer, counts, displs, MPI_INT, other, in, in_displs, MPI_INT, MPI_COMM_WORLD);
  MPI_Request request;
  MPI_Ialltoallv(buffer, counts, displs, MPI_INT, other, in, in_displs, MPI_INT, MPI_COMM_WORLD,
                 &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int p = 0; p < size; ++p)
    for (int twice = 0; twice < 2; ++twice)
      if (p != rank && counts[p] > 0)
        owe(COLLECTIVE, rank, p, 4 * counts[p]);
  for (int p = 0; p < size; ++p)
    counts[p] = p + 1;
  MPI_Scatterv(buffer, counts, displs, MPI_BYTE, other, rank + 1, MPI_BYTE, 1, MPI_COMM_WORLD);
  if (rank == 1)
    for (int p = 0; p < size; ++p)
      if (p != 1)
        owe(COLLECTIVE, 1, p, p + 1);
  free(counts);
}

static void neighbours(void) {
  MPI_Comm ring, graph;
  int periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Neighbor_alltoall(buffer, 6, MPI_INT, other, 6, MPI_INT, ring);
  MPI_Request request;
  MPI_Ineighbor_allgather(buffer, 2, MPI_INT, other, 2, MPI_INT, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  owe(COLLECTIVE, rank, left, 24);
  owe(COLLECTIVE, rank, right, 24);
  owe(COLLECTIVE, rank, left, 8);
  owe(COLLECTIVE, rank, right, 8);
  /* Directed: everyone to the rank two to the right. */
  int to = (rank + 2) % size, from = (rank + size - 2) % size, count = 9, zero = 0;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &graph);
  MPI_Neighbor_alltoallv(buffer, &count, &zero, MPI_BYTE, other, &count, &zero, MPI_BYTE, graph);
  owe(COLLECTIVE, rank, to, 9);
  MPI_Comm_free(&graph);
  MPI_Comm_free(&ring);
}

static void one_sided(void) {
  MPI_Win win;
  long *memory;
  int to = (rank + 1) % size, from = (rank + 2) % size;
  MPI_Win_allocate(64 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                   &win);
  memset(memory, 0, 64 * sizeof *memory);
  MPI_Win_fence(0, win);
  MPI_Put(buffer, 4, MPI_LONG, to, 0, 4, MPI_LONG, win);
  owe(ONE_SIDED, rank, to, 32);
  MPI_Win_fence(0, win);
  MPI_Get(other, 5, MPI_LONG, from, 8, 5, MPI_LONG, win);
  owe(ONE_SIDED, from, rank, 40);
  MPI_Win_fence(0, win);
  long one = 1, before = 0;
  MPI_Accumulate(&one, 1, MPI_LONG, to, 20, 1, MPI_LONG, MPI_SUM, win);
  owe(ONE_SIDED, rank, to, 8);
  MPI_Win_fence(0, win);
  MPI_Win_lock_all(0, win);
  MPI_Fetch_and_op(&one, &before, MPI_LONG, to, 30, MPI_SUM, win);
  owe(ONE_SIDED, rank, to, 8);
  owe(ONE_SIDED, to, rank, 8);
  MPI_Win_flush(to, win);
  MPI_Request request;
  MPI_Rput(buffer, 3, MPI_BYTE, to, 40, 3, MPI_BYTE, win, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  owe(ONE_SIDED, rank, to, 3);
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
}

/* Root 1 on the reversed communicator is world rank size - 2. */
static void plain_collectives(void) {
  int *all = calloc((size_t)size * 8, sizeof *all);
  int value[8] = {0};
  MPI_Comm reversed;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  MPI_Request request;
  for (int i = 0; i < 3; ++i)
    MPI_Bcast(value, 8, MPI_INT, 1, reversed);
  MPI_Ibcast(value, 8, MPI_INT, 1, reversed, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Allreduce(MPI_IN_PLACE, value, 2, MPI_INT, MPI_SUM, reversed);
  MPI_Gather(value, 2, MPI_INT, all, 2, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Scatter(all, 2, MPI_INT, value, 2, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Alltoall(all, 1, MPI_INT, all + 4 * size, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Reduce(value, all, 2, MPI_INT, MPI_SUM, 2, MPI_COMM_WORLD);
  MPI_Scan(value, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_free(&reversed);
  free(all);
}

#if MPI_VERSION >= 4
static void large_and_persistent(void) {
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Request request;
  MPI_Status status;
  MPI_Isend_c(buffer, 17, MPI_BYTE, right, 3, MPI_COMM_WORLD, &request);
  MPI_Recv_c(other, 17, MPI_BYTE, left, 3, MPI_COMM_WORLD, &status);
  MPI_Wait(&request, &status);
  owe(P2P, rank, right, 17);
  MPI_Isendrecv(buffer, 19, MPI_BYTE, right, 4, other, 19, MPI_BYTE, left, 4, MPI_COMM_WORLD,
                &request);
  MPI_Wait(&request, &status);
  owe(P2P, rank, right, 19);
  int value = 1, sum;
  MPI_Exscan(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Bcast_init(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (int i = 0; i < 5; ++i) {
    MPI_Start(&request);
    MPI_Wait(&request, &status);
  }
  MPI_Request_free(&request);
}
#endif

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  open_truth(argv[1]);
  int *identity = malloc(sizeof *identity * (size_t)size);
  for (int i = 0; i < size; ++i)
    identity[i] = i;
  send_modes(MPI_COMM_WORLD, identity);
  persistent();
  communicators();
  inter_communicator();
  vector_collectives();
  neighbours();
  one_sided();
  plain_collectives();
#if MPI_VERSION >= 4
  large_and_persistent();
#endif
  free(identity);
  MPI_Finalize();
  return 0;
}
