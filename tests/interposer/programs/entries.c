/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls every entry point of calls.tsv that the MPI at hand declares, with books of its own.
 *
 *   entries TRUTH SCRATCH [thread]
 *
 * TRUTH gets what was sent (see owe); TRUTH.<rank> one line per collective event and per called
 * name. The cases are in entries.cases; tests/support/entries.py makes entries_cases.h of them:
 * HAVE_MPI_X for what is declared, and run_cases(). A call through T is one of the table.
 */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum kind { P2P, COLLECTIVE, ONE_SIDED, KINDS };

#define NONE (-1)
#define TAG 17
#define MAX_RANKS 64
#define ROOM (1 << 16)

static int rank, size;      /* in MPI_COMM_WORLD */
static MPI_Comm comm;       /* the world, backwards */
static int me, right, left; /* in comm */
static int root;            /* in comm */
static int times;           /* how often the operation at hand is started */
static MPI_Comm graph;      /* from each rank to the next two of comm */
static MPI_Win win;         /* over comm */
static MPI_File file;
static char out[ROOM], in[ROOM], all[ROOM], more[ROOM];
static int counts[MAX_RANKS], in_counts[MAX_RANKS], displs[MAX_RANKS], in_displs[MAX_RANKS];
static MPI_Count counts_c[MAX_RANKS], in_counts_c[MAX_RANKS];
static MPI_Aint displs_c[MAX_RANKS], in_displs_c[MAX_RANKS];
static MPI_Datatype types[MAX_RANKS];
static long long *truth;
static FILE *notes;
static char scratch[4096];

static int world_of(int peer) { return size - 1 - peer; }

static long long *cell(enum kind kind, int messages, int from, int to) {
  return truth +
         (((size_t)kind * 2 + (size_t)messages) * (size_t)size + (size_t)from) * (size_t)size +
         (size_t)to;
}

static void owe_pair(enum kind kind, int from, int to, long long bytes) {
  __atomic_fetch_add(cell(kind, 0, from, to), bytes, __ATOMIC_RELAXED);
  __atomic_fetch_add(cell(kind, 1, from, to), 1, __ATOMIC_RELAXED);
}

/* At every start of the operation, `bytes` go to (come from) a rank of comm. */
static void owe(enum kind kind, int to, long long bytes) {
  for (int i = 0; i < times; ++i)
    owe_pair(kind, rank, world_of(to), bytes);
}

static void owe_from(int from, long long bytes) {
  for (int i = 0; i < times; ++i)
    owe_pair(ONE_SIDED, world_of(from), rank, bytes);
}

/* `base` as in calls.tsv. */
static void event(const char *base, int at, long long bytes) {
  for (int i = 0; i < times; ++i)
    fprintf(notes, "event %s %d %lld\n", base, at < 0 ? NONE : world_of(at), bytes);
}

static int noted(const char *call, int code) {
  fprintf(notes, "call %.*s\n", (int)strcspn(call, "("), call);
  if (code != MPI_SUCCESS) {
    fprintf(stderr, "%s failed\n", call);
    _exit(3);
  }
  return code;
}
#define T(call) noted(#call, call)

/* MPICH before 4.3 (seen with 4.0.2 and 4.2.1) and Intel MPI (seen with 2021.18) fail when a
   persistent collective starts again. */
static int starts(void) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length, minor;
  MPI_Get_library_version(version, &length);
  const bool old = sscanf(version, "MPICH Version: 4.%d", &minor) == 1 && minor < 3;
  return old || strstr(version, "Intel(R) MPI") != NULL ? 1 : 2;
}

static void wait_for(MPI_Request *request) { T(MPI_Wait(request, MPI_STATUS_IGNORE)); }

static void synchronise(void) {
  T(MPI_Barrier(comm));
  fprintf(notes, "event Barrier -1 0\n");
}

static void small_send(void) {
  T(MPI_Send(out, 10, MPI_BYTE, right, TAG, comm));
  owe_pair(P2P, rank, world_of(right), 10);
}

static void small_receive(void) {
  T(MPI_Recv(in, 100, MPI_BYTE, left, TAG, comm, MPI_STATUS_IGNORE));
}

static MPI_Request receives[2];

static void post_receives(void) {
  for (int i = 0; i < times; ++i)
    T(MPI_Irecv(in + 1000 * i, 1000, MPI_BYTE, left, TAG, comm, &receives[i]));
  synchronise(); /* ready mode is allowed from here on */
}

static void finish_receives(void) { T(MPI_Waitall(times, receives, MPI_STATUSES_IGNORE)); }

