/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Feeds a target damaged copies of its seeds.

     fuzz_TARGET COUNT SEED FOLDER

   The same inputs for the same SEED. Exit code 1 where none of them was taken, or none refused. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 16, MOST_SEEDS = 64 };

struct text {
  char bytes[ROOM];
  size_t length;
};

static struct text *seeds[MOST_SEEDS];
static size_t seed_count;
static uint64_t state;

static size_t below(size_t limit) { /* xorshift64; the small bias is of no matter */
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return limit == 0 ? 0 : (size_t)(state % limit);
}

/* Puts `count` bytes of `from` in the place of `cut` bytes at `at`. */
static void splice(struct text *text, size_t at, size_t cut, const char *from, size_t count) {
  if (at > text->length || cut > text->length - at || text->length - cut + count > ROOM)
    return;
  memmove(text->bytes + at + count, text->bytes + at + cut, text->length - at - cut);
  memcpy(text->bytes + at, from, count);
  text->length += count - cut;
}

static void damage(struct text *text) {
  static const char alphabet[] = "\t\n\r #:=-,.*0123456789abcdefxGPU\0\xff\x1b\xc2\x9b";
  static const char *const words[] = {"99999999999999999999", "-1", "0-99999", "4294967296", "\t"};
  const struct text *other = seeds[below(seed_count)];
  const char *word = words[below(sizeof words / sizeof *words)];
  char byte = (char)below(256);
  size_t at = below(text->length + 1);
  size_t count = below(64);
  size_t from = below(other->length + 1);
  size_t rest = other->length - from;
  switch (below(7)) {
  case 0: /* cut */
    text->length = at;
    break;
  case 1: /* a byte of another kind */
    splice(text, at, below(3), &alphabet[below(sizeof alphabet - 1)], 1);
    break;
  case 2: /* any byte */
    splice(text, at, below(2), &byte, 1);
    break;
  case 3: /* a flipped bit */
    if (at < text->length)
      text->bytes[at] = (char)(text->bytes[at] ^ (1 << below(8)));
    break;
  case 4: /* a piece of a seed, elsewhere */
    splice(text, at, 0, other->bytes + from, count < rest ? count : rest);
    break;
  case 5: /* a word, often many times */
    for (size_t times = 1 + (below(4) == 0 ? below(2000) : 0); times > 0; times--)
      splice(text, at, 0, word, strlen(word));
    break;
  default: /* a piece lost */
    splice(text, at, at + count <= text->length ? count : 0, "", 0);
  }
}

static void read_seeds(const char *folder) {
  DIR *directory = opendir(folder);
  for (struct dirent *found; directory != NULL && (found = readdir(directory)) != NULL;) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, found->d_name);
    FILE *file = found->d_name[0] == '.' || seed_count == MOST_SEEDS ? NULL : fopen(path, "rbe");
    if (file == NULL)
      continue;
    seeds[seed_count] = malloc(sizeof(struct text));
    if (seeds[seed_count] != NULL) {
      seeds[seed_count]->length = fread(seeds[seed_count]->bytes, 1, ROOM, file);
      seed_count += 1;
    }
    fclose(file);
  }
  if (directory != NULL)
    closedir(directory);
}

/* What is behind the input's end is no memory of the target. */
static void feed(const struct text *text) {
  uint8_t *copy = malloc(text->length + 1);
  if (copy == NULL)
    abort();
  uint8_t *exact = realloc(copy, text->length == 0 ? 1 : text->length);
  memcpy(exact, text->bytes, text->length);
  LLVMFuzzerTestOneInput(exact, text->length);
  free(exact);
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  unsigned long count = strtoul(argv[1], NULL, 10);
  state = strtoull(argv[2], NULL, 10) | 1;
  read_seeds(argv[3]);
  struct text *text = malloc(sizeof *text);
  if (seed_count == 0 || text == NULL)
    return 2;
  for (size_t i = 0; i < seed_count; i++)
    feed(seeds[i]);
  unsigned long sound = fuzz_taken;
  fuzz_taken = 0;
  for (unsigned long i = 0; i < count; i++) {
    *text = *seeds[below(seed_count)];
    for (size_t times = 1 + below(4); times > 0; times--)
      damage(text);
    feed(text);
  }
  fprintf(stderr, "%zu seeds, %lu taken; %lu damaged ones: %lu taken, %lu refused\n", seed_count,
          sound, count, fuzz_taken, count - fuzz_taken);
  free(text);
  for (size_t i = 0; i < seed_count; i++)
    free(seeds[i]);
  return sound == 0 || fuzz_taken == 0 || fuzz_taken == count;
}
