// The communication microbenchmarks of `toposeat bench`: stencils, halos, rings and all-to-all in
// sub-communicators, over a list of message sizes, timed and with every received byte checked.
//
// A sample is a batch of exchanges behind one barrier; its time is the slowest rank's, divided by
// their number. Inside a batch there is no barrier: a rank goes on when its own messages are
// through. Large messages need no long batches: above `batch_bytes` these shrink, down to one.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "microbench.h"

#include <stdlib.h>

/// The first exchange of a size carries data that is checked; the samples carry the same again.
static void warm_up(struct exchange *e, long long size) {
  exchange_fill(e, size);
  exchange_run(e, size);
  exchange_check(e, size);
  for (int i = 0; i < e->options->warmup; ++i)
    exchange_run(e, size);
}

static int batch_of(const struct options *options, long long size) {
  long long batch = options->batch;
  if (size > options->batch_bytes)
    batch = batch * options->batch_bytes / size;
  return batch > 1 ? (int)batch : 1;
}

static void measure(struct exchange *e, long long size, double *mine, double *slowest) {
  int samples = e->options->iterations;
  int batch = batch_of(e->options, size);
  warm_up(e, size);
  for (int sample = 0; sample < samples; ++sample) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < batch; ++i)
      exchange_run(e, size);
    mine[sample] = (MPI_Wtime() - start) / batch;
  }
  MPI_Reduce(mine, slowest, samples, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (e->rank == 0)
    print_samples(size, slowest, samples);
}

static void measure_all(const struct options *options) {
  struct exchange exchange;
  size_t samples = (size_t)options->iterations;
  double *times = calloc(2 * samples, sizeof *times);
  if (times == NULL)
    fail("out of memory");
  exchange_open(&exchange, options);
  if (exchange.rank == 0)
    print_head(&exchange, memory_device());
  for (int s = 0; s < options->size_count; ++s)
    measure(&exchange, options->sizes[s], times, times + samples);
  if (exchange.rank == 0)
    print_done();
  exchange_close(&exchange);
  free(times);
}

static int open_memory(const struct options *options) {
  int missing = memory_open(options);
  int any = 0;
  MPI_Allreduce(&missing, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (any)
    return refuse("a node of the job has no GPU driver (libcuda.so.1 or libamdhip64.so)");
  if (options->pattern > PATTERN_ALLTOALL && !memory_is_for_library())
    return refuse("this MPI reports that its collectives do not accept device memory");
  return 0;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  struct options options;
  int status = options_parse(&options, argc, argv);
  if (status == 0)
    status = open_memory(&options);
  if (status == 0)
    measure_all(&options);
  MPI_Finalize();
  return status;
}
