/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See mpi.h. Sends are swallowed. A type's number ends with its size; other handles fail. */
#include <mpi.h>
#include <string.h>

#define EXPORT(name) __attribute__((weak, alias("P" #name)))

static int state; /* 1: initialised, 2: finalised */

int PMPI_Init(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  state = 1;
  return 0;
}

int PMPI_Finalize(void) {
  state = 2;
  return 0;
}

int PMPI_Initialized(int *flag) { return *flag = state > 0, 0; }
int PMPI_Finalized(int *flag) { return *flag = state > 1, 0; }
int PMPI_Query_thread(int *level) { return *level = MPI_THREAD_SINGLE, 0; }

int PMPI_Get_library_version(char *text, int *length) {
  strcpy(text, "Foreign 1.0");
  return *length = (int)strlen(text), 0;
}

static int check(MPI_Comm comm) { return comm == MPI_COMM_WORLD ? 0 : 5; }
int PMPI_Comm_rank(MPI_Comm comm, int *rank) { return *rank = 0, check(comm); }
int PMPI_Comm_size(MPI_Comm comm, int *size) { return *size = 1, check(comm); }
int PMPI_Comm_test_inter(MPI_Comm comm, int *flag) { return *flag = 0, check(comm); }
int PMPI_Comm_group(MPI_Comm comm, MPI_Group *group) {
  return *group = MPI_GROUP_WORLD, check(comm);
}
int PMPI_Comm_remote_group(MPI_Comm comm, MPI_Group *group) { return *group = 0, (int)comm; }
int PMPI_Group_rank(MPI_Group group, int *rank) { return *rank = 0, group != MPI_GROUP_WORLD; }
int PMPI_Group_size(MPI_Group group, int *size) { return *size = 1, group != MPI_GROUP_WORLD; }
int PMPI_Group_free(MPI_Group *group) { return *group = 0, 0; }
int PMPI_Group_incl(MPI_Group group, int n, const int *ranks, MPI_Group *made) {
  return *made = group, n != 1 || ranks[0] != 0;
}
int PMPI_Group_translate_ranks(MPI_Group one, int n, const int *from, MPI_Group other, int *to) {
  for (int i = 0; i < n; ++i)
    to[i] = from[i];
  return one != other;
}
int PMPI_Win_get_group(MPI_Win win, MPI_Group *group) { return *group = 0, (int)win; }
int PMPI_Type_size(MPI_Datatype type, int *size) { return *size = (int)(type % 10), 0; }

int PMPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return buffer == NULL || count < 0 || type < 90 || to != 0 || tag < 0 || check(comm);
}

int PMPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm) {
  return from != MPI_IN_PLACE || to == NULL || count < 0 || type < 90 || op < 0 || check(comm);
}

int MPI_Init(int *argc, char ***argv) EXPORT(MPI_Init);
int MPI_Finalize(void) EXPORT(MPI_Finalize);
int MPI_Send(const void *, int, MPI_Datatype, int, int, MPI_Comm) EXPORT(MPI_Send);
int MPI_Allreduce(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm) EXPORT(MPI_Allreduce);
