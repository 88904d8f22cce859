/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "standin_world.h"

#include <stdlib.h>
#include <string.h>

struct standin_comm {
  int reserved;
};
struct standin_comm ompi_mpi_comm_world, ompi_mpi_comm_null, ompi_mpi_errors_return;
struct standin_comm ompi_mpi_int, ompi_mpi_op_min, ompi_mpi_info_null, standin_other;

int standin_size = 2;
int standin_key;
void (*standin_place)(int rank, int *numbers);

enum { INT_BYTES = sizeof(int) };

#define BOTH(name, parameters)                                                                     \
  int P##name parameters;                                                                          \
  int name parameters __attribute__((weak, alias("P" #name)));                                     \
  int P##name parameters

static int give(MPI_Comm *to, MPI_Comm handle) {
  *to = handle;
  return 0;
}

BOTH(MPI_Get_library_version, (char *text, int *length)) {
  strcpy(text, "stand-in MPI");
  *length = (int)strlen(text);
  return 0;
}
BOTH(MPI_Init, (int *argc, char ***argv)) {
  (void)argc, (void)argv;
  return 0;
}
BOTH(MPI_Init_thread, (int *argc, char ***argv, int required, int *provided)) {
  *provided = required;
  return PMPI_Init(argc, argv);
}
BOTH(MPI_Finalize, (void)) { return 0; }
BOTH(MPI_Comm_rank, (MPI_Comm comm, int *rank)) {
  (void)comm;
  *rank = 0;
  return 0;
}
BOTH(MPI_Comm_size, (MPI_Comm comm, int *size)) {
  (void)comm;
  *size = standin_size;
  return 0;
}
BOTH(MPI_Comm_test_inter, (MPI_Comm comm, int *flag)) {
  (void)comm;
  *flag = 0;
  return 0;
}
BOTH(MPI_Comm_get_parent, (MPI_Comm * parent)) { return give(parent, &ompi_mpi_comm_null); }
BOTH(MPI_Comm_group, (MPI_Comm comm, MPI_Comm *group)) { return give(group, comm); }
BOTH(MPI_Group_translate_ranks, (void *a, int count, const int *ranks, void *b, int *translated)) {
  (void)a, (void)b;
  memcpy(translated, ranks, INT_BYTES * (size_t)count);
  return 0;
}
BOTH(MPI_Group_free, (MPI_Comm * group)) { return give(group, NULL); }
BOTH(MPI_Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made)) {
  (void)comm, (void)color;
  standin_key = key;
  return give(made, &standin_other);
}
BOTH(MPI_Comm_split_type, (MPI_Comm comm, int type, int key, void *info, MPI_Comm *made)) {
  (void)comm, (void)type, (void)key, (void)info;
  return give(made, &standin_other);
}
BOTH(MPI_Comm_free, (MPI_Comm * comm)) { return give(comm, &ompi_mpi_comm_null); }
BOTH(MPI_Comm_get_errhandler, (MPI_Comm comm, MPI_Comm *handler)) {
  (void)comm;
  return give(handler, &standin_other);
}
BOTH(MPI_Comm_set_errhandler, (MPI_Comm comm, void *handler)) {
  return comm == NULL || handler == NULL;
}
BOTH(MPI_Errhandler_free, (MPI_Comm * handler)) { return give(handler, NULL); }

/* ---- collectives: the other ranks give what this one gives ---- */

BOTH(MPI_Bcast, (void *data, int count, void *type, int root, MPI_Comm comm)) {
  (void)data, (void)count, (void)type, (void)comm;
  return root != 0;
}
BOTH(MPI_Gatherv, (const void *from, int count, void *type, void *to, const int *counts,
                   const int *begin, void *to_type, int root, MPI_Comm comm)) {
  (void)type, (void)to_type, (void)comm;
  for (int i = 0; i < standin_size; ++i) {
    if (counts[i] != count)
      abort();
    if (count > 0)
      memcpy((char *)to + (size_t)begin[i] * INT_BYTES, from, (size_t)count * INT_BYTES);
  }
  return root != 0;
}
BOTH(MPI_Gather, (const void *from, int count, void *type, void *to, int to_count, void *to_type,
                  int root, MPI_Comm comm)) {
  (void)type, (void)to_type, (void)comm;
  for (int i = 0; i < standin_size; ++i)
    memcpy((char *)to + (size_t)i * (size_t)to_count * INT_BYTES, from, (size_t)count * INT_BYTES);
  return root != 0;
}
BOTH(MPI_Allgather, (const void *from, int count, void *type, void *to, int to_count, void *to_type,
                     MPI_Comm comm)) {
  int code = PMPI_Gather(from, count, type, to, to_count, to_type, 0, comm);
  for (int i = 0; standin_place != NULL && i < standin_size; ++i)
    standin_place(i, (int *)to + (size_t)i * (size_t)to_count);
  return code;
}
BOTH(MPI_Allreduce,
     (const void *from, void *to, int count, void *type, void *operation, MPI_Comm comm)) {
  (void)type, (void)operation, (void)comm;
  memcpy(to, from, (size_t)count * INT_BYTES);
  return 0;
}
BOTH(MPI_Sendrecv,
     (const void *from, int count, void *type, int target, int tag, void *to, int to_count,
      void *to_type, int source, int to_tag, MPI_Comm comm, void *status)) {
  (void)type, (void)tag, (void)to_type, (void)to_tag, (void)comm, (void)status;
  if (target < 0 || target >= standin_size || source < 0 || source >= standin_size)
    abort();
  memcpy(to, from, (size_t)(count < to_count ? count : to_count) * INT_BYTES);
  return 0;
}

/* ---- topologies: no arguments are looked at ---- */

static int make(MPI_Comm *made) { return made == NULL ? 1 : give(made, &standin_other); }

BOTH(MPI_Cart_create, (MPI_Comm old, int ndims, const int dims[], const int periods[], int reorder,
                       MPI_Comm *made)) {
  (void)old, (void)ndims, (void)dims, (void)periods, (void)reorder;
  return make(made);
}
BOTH(MPI_Cart_map, (MPI_Comm comm, int ndims, const int dims[], const int periods[], int *rank)) {
  (void)comm, (void)ndims, (void)dims, (void)periods;
  return rank == NULL;
}
BOTH(MPI_Graph_create,
     (MPI_Comm old, int nodes, const int index[], const int edges[], int reorder, MPI_Comm *made)) {
  (void)old, (void)nodes, (void)index, (void)edges, (void)reorder;
  return make(made);
}
BOTH(MPI_Graph_map, (MPI_Comm comm, int nodes, const int index[], const int edges[], int *rank)) {
  (void)comm, (void)nodes, (void)index, (void)edges;
  return rank == NULL;
}
BOTH(MPI_Dist_graph_create,
     (MPI_Comm old, int n, const int sources[], const int degrees[], const int targets[],
      const int weights[], void *info, int reorder, MPI_Comm *made)) {
  (void)old, (void)n, (void)sources, (void)degrees, (void)targets, (void)weights, (void)info;
  (void)reorder;
  return make(made);
}
BOTH(MPI_Dist_graph_create_adjacent,
     (MPI_Comm old, int in, const int sources[], const int source_weights[], int out,
      const int targets[], const int target_weights[], void *info, int reorder, MPI_Comm *made)) {
  (void)old, (void)in, (void)sources, (void)source_weights, (void)out, (void)targets;
  (void)target_weights, (void)info, (void)reorder;
  return make(made);
}
