/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * 3-D halo exchange with weighted dimensions: every rank of a grid sends one face to each neighbour
 * per iteration; faces along dimension d have bytes x weight[d]. Ranks are row-major, the first
 * dimension slowest. With --truth the program writes down what it sent to whom, as it goes; with
 * --device faces are in the memory of the GPU of the local rank. What arrived last is checked.
 */
#define _DEFAULT_SOURCE /* ftruncate, mmap, sleep */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../gpu/gpu.h"

#define FACES 6

enum mode { ISEND, PERSISTENT, SENDRECV, PUT, NEIGHBOR, MODES };
static const char *const mode_names[MODES] = {"isend", "persistent", "sendrecv", "put", "neighbor"};

struct options {
  int grid[3];
  int weights[3];
  int bytes;
  int iterations;
  int warmup; /* exchanges before the clock starts */
  int wrap;
  int device; /* faces are in GPU memory */
  int run_mode[MODES];
  const char *truth;
  int kill_rank; /* this rank kills itself after the last iteration; -1: none */
  int abort_rank;
};

/* What this rank sent: row of the matrix, shared with the file so that it survives the process. */
struct truth {
  long long *bytes;
  long long *messages;
};

struct exchange {
  const struct options *options;
  int rank;
  int size;
  int peer[FACES]; /* 2 * dimension + (0 below, 1 above); MPI_PROC_NULL at an open end */
  int length[FACES];
  char *out[FACES];
  char *in[FACES];
  struct truth truth;
};

static _Noreturn void fail(const char *message) {
  fprintf(stderr, "halo3d: %s\n", message);
  MPI_Abort(MPI_COMM_WORLD, 2);
  abort(); /* MPI's header does not say that it does not return */
}

static void usage(void) {
  fail("usage: halo3d [--grid 2x2x4] [--weights 3,1,1] [--bytes N] [--iterations N] [--warmup N] "
       "[--wrap] "
       "[--mode isend|persistent|sendrecv|put|neighbor|all] [--truth FILE] [--device] "
       "[--kill-rank R] [--abort-rank R]");
}

static int positive(const char *text) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < 0 || value > 1 << 30)
    usage();
  return (int)value;
}

static void parse_triple(const char *text, const char *format, int *values) {
  char rest;
  if (sscanf(text, format, &values[0], &values[1], &values[2], &rest) != 3)
    usage();
  for (int d = 0; d < 3; ++d)
    if (values[d] < 1)
      usage();
}

static void parse_mode(const char *text, int *run_mode) {
  int found = 0;
  for (int m = 0; m < MODES; ++m) {
    run_mode[m] = strcmp(text, mode_names[m]) == 0 || strcmp(text, "all") == 0;
    found |= run_mode[m];
  }
  if (!found)
    usage();
}

static struct options parse_options(int argc, char **argv) {
  struct options options = {.grid = {2, 2, 4},
                            .weights = {3, 1, 1},
                            .bytes = 65536,
                            .iterations = 10,
                            .run_mode = {1},
                            .kill_rank = -1,
                            .abort_rank = -1};
  for (int i = 1; i < argc; ++i) {
    const char *name = argv[i];
    if (strcmp(name, "--wrap") == 0) {
      options.wrap = 1;
      continue;
    }
    if (strcmp(name, "--device") == 0) {
      options.device = 1;
      continue;
    }
    const char *value = i + 1 < argc ? argv[++i] : "";
    if (strcmp(name, "--grid") == 0)
      parse_triple(value, "%dx%dx%d%c", options.grid);
    else if (strcmp(name, "--weights") == 0)
      parse_triple(value, "%d,%d,%d%c", options.weights);
    else if (strcmp(name, "--bytes") == 0)
      options.bytes = positive(value);
    else if (strcmp(name, "--iterations") == 0)
      options.iterations = positive(value);
    else if (strcmp(name, "--warmup") == 0)
      options.warmup = positive(value);
    else if (strcmp(name, "--mode") == 0)
      parse_mode(value, options.run_mode);
    else if (strcmp(name, "--truth") == 0)
      options.truth = value;
    else if (strcmp(name, "--kill-rank") == 0)
      options.kill_rank = positive(value);
    else if (strcmp(name, "--abort-rank") == 0)
      options.abort_rank = positive(value);
    else
      usage();
  }
  return options;
}

/*
 * The truth file is binary: two size x size int64 matrices, bytes then messages, row = sender.
 * Every rank maps the file and writes its own rows only, so no rank waits for another and none
 * loses its counts.
 */
