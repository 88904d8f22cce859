/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A profiling tool of the common kind: it counts some calls and goes on to PMPI. What it gathers in
 * MPI_Finalize is its own. With BY_THREAD its MPI_Init starts MPI another way; with SPLITS it sends
 * each message in two halves.
 */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int counts[6]; /* inits, sends, allreduces, grids, marks, what came with them */

int MPI_Init(int *argc, char ***argv) {
  counts[0] += 1;
#ifdef BY_THREAD
  int provided = 0;
  int code = PMPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
#else
  int code = PMPI_Init(argc, argv);
#endif
  PMPI_Barrier(MPI_COMM_WORLD);
  return code;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  counts[0] += 1;
  return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  counts[1] += 1;
#ifdef SPLITS
  int size = 0;
  PMPI_Type_size(type, &size);
  PMPI_Send(buffer, count / 2, type, dest, tag, comm);
  buffer = (const char *)buffer + (size_t)size * (size_t)(count / 2);
  count -= count / 2;
#endif
  return PMPI_Send(buffer, count, type, dest, tag, comm);
}

#ifdef SPLITS
int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status) {
  int size = 0;
  PMPI_Type_size(type, &size);
  PMPI_Recv(buffer, count / 2, type, source, tag, comm, status);
  buffer = (char *)buffer + (size_t)size * (size_t)(count / 2);
  return PMPI_Recv(buffer, count - count / 2, type, source, tag, comm, status);
}
#endif

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  counts[2] += 1;
  return PMPI_Allreduce(from, to, count, type, op, comm);
}

int MPI_Cart_create(MPI_Comm comm, int dimensions, const int *extents, const int *periods,
                    int reorder, MPI_Comm *made) {
  counts[3] += 1;
  return PMPI_Cart_create(comm, dimensions, extents, periods, reorder, made);
}

/* A mark with a name, a floating point number, and more integers than fit the registers. */
int MPI_Pcontrol(const int level, ...) {
  va_list list;
  va_start(list, level);
  if (level > 0) {
    counts[4] += 1;
    counts[5] += (int)strlen(va_arg(list, const char *));
    counts[5] += (int)va_arg(list, double);
    for (int i = 0; i < 8; ++i)
      counts[5] += va_arg(list, int);
  }
  va_end(list);
  return 0;
}

int MPI_Finalize(void) {
  int rank;
  int all[6] = {0};
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Allreduce(counts, all, 6, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    PMPI_Send(all, 6, MPI_INT, 1, 99, MPI_COMM_WORLD);
  if (rank == 1) {
    PMPI_Recv(all, 6, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    fprintf(stderr, "tool: inits %d sends %d allreduces %d grids %d marks %d of %d\n", all[0],
            all[1], all[2], all[3], all[4], all[5]);
  }
  return PMPI_Finalize();
}
