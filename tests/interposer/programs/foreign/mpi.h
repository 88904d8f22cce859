/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A very small MPI of one process, with an ABI that no real MPI has. For tests. */
#ifndef FOREIGN_MPI_H
#define FOREIGN_MPI_H
#include <stdint.h>

typedef long MPI_Comm, MPI_Datatype, MPI_Request, MPI_Win, MPI_Group, MPI_Op, MPI_Info;
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count;
typedef struct {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
} MPI_Status;

#define MPI_SUCCESS 0
#define MPI_COMM_NULL 70L
#define MPI_INFO_NULL 71L
#define MPI_COMM_WORLD 71L
#define MPI_GROUP_WORLD 81L
#define MPI_INT 94L
#define MPI_DOUBLE 98L
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_IN_PLACE ((void *)-77)
enum {
  MPI_PROC_NULL = -7,
  MPI_ROOT = -8,
  MPI_UNDEFINED = -999,
  MPI_CART = 31,
  MPI_GRAPH = 32,
  MPI_DIST_GRAPH = 33,
  MPI_THREAD_SINGLE = 10,
  MPI_THREAD_MULTIPLE = 13,
  MPI_ERR_UNSUPPORTED_OPERATION = 300,
  MPI_MAX_OBJECT_NAME = 40,
  MPI_MAX_LIBRARY_VERSION_STRING = 100
};

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm);
#endif
