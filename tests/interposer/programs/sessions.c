/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sessions WHAT: MPI without MPI_Init, or beside it. Every ring sends to the next rank.
 *   only      one session: 10 bytes
 *   again     another one after it: 20 bytes
 *   two       two sessions at once: 10 bytes by the first, 20 by the second, the first is closed,
 *             30 by the second
 *   beside    MPI_Init: 10 bytes; a session: 20; MPI_Finalize; the session again: 30
 *   inter     an inter-communicator of the lower and the upper half: 40 bytes to the rank opposite
 *   kill      as `only`, then SIGKILL on rank 0 before the session ends
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char buffer[256];

static MPI_Session open_session(void) {
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  return session;
}

static MPI_Comm world_of(MPI_Session session, const char *tag) {
  MPI_Group group;
  MPI_Comm comm;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Group_free(&group);
  return comm;
}

static void ring(MPI_Comm comm, int bytes) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Sendrecv(buffer, bytes, MPI_BYTE, (rank + 1) % size, 0, buffer + 128, bytes, MPI_BYTE,
               (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
}

static void one_session(int bytes, int die) {
  MPI_Session session = open_session();
  MPI_Comm comm = world_of(session, "one");
  int rank;
  ring(comm, bytes);
  MPI_Barrier(comm);
  MPI_Comm_rank(comm, &rank);
  if (die && rank == 0)
    raise(SIGKILL);
  if (die)
    pause();
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
}

static void two_sessions(void) {
  MPI_Session first = open_session(), second = open_session();
  MPI_Comm a = world_of(first, "a"), b = world_of(second, "b"), c;
  ring(a, 10);
  ring(b, 20);
  MPI_Comm_free(&a);
  MPI_Session_finalize(&first);
  c = world_of(second, "c");
  ring(c, 30);
  MPI_Comm_free(&b);
  MPI_Comm_free(&c);
  MPI_Session_finalize(&second);
}

static void beside(int *argc, char ***argv) {
  MPI_Init(argc, argv);
  ring(MPI_COMM_WORLD, 10);
  MPI_Session session = open_session();
  MPI_Comm comm = world_of(session, "beside");
  ring(comm, 20);
  MPI_Finalize();
  ring(comm, 30);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
}

static void inter(void) {
  MPI_Session session = open_session();
  MPI_Group world, halves[2];
  MPI_Comm across;
  int rank, size;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
  MPI_Group_rank(world, &rank);
  MPI_Group_size(world, &size);
  int ranges[2][3] = {{0, size / 2 - 1, 1}, {size / 2, size - 1, 1}};
  MPI_Group_range_incl(world, 1, &ranges[0], &halves[0]);
  MPI_Group_range_incl(world, 1, &ranges[1], &halves[1]);
  int own = rank >= size / 2;
  MPI_Intercomm_create_from_groups(halves[own], 0, halves[1 - own], 0, "across", MPI_INFO_NULL,
                                   MPI_ERRORS_ARE_FATAL, &across);
  int opposite = rank % (size / 2);
  MPI_Sendrecv(buffer, 40, MPI_BYTE, opposite, 0, buffer + 128, 40, MPI_BYTE, opposite, 0, across,
               MPI_STATUS_IGNORE);
  MPI_Comm_free(&across);
  MPI_Group_free(&halves[0]);
  MPI_Group_free(&halves[1]);
  MPI_Group_free(&world);
  MPI_Session_finalize(&session);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "only") == 0) {
    one_session(10, 0);
  } else if (strcmp(what, "again") == 0) {
    one_session(10, 0);
    one_session(20, 0);
  } else if (strcmp(what, "two") == 0) {
    two_sessions();
  } else if (strcmp(what, "beside") == 0) {
    beside(&argc, &argv);
  } else if (strcmp(what, "inter") == 0) {
    inter();
  } else if (strcmp(what, "kill") == 0) {
    one_session(10, 1);
  }
  return 0;
}
