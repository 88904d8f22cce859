// What the files of the communication microbenchmark share.
//
// One program for three places: a real MPI, SimGrid's SMPI, and tests. It uses no GPU library at
// build time; for device buffers the driver is loaded at run time (memory.c).
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef TOPOSEAT_MICROBENCH_H
#define TOPOSEAT_MICROBENCH_H

#include <mpi.h>
#include <stddef.h>

enum { MAX_DIMENSIONS = 6, MAX_SIZES = 64 };

/// Those from PATTERN_ALLTOALL on are collectives of sub-communicators.
enum pattern {
  PATTERN_NEIGHBOURS,
  PATTERN_RING,
  PATTERN_ALLTOALL,
  PATTERN_ALLGATHER,
  PATTERN_ALLREDUCE,
  PATTERN_BCAST,
  PATTERN_COUNT
};

/// The command line. Grids are row-major: the first dimension varies slowest.
struct options {
  enum pattern pattern;
  int grid[MAX_DIMENSIONS];
  int dimensions;
  int wrap;      // both ends of every dimension are neighbours
  int diagonals; // neighbours across edges and corners too
  double weight; // messages along the first dimension are this many times larger
  int layers;    // of a halo: all messages are this many times larger
  long long sizes[MAX_SIZES];
  int size_count;
  int iterations;  // timed samples per size
  int batch;       // exchanges without a barrier between them in one sample
  int batch_bytes; // message size from which batches are shorter
  int warmup;      // exchanges before the first sample
  int device;      // buffers in GPU memory
  int corrupt;     // this rank spoils a byte that it sends (-1: none)
};

/// One message out to and one in from a peer, each iteration. Tags tell the two messages apart that
/// go to one peer where a dimension has two ranks.
struct message {
  int to, from;        // ranks of the communicator; MPI_PROC_NULL for none
  int tag_out, tag_in; // tag_in is the tag_out of the sender
  int is_weighted;
  unsigned char *out, *in; // host or device memory
};

struct exchange {
  const struct options *options;
  MPI_Comm comm; // sub-communicator of a collective, else the world
  int rank, size;
  struct message *messages;
  int count;
  MPI_Request *requests;
  MPI_Status *statuses;
  unsigned char *out, *in; // of a collective: one block for each member
  int by_messages;         // an all-to-all that the MPI library itself cannot do
};

/// memory.c: buffers on the host, or on the device that local rank i takes (i modulo devices).
/// Nothing returns after a failure: the job is aborted with one line of cause. Only `memory_open`
/// returns 1 where there is no driver.
int memory_open(const struct options *options);
const char *memory_device(void); // the driver's name for it; "" for host memory
int memory_is_for_library(void); // 0: device memory that this MPI's collectives do not know
unsigned char *memory_new(size_t bytes);
void memory_write(unsigned char *buffer, const unsigned char *host, size_t bytes);
void memory_read(unsigned char *host, const unsigned char *buffer, size_t bytes);
void memory_copy(unsigned char *to, const unsigned char *from, size_t bytes); // within a rank
void memory_delete(unsigned char *buffer);

/// exchange.c: who talks to whom, and one iteration of it.
void exchange_open(struct exchange *exchange, const struct options *options);
void exchange_fill(struct exchange *exchange, long long size);
void exchange_run(struct exchange *exchange, long long size);
void exchange_check(const struct exchange *exchange, long long size);
void exchange_close(struct exchange *exchange);

/// collective.c: the same for the collectives; exchange.c calls these.
void collective_open(struct exchange *exchange, size_t block);
void collective_fill(struct exchange *exchange, long long size);
void collective_run(struct exchange *exchange, long long size);
void collective_check(const struct exchange *exchange, long long size);

/// data.c: data that is told apart by sender, tag, size and place.
unsigned char data_byte(int sender, int tag, long long size, size_t at);
void data_fill(const struct exchange *exchange, unsigned char *buffer, int tag, long long size,
               size_t bytes, int is_first);
void data_check(const unsigned char *buffer, int sender, int tag, long long size, size_t bytes);

/// options.c: returns 0, or 2 after `refuse`.
int options_parse(struct options *options, int argc, char **argv);

/// output.c: one JSON object a line, by rank 0; `device` is the driver's name for it or "".
void print_head(const struct exchange *exchange, const char *device);
void print_samples(long long size, const double *seconds, int count);
void print_done(void);

/// output.c: rank 0 reports why nothing is measured; returns 2, for the program to end with.
int refuse(const char *cause);

/// output.c: one line of cause, then the end of the job.
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
