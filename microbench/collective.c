// Collectives of sub-communicators: one for each line of the grid along its first dimension.
//
// Size means the block for each member (alltoall), each member's own block (allgather), or the
// whole vector (allreduce, bcast). Reduction is a bitwise XOR: exact, and of any number of bytes.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "microbench.h"

#include <stdlib.h>

/// Ranks that share all coordinates but the first are one communicator.
void collective_open(struct exchange *e, size_t block) {
  int members = e->options->grid[0];
  int stride = e->size / members;
  MPI_Comm_split(MPI_COMM_WORLD, e->rank % stride, e->rank, &e->comm);
  e->out = memory_new(block * (size_t)members);
  e->in = memory_new(block * (size_t)members);
  e->by_messages = !memory_is_for_library();
}

/// World ranks of the members of this rank's communicator, in its order.
static int member_rank(const struct exchange *e, int member) {
  int stride = e->size / e->options->grid[0];
  return e->rank % stride + member * stride;
}

/// All blocks at once, as the linear algorithm of MPI libraries does; a rank's own is copied.
static void alltoall_by_messages(struct exchange *e, int bytes) {
  size_t block = (size_t)bytes;
  int members = e->options->grid[0];
  int own = e->rank / (e->size / members);
  int count = 0;
  for (int member = 0; member < members; ++member)
    if (member != own)
      MPI_Irecv(e->in + block * (size_t)member, bytes, MPI_BYTE, member, 0, e->comm,
                &e->requests[count++]);
  for (int member = 0; member < members; ++member)
    if (member != own)
      MPI_Isend(e->out + block * (size_t)member, bytes, MPI_BYTE, member, 0, e->comm,
                &e->requests[count++]);
  memory_copy(e->in + block * (size_t)own, e->out + block * (size_t)own, block);
  MPI_Waitall(count, e->requests, e->statuses);
}

void collective_run(struct exchange *e, long long size) {
  int bytes = (int)size;
  switch (e->options->pattern) {
  case PATTERN_ALLTOALL:
    if (e->by_messages)
      alltoall_by_messages(e, bytes);
    else
      MPI_Alltoall(e->out, bytes, MPI_BYTE, e->in, bytes, MPI_BYTE, e->comm);
    break;
  case PATTERN_ALLGATHER:
    MPI_Allgather(e->out, bytes, MPI_BYTE, e->in, bytes, MPI_BYTE, e->comm);
    break;
  case PATTERN_ALLREDUCE:
    MPI_Allreduce(e->out, e->in, bytes, MPI_BYTE, MPI_BXOR, e->comm);
    break;
  case PATTERN_BCAST:
    MPI_Bcast(e->out, bytes, MPI_BYTE, 0, e->comm);
    break;
  default:
    fail("not a collective");
  }
}

/// Only an all-to-all sends every member something else. The root alone fills a broadcast.
void collective_fill(struct exchange *e, long long size) {
  size_t block = (size_t)size;
  int blocks = e->options->pattern == PATTERN_ALLTOALL ? e->options->grid[0] : 1;
  if (e->options->pattern == PATTERN_BCAST && e->rank != member_rank(e, 0))
    return;
  for (int member = 0; member < blocks; ++member) {
    int tag = blocks > 1 ? member_rank(e, member) : 0;
    data_fill(e, e->out + block * (size_t)member, tag, size, block, member == 0);
  }
}

static void check_reduced(const struct exchange *e, long long size) {
  size_t bytes = (size_t)size;
  unsigned char *host = malloc(bytes + 1);
  if (host == NULL)
    fail("out of memory");
  memory_read(host, e->in, bytes);
  for (size_t at = 0; at < bytes; ++at) {
    unsigned expected = 0;
    for (int member = 0; member < e->options->grid[0]; ++member)
      expected ^= data_byte(member_rank(e, member), 0, size, at);
    if (host[at] != expected)
      fail("wrong data: byte %zu of %zu of a reduction", at, bytes);
  }
  free(host);
}

void collective_check(const struct exchange *e, long long size) {
  size_t block = (size_t)size;
  if (e->options->pattern == PATTERN_ALLREDUCE) {
    check_reduced(e, size);
  } else if (e->options->pattern == PATTERN_BCAST) {
    data_check(e->out, member_rank(e, 0), 0, size, block);
  } else {
    int is_alltoall = e->options->pattern == PATTERN_ALLTOALL;
    int tag = is_alltoall && e->options->grid[0] > 1 ? e->rank : 0;
    for (int member = 0; member < e->options->grid[0]; ++member)
      data_check(e->in + block * (size_t)member, member_rank(e, member), tag, size, block);
  }
}
