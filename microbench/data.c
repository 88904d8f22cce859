// What the messages carry: bytes that tell sender, tag and size, and the check of those received.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "microbench.h"

#include <stdint.h>
#include <stdlib.h>

/// The byte at `at` of the message with `tag` from `sender`: no two messages are alike, nor are
/// those of two sizes, so that nothing left over from before passes for the right data.
unsigned char data_byte(int sender, int tag, long long size, size_t at) {
  uint64_t key = (uint64_t)sender * 0x9e3779b97f4a7c15U + (uint64_t)tag * 0xc2b2ae3d27d4eb4fU +
                 (uint64_t)size * 0x165667b19e3779f9U + at;
  key ^= key >> 29;
  key *= 0xbf58476d1ce4e5b9U;
  return (unsigned char)(key >> 56);
}

static unsigned char *staging(size_t bytes) {
  unsigned char *host = malloc(bytes + 1);
  if (host == NULL)
    fail("out of memory");
  return host;
}

void data_fill(const struct exchange *e, unsigned char *buffer, int tag, long long size,
               size_t bytes, int is_first) {
  unsigned char *host = staging(bytes);
  for (size_t at = 0; at < bytes; ++at)
    host[at] = data_byte(e->rank, tag, size, at);
  if (is_first && bytes > 0 && e->options->corrupt == e->rank)
    host[bytes / 2] = (unsigned char)(host[bytes / 2] ^ 1U);
  memory_write(buffer, host, bytes);
  free(host);
}

void data_check(const unsigned char *buffer, int sender, int tag, long long size, size_t bytes) {
  unsigned char *host = staging(bytes);
  memory_read(host, buffer, bytes);
  for (size_t at = 0; at < bytes; ++at)
    if (host[at] != data_byte(sender, tag, size, at))
      fail("wrong data: byte %zu of %zu from rank %d", at, bytes, sender);
  free(host);
}