static struct truth open_truth(const char *path, int rank, int size) {
  struct truth truth = {0};
  size_t row = (size_t)size * sizeof *truth.bytes;
  size_t total = 2 * row * (size_t)size;
  if (path == NULL) {
    truth.bytes = calloc(1, 2 * row);
    if (truth.bytes == NULL)
      fail("out of memory");
    truth.messages = truth.bytes + size;
    return truth;
  }
  int file = open(path, O_RDWR | O_CREAT, 0644);
  if (file < 0 || ftruncate(file, (off_t)total) != 0)
    fail("cannot create the truth file");
  long long *matrix = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (matrix == MAP_FAILED)
    fail("cannot map the truth file");
  truth.bytes = matrix + (size_t)rank * (size_t)size;
  truth.messages = truth.bytes + (size_t)size * (size_t)size;
  return truth;
}

static void note_sent(struct exchange *exchange, int face) {
  int peer = exchange->peer[face];
  if (peer == MPI_PROC_NULL)
    return;
  exchange->truth.bytes[peer] += exchange->length[face];
  exchange->truth.messages[peer] += 1;
}

static int neighbour(const struct options *options, int rank, int dimension, int step) {
  const int *grid = options->grid;
  int at[3] = {rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
  at[dimension] += step;
  if (at[dimension] < 0 || at[dimension] >= grid[dimension]) {
    if (!options->wrap)
      return MPI_PROC_NULL;
    at[dimension] = (at[dimension] + grid[dimension]) % grid[dimension];
  }
  return (at[0] * grid[1] + at[1]) * grid[2] + at[2];
}

/* What `rank` sends at a place of one of its faces. */
static char face_byte(int rank, int face, int at) { return (char)(rank * FACES + face + at * 7); }

static void fill_face(const struct exchange *exchange, int face) {
  int length = exchange->length[face];
  char *bytes = malloc((size_t)length + 1);
  if (bytes == NULL)
    fail("out of memory");
  for (int at = 0; at < length; ++at)
    bytes[at] = face_byte(exchange->rank, face, at);
  gpu_put(exchange->out[face], bytes, (size_t)length);
  free(bytes);
}

static void prepare(struct exchange *exchange, const struct options *options) {
  exchange->options = options;
  for (int face = 0; face < FACES; ++face) {
    int dimension = face / 2;
    exchange->peer[face] = neighbour(options, exchange->rank, dimension, face % 2 == 0 ? -1 : 1);
    exchange->length[face] = options->bytes * options->weights[dimension];
    exchange->out[face] = gpu_allocate((size_t)exchange->length[face] + 1);
    exchange->in[face] = gpu_allocate((size_t)exchange->length[face] + 1);
    fill_face(exchange, face);
  }
}

/* The faces of the last exchange are those that the neighbours sent. */
static void check_faces(const struct exchange *exchange) {
  for (int face = 0; face < FACES; ++face) {
    int peer = exchange->peer[face];
    int length = peer == MPI_PROC_NULL ? 0 : exchange->length[face];
    char *copy = malloc((size_t)length + 1);
    if (copy == NULL)
      fail("out of memory");
    gpu_get(copy, exchange->in[face], (size_t)length);
    for (int at = 0; at < length; ++at)
      if (copy[at] != face_byte(peer, face ^ 1, at))
        fail("a face arrived with other bytes than were sent");
    free(copy);
  }
}

static void run_isend(struct exchange *e) {
  for (int i = 0; i < e->options->iterations; ++i) {
    MPI_Request requests[2 * FACES];
    MPI_Status statuses[2 * FACES];
    /* A face sent downwards arrives from above: tag = the sender's face. */
    for (int f = 0; f < FACES; ++f)
      MPI_Irecv(e->in[f], e->length[f], MPI_BYTE, e->peer[f], f ^ 1, MPI_COMM_WORLD, &requests[f]);
    for (int f = 0; f < FACES; ++f) {
      MPI_Isend(e->out[f], e->length[f], MPI_BYTE, e->peer[f], f, MPI_COMM_WORLD,
                &requests[FACES + f]);
      note_sent(e, f);
    }
    MPI_Waitall(2 * FACES, requests, statuses);
  }
}

static void run_persistent(struct exchange *e) {
  MPI_Request requests[2 * FACES];
  MPI_Status statuses[2 * FACES];
  for (int f = 0; f < FACES; ++f) {
    MPI_Recv_init(e->in[f], e->length[f], MPI_BYTE, e->peer[f], f ^ 1, MPI_COMM_WORLD,
                  &requests[f]);
    MPI_Send_init(e->out[f], e->length[f], MPI_BYTE, e->peer[f], f, MPI_COMM_WORLD,
                  &requests[FACES + f]);
  }
  for (int i = 0; i < e->options->iterations; ++i) {
    MPI_Startall(2 * FACES, requests);
    for (int f = 0; f < FACES; ++f)
      note_sent(e, f);
    MPI_Waitall(2 * FACES, requests, statuses);
  }
  for (int f = 0; f < 2 * FACES; ++f)
    MPI_Request_free(&requests[f]);
}

static void run_sendrecv(struct exchange *e) {
  for (int i = 0; i < e->options->iterations; ++i) {
    for (int f = 0; f < FACES; ++f) {
      MPI_Sendrecv(e->out[f], e->length[f], MPI_BYTE, e->peer[f], f, e->in[f ^ 1], e->length[f],
                   MPI_BYTE, e->peer[f ^ 1], f, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      note_sent(e, f);
    }
  }
}

static void run_put(struct exchange *e) {
  int offset[FACES + 1] = {0};
  for (int f = 0; f < FACES; ++f)
    offset[f + 1] = offset[f] + e->length[f];
  char *base = NULL;
  MPI_Win win;
  MPI_Win_allocate(offset[FACES], 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void *)&base, &win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < e->options->iterations; ++i) {
    for (int f = 0; f < FACES; ++f) {
      MPI_Put(e->out[f], e->length[f], MPI_BYTE, e->peer[f], offset[f ^ 1], e->length[f], MPI_BYTE,
              win);
      note_sent(e, f);
    }
    MPI_Win_fence(0, win);
  }
  MPI_Win_free(&win);
}

static void run_neighbor(struct exchange *e) {
  const struct options *options = e->options;
  int periodic[3] = {options->wrap, options->wrap, options->wrap};
  int counts[FACES];
  int offsets[FACES];
  int total = 0;
  MPI_Comm grid;
  for (int f = 0; f < FACES; ++f) {
    counts[f] = e->length[f];
    offsets[f] = total;
    total += counts[f];
  }
  char *out = calloc(1, (size_t)total + 1);
  char *in = calloc(1, (size_t)total + 1);
  if (out == NULL || in == NULL)
    fail("out of memory");
  MPI_Cart_create(MPI_COMM_WORLD, 3, options->grid, periodic, 0, &grid);
  for (int i = 0; i < options->iterations; ++i) {
    MPI_Neighbor_alltoallv(out, counts, offsets, MPI_BYTE, in, counts, offsets, MPI_BYTE, grid);
    for (int f = 0; f < FACES; ++f)
      note_sent(e, f);
  }
  MPI_Comm_free(&grid);
  free(out);
  free(in);
}

static void run_modes(struct exchange *e) {
  static void (*const run[MODES])(struct exchange *) = {run_isend, run_persistent, run_sendrecv,
                                                        run_put, run_neighbor};
  for (int m = 0; m < MODES; ++m) {
    if (!e->options->run_mode[m])
      continue;
    struct options warmup = *e->options;
    struct exchange before = *e;
    warmup.iterations = warmup.warmup;
    before.options = &warmup;
    if (warmup.warmup > 0)
      run[m](&before);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    run[m](e);
    double seconds = MPI_Wtime() - start;
    double slowest = 0;
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (e->rank == 0)
      printf("halo3d %s: %d iterations, %.6f s\n", mode_names[m], e->options->iterations, slowest);
    if (m <= SENDRECV && e->options->iterations > 0)
      check_faces(e);
  }
}

/* For tests of what survives: all ranks have done the same work when one of them dies. */
static void die_if_asked(const struct exchange *e) {
  const struct options *options = e->options;
  if (options->kill_rank < 0 && options->abort_rank < 0)
    return;
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  if (e->rank == options->kill_rank)
    raise(SIGKILL);
  if (e->rank == options->abort_rank)
    MPI_Abort(MPI_COMM_WORLD, 3);
  sleep(60); /* until the launcher ends this rank too */
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  struct options options = parse_options(argc, argv);
  struct exchange exchange = {0};
  MPI_Comm_rank(MPI_COMM_WORLD, &exchange.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &exchange.size);
  if (options.grid[0] * options.grid[1] * options.grid[2] != exchange.size)
    fail("the grid does not have as many points as there are ranks");
  if (options.device && (options.run_mode[PUT] || options.run_mode[NEIGHBOR]))
    fail("--device goes with the modes isend, persistent and sendrecv");
  if (options.device)
    gpu_open();
  exchange.truth = open_truth(options.truth, exchange.rank, exchange.size);
  prepare(&exchange, &options);
  run_modes(&exchange);
  die_if_asked(&exchange);
  MPI_Finalize();
  return 0;
}