/* A receive from the left and a send to the right, both pending. */
static void start_pair(MPI_Request *pair) {
  T(MPI_Irecv(in, 100, MPI_BYTE, left, TAG, comm, &pair[0]));
  T(MPI_Isend(out, 10, MPI_BYTE, right, TAG, comm, &pair[1]));
  owe_pair(P2P, rank, world_of(right), 10);
}

/* A message around a communicator that has the members of comm in the same order. */
static void around(MPI_Comm same) {
  int here;
  MPI_Comm_rank(same, &here);
  if (here != me)
    MPI_Abort(MPI_COMM_WORLD, 4);
  T(MPI_Sendrecv(out, 9, MPI_BYTE, right, TAG, in, 9, MPI_BYTE, left, TAG, same,
                 MPI_STATUS_IGNORE));
  owe_pair(P2P, rank, world_of(right), 9);
}

static void set_block(int index, int *count, MPI_Count *large, int *displacement, MPI_Aint *wide,
                      int value) {
  count[index] = value;
  large[index] = value;
  displacement[index] = 64 * index;
  wide[index] = 64 * index;
}

/* What I send to and get from rank `peer` when the blocks are: peer + 1; or a pattern of holes. */
static void blocks_by_rank(void) {
  for (int p = 0; p < size; ++p) {
    set_block(p, counts, counts_c, displs, displs_c, p + 1);
    set_block(p, in_counts, in_counts_c, in_displs, in_displs_c, p + 1);
  }
}

static void blocks_with_holes(void) {
  for (int p = 0; p < size; ++p) {
    set_block(p, counts, counts_c, displs, displs_c, (me + 2 * p) % 5);
    set_block(p, in_counts, in_counts_c, in_displs, in_displs_c, (p + 2 * me) % 5);
  }
}

static long long sum_of_counts(void) {
  long long sum = 0;
  for (int p = 0; p < size; ++p)
    sum += counts[p];
  return sum;
}

static void blocks_of_neighbours(void) {
  for (int n = 0; n < 2; ++n) {
    set_block(n, counts, counts_c, displs, displs_c, 4 + 2 * n);
    set_block(n, in_counts, in_counts_c, in_displs, in_displs_c, 4 + 2 * n);
  }
}

static void owe_neighbours(long long first, long long second) {
  owe(COLLECTIVE, (me + 1) % size, first);
  owe(COLLECTIVE, (me + 2) % size, second);
}

#include "entries_cases.h"

static void open_truth(const char *path) {
  size_t bytes = sizeof *truth * KINDS * 2 * (size_t)size * (size_t)size;
  char name[4200];
  int descriptor = open(path, O_RDWR | O_CREAT, 0644);
  if (descriptor < 0 || ftruncate(descriptor, (off_t)bytes) != 0)
    MPI_Abort(MPI_COMM_WORLD, 2);
  truth = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  snprintf(name, sizeof name, "%s.%d", path, rank);
  notes = fopen(name, "w");
  setvbuf(notes, NULL, _IOLBF, 0);
}

static void start(int argc, char **argv) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  open_truth(argv[1]);
  snprintf(scratch, sizeof scratch, "%s", argv[2]);
  fprintf(notes, "call MPI_%s\n", argc > 3 ? "Init_thread" : "Init");
  T(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm));
  MPI_Comm_rank(comm, &me);
  right = (me + 1) % size;
  left = (me + size - 1) % size;
  root = 1;
  for (int i = 0; i < size; ++i)
    types[i] = MPI_INT;
  void *exposed;
  int to[2] = {right, (me + 2) % size}, from[2] = {left, (me + 2 * size - 2) % size};
  T(MPI_Dist_graph_create_adjacent(comm, 2, from, MPI_UNWEIGHTED, 2, to, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph));
  T(MPI_Win_allocate(ROOM, 1, MPI_INFO_NULL, comm, &exposed, &win));
  times = 1;
}

int main(int argc, char **argv) {
  static char space[1 << 18];
  int provided;
  if (argc < 3)
    return 2;
  if (argc > 3)
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  else
    MPI_Init(&argc, &argv);
  start(argc, argv);
  MPI_Buffer_attach(space, sizeof space);
  run_cases();
  T(MPI_Win_free(&win));
  T(MPI_Comm_free(&graph));
  T(MPI_Comm_free(&comm));
  fprintf(notes, "call MPI_Finalize\n");
  fclose(notes);
  MPI_Finalize();
  return 0;
}
