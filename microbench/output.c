// What the microbenchmark says: results on the standard output stream, failures on the error
// stream.
//
// Rank 0 writes JSON, one object a line, to the standard output stream:
//
//   {"toposeat_microbench": 1, "ranks": 16, "mpi": "...", "buffers": "host", "device": ""}
//   {"toposeat_microbench": 1, "bytes": 1024, "seconds": [...]}     one per size
//   {"toposeat_microbench": 1, "done": true}
//   {"toposeat_microbench": 1, "error": "..."}                      instead: nothing was measured
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "microbench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void fail(const char *format, ...) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  va_list arguments;
  char text[256];
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char *at = text; *at != '\0'; ++at) // names of files and devices may hold anything
    if (*at < ' ' || *at > '~')
      *at = '?';
  fprintf(stderr, "toposeat-microbench: rank %d: %s\n", rank, text);
  fflush(stderr);
  // MPICH's launcher forgets what it has not passed on when it hears of the end.
  const struct timespec a_moment = {.tv_nsec = 200000000};
  nanosleep(&a_moment, NULL);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

/// The first line of `text` as a JSON string.
static void print_string(const char *text) {
  putchar('"');
  for (; *text != '\0' && *text != '\n'; ++text) {
    if (*text == '"' || *text == '\\')
      putchar('\\');
    if ((unsigned char)*text >= ' ')
      putchar(*text);
  }
  putchar('"');
}

void print_head(const struct exchange *e, const char *device) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  printf("{\"toposeat_microbench\": 1, \"ranks\": %d, \"mpi\": ", e->size);
  print_string(version);
  printf(", \"buffers\": \"%s\", \"device\": ", e->options->device ? "device" : "host");
  print_string(device);
  printf(", \"collective\": \"%s\"}\n", e->by_messages ? "messages" : "library");
}

void print_samples(long long size, const double *seconds, int count) {
  printf("{\"toposeat_microbench\": 1, \"bytes\": %lld, \"seconds\": [", size);
  for (int i = 0; i < count; ++i)
    printf("%s%.9e", i == 0 ? "" : ", ", seconds[i]);
  printf("]}\n");
  fflush(stdout);
}

void print_done(void) { printf("{\"toposeat_microbench\": 1, \"done\": true}\n"); }

int refuse(const char *cause) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    printf("{\"toposeat_microbench\": 1, \"error\": ");
    print_string(cause);
    printf("}\n");
    fflush(stdout);
  }
  return 2;
}
