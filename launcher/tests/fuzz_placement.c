/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Damaged placements, refused or used, never more: for builds with sanitizers.

     toposeat_fuzz_placement [COUNT [SEED]]

   The same inputs each time; SEED makes others. */
#include "placement.h"
#include "text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char SOUND[] =
    "# toposeat/placement/1\n# a remark\n# command: mpirun -n 3 ./app\n# vendor: nvidia\n"
    "# devices *: 0=0000:1a:00.0=GPU-a,1=0000:3d:00.0=GPU-b,2=0000:88:00.0=-\n"
    "# devices n1.example: 0=0000:1a:00.0=-\n"
    "rank\thost\tlocal_rank\tpci\tuuid\tindex\tcpus\tmemnode\tnic\n"
    "0\t*\t0\t0000:88:00.0\tGPU-c\t2\t0-3,8\t0\tmlx5_0:1\n"
    "1\tn1.example\t0\t0000:1a:00.0\t-\t0\t1\t1\t-\n"
    "2\t*\t1\t0000:3d:00.0\tGPU-b\t1\t0\t-\t-\n";

enum { ROOM = 1 << 17 };

static uint64_t state;

static size_t below(size_t limit) { /* xorshift64; the small bias is of no matter */
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return limit == 0 ? 0 : (size_t)(state % limit);
}

/* Puts `count` bytes of `from` in the place of `cut` bytes at `at`; the new length. */
static size_t splice(char *text, size_t length, size_t at, size_t cut, const char *from,
                     size_t count) {
  if (at > length || cut > length - at || length - cut + count > ROOM)
    return length;
  memmove(text + at + count, text + at + cut, length - at - cut);
  memcpy(text + at, from, count);
  return length - cut + count;
}

static size_t damage(char *text, size_t length) {
  static const char alphabet[] = "\t\n\r #:=-,.*0123456789abcdefxGPU\0\xff\x1b\xc2\x9b";
  static const char *const words[] = {"99999999999999999999", "-1", "0-99999", "# devices *: ",
                                      "0=0000:1a:00.0=-,",    "\t", "- ",      "# vendor: amd\n"};
  char piece[64];
  size_t at = below(length + 1), count = below(sizeof piece);
  const char *word = words[below(sizeof words / sizeof *words)];
  switch (below(6)) {
  case 0: /* cut */
    return at;
  case 1: /* a byte of another kind */
    piece[0] = alphabet[below(sizeof alphabet - 1)];
    return splice(text, length, at, below(3), piece, 1);
  case 2: /* a flipped bit */
    if (at < length)
      text[at] = (char)(text[at] ^ (1 << below(8)));
    return length;
  case 3: /* a piece once more, elsewhere */
    if (at + count > length)
      return length;
    memcpy(piece, text + at, count);
    return splice(text, length, below(length + 1), 0, piece, count);
  case 4: /* a word, often many times */
    for (size_t times = 1 + (below(4) == 0 ? below(2000) : 0); times > 0; times--)
      length = splice(text, length, at, 0, word, strlen(word));
    return length;
  default: /* a piece lost */
    return splice(text, length, at, at + count <= length ? count : 0, "", 0);
  }
}

/* What toposeat-exec asks of a placement that it has read. */
static void use(const struct tps_placement *placement) {
  for (size_t i = 0; i < placement->seat_count; i++) {
    const struct tps_seat *seat = &placement->seats[i];
    size_t count;
    if (tps_placement_find_local(placement, seat->host, seat->local_rank) == NULL)
      abort();
    free(tps_placement_devices_on(placement, seat->host, &count));
    if (count == 0)
      abort();
  }
}

static bool read_one(int file, const char *path, const char *text, size_t length) {
  char error[512] = "";
  struct tps_placement placement;
  if (ftruncate(file, 0) != 0 || pwrite(file, text, length, 0) != (ssize_t)length)
    abort();
  bool read = tps_placement_load(&placement, path, error, sizeof error);
  if (read) {
    use(&placement);
    tps_placement_free(&placement);
    return true;
  }
  struct tps_text shown;
  tps_text_init(&shown);
  tps_text_add_escaped(&shown, error);
  for (size_t i = 0; i < shown.length; i++)
    if ((unsigned char)shown.data[i] < 0x20 || shown.data[i] == 0x7f)
      abort();
  if (strncmp(error, path, strlen(path)) != 0) /* nothing is refused without its place */
    abort();
  tps_text_free(&shown);
  return false;
}

int main(int argc, char **argv) {
  unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
  state = argc > 2 ? strtoull(argv[2], NULL, 10) : UINT64_C(20261122);
  char path[64], *text = tps_allocate(ROOM, 1);
  int file = memfd_create("placement", MFD_CLOEXEC);
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (file < 0 || !read_one(file, path, SOUND, sizeof SOUND - 1))
    return 1;
  unsigned long read = 0;
  for (unsigned long i = 0; i < count; i++) {
    size_t length = sizeof SOUND - 1;
    memcpy(text, SOUND, length);
    for (size_t times = 1 + below(4); times > 0; times--)
      length = damage(text, length);
    read += read_one(file, path, text, length);
  }
  printf("%lu damaged placements: %lu read, %lu refused\n", count, read, count - read);
  close(file);
  free(text);
  return read == 0 || read == count;
}
