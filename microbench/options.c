// The command line. No getopt: its state is global, and under SMPI all ranks are one process.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "microbench.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const pattern_names[PATTERN_COUNT] = {"neighbours", "ring",      "alltoall",
                                                         "allgather",  "allreduce", "bcast"};

static int complain(const char *option, const char *value) {
  char text[200];
  snprintf(text, sizeof text, "%s: cannot use '%s'", option, value);
  return refuse(text);
}

/// A whole number in [least, most]; returns 0 if the text is one.
static int parse_whole(const char *text, long long least, long long most, long long *value) {
  char *end = NULL;
  *value = strtoll(text, &end, 10);
  return end == text || *end != '\0' || *value < least || *value > most;
}

static int parse_int(const char *text, int least, int *value) {
  long long number = 0;
  if (parse_whole(text, least, INT_MAX, &number) != 0)
    return 1;
  *value = (int)number;
  return 0;
}

/// Numbers >= 1 with a separator between them; returns how many, or 0 on anything else.
static int parse_list(const char *text, char separator, int room, long long *values) {
  int count = 0;
  while (count < room) {
    char *end = NULL;
    values[count] = strtoll(text, &end, 10);
    if (end == text || values[count] < 1)
      return 0;
    ++count;
    if (*end == '\0')
      return count;
    if (*end != separator)
      return 0;
    text = end + 1;
  }
  return 0;
}

static int parse_grid(const char *text, struct options *options) {
  long long extents[MAX_DIMENSIONS];
  options->dimensions = parse_list(text, 'x', MAX_DIMENSIONS, extents);
  for (int d = 0; d < options->dimensions; ++d) {
    if (extents[d] > INT_MAX)
      return 1;
    options->grid[d] = (int)extents[d];
  }
  return options->dimensions == 0;
}

static int parse_pattern(const char *text, struct options *options) {
  for (int p = 0; p < PATTERN_COUNT; ++p) {
    if (strcmp(text, pattern_names[p]) == 0) {
      options->pattern = (enum pattern)p;
      return 0;
    }
  }
  return 1;
}

static int parse_weight(const char *text, struct options *options) {
  char *end = NULL;
  options->weight = strtod(text, &end);
  return end == text || *end != '\0' || !(options->weight > 0) || options->weight > 1e6;
}

static int parse_buffers(const char *text, struct options *options) {
  options->device = strcmp(text, "device") == 0;
  return !options->device && strcmp(text, "host") != 0;
}

static int parse_flag(const char *name, struct options *options) {
  if (strcmp(name, "--wrap") == 0)
    options->wrap = 1;
  else if (strcmp(name, "--diagonals") == 0)
    options->diagonals = 1;
  else
    return 1;
  return 0;
}

/// Returns 0, 1 for a value that makes no sense, -1 for a name that is not known.
static int parse_value(const char *name, const char *value, struct options *options) {
  if (strcmp(name, "--pattern") == 0)
    return parse_pattern(value, options);
  if (strcmp(name, "--grid") == 0)
    return parse_grid(value, options);
  if (strcmp(name, "--weight") == 0)
    return parse_weight(value, options);
  if (strcmp(name, "--layers") == 0)
    return parse_int(value, 1, &options->layers);
  if (strcmp(name, "--sizes") == 0) {
    options->size_count = parse_list(value, ',', MAX_SIZES, options->sizes);
    return options->size_count == 0;
  }
  if (strcmp(name, "--iterations") == 0)
    return parse_int(value, 1, &options->iterations);
  if (strcmp(name, "--batch") == 0)
    return parse_int(value, 1, &options->batch);
  if (strcmp(name, "--batch-bytes") == 0)
    return parse_int(value, 1, &options->batch_bytes);
  if (strcmp(name, "--warmup") == 0)
    return parse_int(value, 0, &options->warmup);
  if (strcmp(name, "--buffers") == 0)
    return parse_buffers(value, options);
  if (strcmp(name, "--corrupt") == 0)
    return parse_int(value, 0, &options->corrupt);
  return -1;
}

static int check(const struct options *options) {
  int ranks = 0;
  double points = 1; // exact as far as it matters
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int d = 0; d < options->dimensions; ++d)
    points *= options->grid[d];
  if (options->dimensions == 0 || options->size_count == 0)
    return complain("--grid and --sizes", "nothing");
  for (int s = 0; s < options->size_count; ++s) {
    double largest = (double)options->sizes[s] * fmax(options->weight, 1) * options->layers;
    if (largest > INT_MAX)
      return complain("--sizes", "messages above 2 GiB");
  }
  if (points != ranks) {
    char text[200];
    snprintf(text, sizeof text, "the grid has %.0f points, this MPI started %d rank%s%s", points,
             ranks, ranks == 1 ? "" : "s",
             ranks == 1 ? ": the program was compiled for another MPI than the launcher's" : "");
    return refuse(text);
  }
  return 0;
}

int options_parse(struct options *options, int argc, char **argv) {
  *options = (struct options){.weight = 1,
                              .layers = 1,
                              .iterations = 20,
                              .batch = 10,
                              .batch_bytes = 65536,
                              .warmup = 2,
                              .corrupt = -1};
  for (int i = 1; i < argc; ++i) {
    if (parse_flag(argv[i], options) == 0)
      continue;
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    int status = parse_value(argv[i], value, options);
    if (status != 0)
      return complain(argv[i], status < 0 ? "an unknown option" : value);
    ++i;
  }
  return check(options);
}
