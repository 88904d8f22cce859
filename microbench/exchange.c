// Who talks to whom in each pattern, and one iteration of it.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "microbench.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_OFFSETS = 729, TAG = 4 }; // 3^MAX_DIMENSIONS; tag of the ring

static long long message_bytes(const struct options *options, int is_weighted, long long size) {
  long long bytes = is_weighted ? llrint((double)size * options->weight) : size;
  return bytes * options->layers;
}

static long long largest_message(const struct options *options) {
  long long most = 0;
  for (int s = 0; s < options->size_count; ++s) {
    for (int weighted = 0; weighted < 2; ++weighted) {
      long long bytes = message_bytes(options, weighted, options->sizes[s]);
      most = bytes > most ? bytes : most;
    }
  }
  return most;
}

/// The rank one `step` (-1, 0, 1 in each dimension) away, MPI_PROC_NULL beyond an open end.
static int neighbour(const struct options *options, int rank, const int *step) {
  int other = 0;
  int stride = 1;
  for (int d = options->dimensions - 1; d >= 0; --d) {
    int extent = options->grid[d];
    int at = rank / stride % extent + step[d];
    if (step[d] != 0 && extent == 1)
      return MPI_PROC_NULL;
    if (at < 0 || at >= extent) {
      if (!options->wrap)
        return MPI_PROC_NULL;
      at = (at + extent) % extent;
    }
    other += at * stride;
    stride *= extent;
  }
  return other;
}

/// Steps are numbered so that `last - number` is the way back; the middle is no step at all.
static int decode_step(int number, int dimensions, int *step) {
  int moved = 0;
  for (int d = dimensions - 1; d >= 0; --d) {
    step[d] = number % 3 - 1;
    number /= 3;
    moved += step[d] != 0;
  }
  return moved;
}

static void add_message(struct exchange *e, struct message message) {
  size_t most = (size_t)largest_message(e->options);
  message.out = memory_new(most);
  message.in = memory_new(most);
  e->messages[e->count++] = message;
}

static void open_neighbours(struct exchange *e) {
  const struct options *options = e->options;
  int last = (int)lround(pow(3, options->dimensions)) - 1;
  for (int number = 0; number <= last; ++number) {
    int step[MAX_DIMENSIONS];
    int moved = decode_step(number, options->dimensions, step);
    if (moved == 0 || (moved > 1 && !options->diagonals))
      continue;
    int peer = neighbour(options, e->rank, step);
    if (peer == MPI_PROC_NULL)
      continue;
    add_message(e, (struct message){.to = peer,
                                    .from = peer,
                                    .tag_out = number,
                                    .tag_in = last - number,
                                    .is_weighted = moved == 1 && step[0] != 0});
  }
}

static void open_ring(struct exchange *e) {
  add_message(e, (struct message){.to = (e->rank + 1) % e->size,
                                  .from = (e->rank + e->size - 1) % e->size,
                                  .tag_out = TAG,
                                  .tag_in = TAG});
}

void exchange_open(struct exchange *e, const struct options *options) {
  *e = (struct exchange){.options = options, .comm = MPI_COMM_WORLD};
  MPI_Comm_rank(MPI_COMM_WORLD, &e->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &e->size);
  e->messages = calloc(MAX_OFFSETS, sizeof *e->messages);
  size_t most = (size_t)(e->size > MAX_OFFSETS ? e->size : MAX_OFFSETS);
  e->requests = calloc(2 * most, sizeof *e->requests);
  e->statuses = calloc(2 * most, sizeof *e->statuses);
  if (e->messages == NULL || e->requests == NULL || e->statuses == NULL)
    fail("out of memory");
  switch (options->pattern) {
  case PATTERN_NEIGHBOURS:
    open_neighbours(e);
    break;
  case PATTERN_RING:
    open_ring(e);
    break;
  default:
    collective_open(e, (size_t)largest_message(options));
  }
}

void exchange_close(struct exchange *e) {
  for (int m = 0; m < e->count; ++m) {
    memory_delete(e->messages[m].out);
    memory_delete(e->messages[m].in);
  }
  memory_delete(e->out);
  memory_delete(e->in);
  if (e->comm != MPI_COMM_WORLD)
    MPI_Comm_free(&e->comm);
  free(e->messages);
  free(e->requests);
  free(e->statuses);
}

void exchange_run(struct exchange *e, long long size) {
  if (e->options->pattern >= PATTERN_ALLTOALL) {
    collective_run(e, size);
    return;
  }
  for (int m = 0; m < e->count; ++m) {
    struct message *message = &e->messages[m];
    int bytes = (int)message_bytes(e->options, message->is_weighted, size);
    MPI_Irecv(message->in, bytes, MPI_BYTE, message->from, message->tag_in, e->comm,
              &e->requests[m]);
  }
  for (int m = 0; m < e->count; ++m) {
    struct message *message = &e->messages[m];
    int bytes = (int)message_bytes(e->options, message->is_weighted, size);
    MPI_Isend(message->out, bytes, MPI_BYTE, message->to, message->tag_out, e->comm,
              &e->requests[e->count + m]);
  }
  MPI_Waitall(2 * e->count, e->requests, e->statuses);
}

void exchange_fill(struct exchange *e, long long size) {
  if (e->options->pattern >= PATTERN_ALLTOALL)
    collective_fill(e, size);
  for (int m = 0; m < e->count; ++m) {
    size_t bytes = (size_t)message_bytes(e->options, e->messages[m].is_weighted, size);
    data_fill(e, e->messages[m].out, e->messages[m].tag_out, size, bytes, m == 0);
  }
}

void exchange_check(const struct exchange *e, long long size) {
  if (e->options->pattern >= PATTERN_ALLTOALL)
    collective_check(e, size);
  for (int m = 0; m < e->count; ++m) {
    const struct message *message = &e->messages[m];
    size_t bytes = (size_t)message_bytes(e->options, message->is_weighted, size);
    data_check(message->in, message->from, message->tag_in, size, bytes);
  }
}
