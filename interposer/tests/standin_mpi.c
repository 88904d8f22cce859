/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libmpi.so.40 for the native tests: see standin_mpi.h. Nothing is recorded or communicated. */
#include "standin_mpi.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct standin_comm {
  int reserved;
};
struct standin_type {
  int size;
};
struct standin_request {
  int persistent;
};
struct standin_group {
  int size;
};
struct standin_win {
  int reserved;
};
struct standin_session {
  int reserved;
};

struct standin_comm ompi_mpi_comm_world;
struct standin_comm ompi_mpi_comm_null;
struct standin_request ompi_request_null;
struct standin_type standin_double = {8};
struct standin_win standin_window;

static struct standin_group world_group = {STANDIN_SIZE};
static int own_rank(void) { return getenv("STANDIN_FIRST") != NULL ? 0 : STANDIN_RANK; }
static atomic_int initialised;
static atomic_int finalised;

/* What the interposer looks up, and what programs call unless the interposer is in front. */
#define BOTH(type, name, parameters)                                                               \
  type P##name parameters;                                                                         \
  type name parameters __attribute__((weak, alias("P" #name)));                                    \
  type P##name parameters

BOTH(int, MPI_Init, (int *argc, char ***argv)) {
  (void)argc;
  (void)argv;
  atomic_store(&initialised, 1);
  return 0;
}
BOTH(int, MPI_Init_thread, (int *argc, char ***argv, int required, int *provided)) {
  *provided = required;
  return PMPI_Init(argc, argv);
}
BOTH(int, MPI_Finalize, (void)) {
  atomic_store(&finalised, 1);
  return 0;
}
BOTH(int, MPI_Initialized, (int *flag)) {
  *flag = atomic_load(&initialised);
  return 0;
}
BOTH(int, MPI_Finalized, (int *flag)) {
  *flag = atomic_load(&finalised);
  return 0;
}
/* As in Intel MPI, MPI_Initialized is true from the first session on. */
BOTH(int, MPI_Session_init, (void *info, void *errhandler, MPI_Session *session)) {
  (void)info;
  (void)errhandler;
  *session = malloc(sizeof **session);
  atomic_store(&initialised, 1);
  return *session == NULL;
}
BOTH(int, MPI_Session_finalize, (MPI_Session * session)) {
  free(*session);
  *session = NULL;
  return 0;
}
BOTH(int, MPI_Group_from_session_pset, (MPI_Session session, const char *name, MPI_Group *group)) {
  if (session == NULL || strcmp(name, "mpi://WORLD") != 0)
    return 1;
  *group = &world_group;
  return 0;
}
BOTH(int, MPI_Query_thread, (int *level)) {
  *level = MPI_THREAD_MULTIPLE;
  return 0;
}
BOTH(int, MPI_Get_library_version, (char *text, int *length)) {
  strcpy(text, "stand-in MPI");
  *length = (int)strlen(text);
  return 0;
}
BOTH(int, MPI_Abort, (MPI_Comm comm, int code)) {
  (void)comm;
  _Exit(code);
}
BOTH(int, MPI_Pcontrol, (int level, ...)) { return level * 0; }
BOTH(int, MPI_Type_size, (MPI_Datatype type, int *size)) {
  *size = type->size;
  return 0;
}

BOTH(int, MPI_Comm_rank, (MPI_Comm comm, int *rank)) {
  (void)comm;
  *rank = own_rank();
  return 0;
}
BOTH(int, MPI_Comm_size, (MPI_Comm comm, int *size)) {
  (void)comm;
  *size = STANDIN_SIZE;
  return 0;
}
BOTH(int, MPI_Comm_test_inter, (MPI_Comm comm, int *flag)) {
  (void)comm;
  *flag = 0;
  return 0;
}
BOTH(int, MPI_Comm_group, (MPI_Comm comm, MPI_Group *group)) {
  (void)comm;
  *group = &world_group;
  return 0;
}
BOTH(int, MPI_Comm_remote_group, (MPI_Comm comm, MPI_Group *group)) {
  return PMPI_Comm_group(comm, group);
}
BOTH(int, MPI_Win_get_group, (MPI_Win win, MPI_Group *group)) {
  (void)win;
  return PMPI_Comm_group(NULL, group);
}
BOTH(int, MPI_Group_size, (MPI_Group group, int *size)) {
  *size = group->size;
  return 0;
}
BOTH(int, MPI_Group_rank, (MPI_Group group, int *rank)) {
  (void)group;
  *rank = own_rank();
  return 0;
}
BOTH(int, MPI_Group_free, (MPI_Group * group)) {
  *group = NULL;
  return 0;
}
BOTH(int, MPI_Group_translate_ranks,
     (MPI_Group from, int count, const int *ranks, MPI_Group to, int *translated)) {
  (void)from;
  (void)to;
  memcpy(translated, ranks, sizeof *ranks * (size_t)count);
  return 0;
}
/* Freed handles come back at once, as those of real MPIs do. */
BOTH(int, MPI_Comm_dup, (MPI_Comm comm, MPI_Comm *made)) {
  (void)comm;
  *made = calloc(1, sizeof **made);
  return *made == NULL;
}
BOTH(int, MPI_Comm_free, (MPI_Comm * comm)) {
  free(*comm);
  *comm = NULL;
  return 0;
}

BOTH(int, MPI_Send,
     (const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)) {
  (void)buffer;
  (void)type;
  (void)to;
  (void)tag;
  (void)comm;
  return count < 0;
}
BOTH(int, MPI_Recv,
     (void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, void *status)) {
  (void)status;
  return PMPI_Send(buffer, count, type, from, tag, comm);
}
static int new_request(MPI_Request *request, int persistent) {
  *request = malloc(sizeof **request);
  if (*request == NULL)
    return 1;
  (*request)->persistent = persistent;
  return 0;
}
BOTH(int, MPI_Isend,
     (const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
      MPI_Request *request)) {
  return PMPI_Send(buffer, count, type, to, tag, comm) != 0 || new_request(request, 0);
}
BOTH(int, MPI_Irecv,
     (void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
      MPI_Request *request)) {
  return PMPI_Isend(buffer, count, type, from, tag, comm, request);
}
BOTH(int, MPI_Send_init,
     (const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
      MPI_Request *request)) {
  return PMPI_Send(buffer, count, type, to, tag, comm) != 0 || new_request(request, 1);
}
BOTH(int, MPI_Start, (MPI_Request * request)) { return !(*request)->persistent; }
BOTH(int, MPI_Request_free, (MPI_Request * request)) {
  free(*request);
  *request = &ompi_request_null;
  return 0;
}
BOTH(int, MPI_Wait, (MPI_Request * request, void *status)) {
  (void)status;
  return *request == &ompi_request_null || (*request)->persistent ? 0 : PMPI_Request_free(request);
}
BOTH(int, MPI_Waitall, (int count, MPI_Request requests[], void *statuses)) {
  for (int i = 0; i < count; ++i)
    if (PMPI_Wait(&requests[i], statuses) != 0)
      return 1;
  return 0;
}
BOTH(int, MPI_File_iwrite,
     (void *file, const void *buffer, int count, MPI_Datatype type, MPI_Request *request)) {
  (void)file;
  return PMPI_Isend(buffer, count, type, 0, 0, NULL, request);
}
BOTH(int, MPI_Put,
     (const void *origin, int count, MPI_Datatype type, int to, long displacement, int target_count,
      MPI_Datatype target_type, MPI_Win win)) {
  (void)displacement;
  (void)target_count;
  (void)target_type;
  (void)win;
  return PMPI_Send(origin, count, type, to, 0, NULL);
}
BOTH(int, MPI_Allreduce,
     (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)) {
  (void)op;
  return PMPI_Send(from, count, type, 0, 0, comm) != 0 || to == NULL;
}
BOTH(int, MPI_Barrier, (MPI_Comm comm)) { return comm == NULL; }
