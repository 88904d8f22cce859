/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * MPI_Alltoall in sub-communicators: ranks form a grid of `groups` columns, and those of one column
 * (ranks that are `groups` apart) exchange blocks, as a distributed FFT or a tensor-parallel layer
 * does. Blocks of two-sided messages with --pairwise, for MPIs whose collectives want host memory.
 */
#include "../gpu/gpu.h"
#include "../gpu/run.h"

static const char usage[] = "usage: alltoall [--size RANKS-PER-GROUP] [--bytes N] [--iterations N] "
                            "[--pairwise] [--device]";

struct options {
  int size; /* ranks per sub-communicator */
  int bytes;
  int iterations;
  int pairwise;
  int device;
};

struct group {
  MPI_Comm comm;
  int rank;
  int size;
  int world_rank;
  int stride; /* world ranks of neighbours in the group differ by this */
};

static struct options parse_options(int argc, char **argv) {
  struct options options = {.size = 4, .bytes = 65536, .iterations = 10};
  for (int i = 1; i < argc; ++i) {
    const char *name = argv[i];
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(name, "--pairwise") == 0)
      options.pairwise = 1;
    else if (strcmp(name, "--device") == 0)
      options.device = 1;
    else if (strcmp(name, "--size") == 0 && ++i)
      options.size = run_number(value, usage);
    else if (strcmp(name, "--bytes") == 0 && ++i)
      options.bytes = run_number(value, usage);
    else if (strcmp(name, "--iterations") == 0 && ++i)
      options.iterations = run_number(value, usage);
    else
      run_fail(usage);
  }
  return options;
}

static struct group make_group(const struct options *options) {
  struct group group = {0};
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &group.world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks % options->size != 0)
    run_fail("alltoall: the number of ranks is no multiple of --size");
  group.stride = ranks / options->size;
  MPI_Comm_split(MPI_COMM_WORLD, group.world_rank % group.stride, group.world_rank, &group.comm);
  MPI_Comm_rank(group.comm, &group.rank);
  MPI_Comm_size(group.comm, &group.size);
  return group;
}

/* What a world rank sends to a member of its group, at one place of the block. */
static char block_byte(int world_rank, int member, int at) {
  return (char)(world_rank * 31 + member * 7 + at);
}

static void fill(const struct options *options, const struct group *group, char *out) {
  size_t bytes = (size_t)options->bytes;
  char *host = malloc(bytes);
  if (host == NULL)
    run_fail("alltoall: out of memory");
  for (int member = 0; member < group->size; ++member) {
    for (int at = 0; at < options->bytes; ++at)
      host[at] = block_byte(group->world_rank, member, at);
    gpu_put(out + (size_t)member * bytes, host, bytes);
  }
  free(host);
}

static int is_right(const struct options *options, const struct group *group, const char *in) {
  size_t bytes = (size_t)options->bytes;
  char *host = malloc(bytes);
  int right = 1;
  if (host == NULL)
    run_fail("alltoall: out of memory");
  for (int member = 0; member < group->size; ++member) {
    int sender = group->world_rank % group->stride + member * group->stride;
    gpu_get(host, in + (size_t)member * bytes, bytes);
    for (int at = 0; at < options->bytes; ++at)
      right &= host[at] == block_byte(sender, group->rank, at);
  }
  free(host);
  return right;
}

/* The same exchange as messages: each step sends to one member and receives from another. */
static void exchange_pairwise(const struct options *options, const struct group *group, char *out,
                              char *in) {
  size_t bytes = (size_t)options->bytes;
  for (int step = 0; step < group->size; ++step) {
    int to = (group->rank + step) % group->size;
    int from = (group->rank + group->size - step) % group->size;
    MPI_Sendrecv(out + (size_t)to * bytes, options->bytes, MPI_BYTE, to, step,
                 in + (size_t)from * bytes, options->bytes, MPI_BYTE, from, step, group->comm,
                 MPI_STATUS_IGNORE);
  }
}

static double run(const struct options *options, const struct group *group, char *out, char *in) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < options->iterations; ++i) {
    if (options->pairwise)
      exchange_pairwise(options, group, out, in);
    else
      MPI_Alltoall(out, options->bytes, MPI_BYTE, in, options->bytes, MPI_BYTE, group->comm);
  }
  return MPI_Wtime() - start;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  struct options options = parse_options(argc, argv);
  if (options.device)
    gpu_open();
  struct group group = make_group(&options);
  size_t total = (size_t)options.bytes * (size_t)group.size;
  char *out = gpu_allocate(total);
  char *in = gpu_allocate(total);
  fill(&options, &group, out);
  double seconds = run(&options, &group, out, in);
  run_print_time("alltoall", seconds, options.iterations);
  run_verdict("alltoall", is_right(&options, &group, in));
  gpu_release(out);
  gpu_release(in);
  MPI_Comm_free(&group.comm);
  MPI_Finalize();
  return 0;
}
