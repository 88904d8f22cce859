/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* edge_calls WHAT: calls at the edge of what MPI allows. Prints what MPI answers on rank 0. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, size;

/* A type may be MPI_DATATYPE_NULL beside a zero count, where the MPI allows that. */
static void null_types(void) {
  MPI_Comm line;
  int periods[1] = {1}, in[2] = {-1, -1}, right[2] = {0, 1}, left[2] = {1, 0};
  MPI_Aint none[2] = {0, 0};
  MPI_Datatype to_right[2] = {MPI_DATATYPE_NULL, MPI_INT};
  MPI_Datatype from_left[2] = {MPI_INT, MPI_DATATYPE_NULL};
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, periods, 0, &line);
  int code = MPI_Neighbor_alltoallw(&rank, right, none, to_right, in, left, none, from_left, line);
  if (rank == 0)
    printf("neighbor_alltoallw %d, received %d\n", code, in[0]);
  MPI_Comm_free(&line);
}

static void null_pointers(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int request = MPI_Request_free(NULL), comm = MPI_Comm_free(NULL);
  if (rank == 0)
    printf("refused: %d %d\n", request != MPI_SUCCESS, comm != MPI_SUCCESS);
}

static void bad_handles(void) {
  int value = 0;
  MPI_Request none = MPI_REQUEST_NULL;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int codes[] = {MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD),
                 MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL),
                 MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD),
                 MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD),
                 MPI_Barrier(MPI_COMM_NULL),
                 MPI_Start(&none),
                 MPI_Startall(1, &none)};
  for (size_t i = 0; rank == 0 && i < sizeof codes / sizeof *codes; ++i)
    printf("refused: %d\n", codes[i] != MPI_SUCCESS);
}

/* A forked process that goes on calling MPI, as it must not, is no part of the rank. */
/* Both ask rank 0 for something; only the sum sends it anything. */
static void no_op(void) {
  long *window, mine[3] = {0}, theirs[3];
  MPI_Win win;
  MPI_Win_allocate(sizeof mine, sizeof *mine, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
  MPI_Win_fence(0, win);
  if (rank == 1) {
    MPI_Fetch_and_op(mine, theirs, MPI_LONG, 0, 0, MPI_NO_OP, win);
    MPI_Get_accumulate(mine, 3, MPI_LONG, theirs, 3, MPI_LONG, 0, 0, 3, MPI_LONG, MPI_NO_OP, win);
    MPI_Get_accumulate(mine, 2, MPI_LONG, theirs, 2, MPI_LONG, 0, 0, 2, MPI_LONG, MPI_SUM, win);
  }
  MPI_Win_fence(0, win);
  MPI_Win_free(&win);
}

static void forked(void) {
  int data[100] = {0}, state = 0;
  MPI_Sendrecv_replace(data, 100, MPI_INT, (rank + 1) % size, 0, (rank + size - 1) % size, 0,
                       MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    MPI_Request request;
    MPI_Isend(data, 3, MPI_INT, 0, 99, MPI_COMM_SELF, &request);
    _exit(0);
  }
  waitpid(child, &state, 0);
  if (rank == 0)
    printf("child %d\n", state);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(what, "null-types") == 0)
    null_types();
  else if (strcmp(what, "null-pointers") == 0)
    null_pointers();
  else if (strcmp(what, "bad-handles") == 0)
    bad_handles();
  else if (strcmp(what, "no-op") == 0)
    no_op();
  else if (strcmp(what, "fork") == 0)
    forked();
  MPI_Finalize();
  if (rank == 0)
    printf("done\n");
  return 0;
}
