/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs collectives one by one and writes down the messages that Open MPI made of each.
 *
 *   each_collective PREFIX OPERATION:BYTES:MEMBERS:ROOT:ORDER:ELEMENT...
 *
 * MEMBERS first ranks of the world take part, in ORDER `up` or `down` (the last rank first). BYTES
 * is one rank's contribution in the sense of the traffic records, in elements of ELEMENT (8, 4, 1)
 * bytes. Each rank writes PREFIX.<rank>: per case, the bytes and then the messages
 * that it sent to every rank of the world (int64). The counters are those of Open MPI's monitoring
 * (run with --mca pml_monitoring_enable 1: user and library messages are one count).
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 64 };

static int ranks, me;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle bytes_handle, messages_handle;

static void fail(const char *what) {
  fprintf(stderr, "each_collective: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void open_counter(const char *name, MPI_T_pvar_handle *handle) {
  int index, count;
  MPI_Comm world = MPI_COMM_WORLD;
  if (MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_SIZE, &index) != MPI_SUCCESS)
    fail("no monitoring: run with --mca pml_monitoring_enable 1");
  if (MPI_T_pvar_handle_alloc(session, index, &world, handle, &count) != MPI_SUCCESS ||
      count != ranks)
    fail("cannot open a counter");
  MPI_T_pvar_start(session, *handle);
}

static void read_counters(uint64_t *bytes, uint64_t *messages) {
  MPI_T_pvar_read(session, bytes_handle, bytes);
  MPI_T_pvar_read(session, messages_handle, messages);
}

/* The buffers are large enough for everything: `total` elements of the whole group. */
static void run(const char *operation, MPI_Comm comm, int count, MPI_Datatype type, int root) {
  int members, counts[MAX_RANKS], starts[MAX_RANKS];
  MPI_Comm_size(comm, &members);
  size_t room = (size_t)count * 8 * (size_t)members + 64;
  char *out = calloc(room, 1), *in = calloc(room, 1);
  if (out == NULL || in == NULL)
    fail("no memory");
  for (int i = 0; i < members; ++i) {
    counts[i] = count;
    starts[i] = i * count;
  }
  MPI_Op op = MPI_SUM;
  if (strcmp(operation, "barrier") == 0)
    MPI_Barrier(comm);
  else if (strcmp(operation, "bcast") == 0)
    MPI_Bcast(out, count, type, root, comm);
  else if (strcmp(operation, "gather") == 0)
    MPI_Gather(out, count, type, in, count, type, root, comm);
  else if (strcmp(operation, "gatherv") == 0)
    MPI_Gatherv(out, count, type, in, counts, starts, type, root, comm);
  else if (strcmp(operation, "scatter") == 0)
    MPI_Scatter(out, count, type, in, count, type, root, comm);
  else if (strcmp(operation, "allgather") == 0)
    MPI_Allgather(out, count, type, in, count, type, comm);
  else if (strcmp(operation, "allgatherv") == 0)
    MPI_Allgatherv(out, count, type, in, counts, starts, type, comm);
  else if (strcmp(operation, "alltoall") == 0)
    MPI_Alltoall(out, count, type, in, count, type, comm);
  else if (strcmp(operation, "reduce") == 0)
    MPI_Reduce(out, in, count, type, op, root, comm);
  else if (strcmp(operation, "allreduce") == 0)
    MPI_Allreduce(out, in, count, type, op, comm);
  else if (strcmp(operation, "reduce_scatter") == 0) {
    int share = count / members, rest = count % members; /* `count` is the whole vector */
    for (int i = 0; i < members; ++i)
      counts[i] = share + (i < rest);
    MPI_Reduce_scatter(out, in, counts, type, op, comm);
  } else if (strcmp(operation, "reduce_scatter_block") == 0)
    MPI_Reduce_scatter_block(out, in, count, type, op, comm);
  else if (strcmp(operation, "scan") == 0)
    MPI_Scan(out, in, count, type, op, comm);
  else if (strcmp(operation, "exscan") == 0)
    MPI_Exscan(out, in, count, type, op, comm);
  else
    fail("unknown operation");
  free(out);
  free(in);
}

static void one_case(const char *text, uint64_t *row) {
  char operation[32], order[8];
  int bytes, members, root, element;
  if (sscanf(text, "%31[^:]:%d:%d:%d:%7[^:]:%d", operation, &bytes, &members, &root, order,
             &element) != 6)
    fail("expected OPERATION:BYTES:MEMBERS:ROOT:ORDER:ELEMENT");
  uint64_t before[2][MAX_RANKS] = {{0}}, after[2][MAX_RANKS] = {{0}};
  MPI_Comm comm;
  int inside = me < members;
  MPI_Comm_split(MPI_COMM_WORLD, inside ? 0 : MPI_UNDEFINED, strcmp(order, "up") == 0 ? me : -me,
                 &comm);
  if (inside) {
    MPI_Datatype type = element == 8 ? MPI_DOUBLE : element == 4 ? MPI_INT : MPI_UNSIGNED_CHAR;
    int count = bytes / element;
    read_counters(before[0], before[1]);
    run(operation, comm, count, type, root);
    read_counters(after[0], after[1]);
    MPI_Comm_free(&comm);
  }
  for (int part = 0; part < 2; ++part)
    for (int peer = 0; peer < ranks; ++peer)
      row[part * ranks + peer] = after[part][peer] - before[part][peer];
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init(&argc, &argv);
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  if (ranks > MAX_RANKS || argc < 2)
    fail("too many ranks, or no PREFIX");
  MPI_T_pvar_session_create(&session);
  open_counter("pml_monitoring_messages_size", &bytes_handle);
  open_counter("pml_monitoring_messages_count", &messages_handle);
  char name[4096];
  snprintf(name, sizeof name, "%s.%d", argv[1], me);
  FILE *file = fopen(name, "wb");
  if (file == NULL)
    fail("cannot write the result");
  for (int i = 2; i < argc; ++i) {
    uint64_t row[2 * MAX_RANKS];
    one_case(argv[i], row);
    fwrite(row, sizeof(uint64_t), (size_t)(2 * ranks), file);
  }
  fclose(file);
  MPI_T_pvar_handle_free(session, &bytes_handle);
  MPI_T_pvar_handle_free(session, &messages_handle);
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
  MPI_Finalize();
  return 0;
}
