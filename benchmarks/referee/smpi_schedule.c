// Plays a schedule of messages on SMPI and prints the simulated time of the slowest rank.
//
// usage: smpi_schedule FILE   with lines "phase sender receiver bytes", phases rising from 0
//
// A rank enters a phase when all its own messages of the phase before are done; there is no
// barrier. Every rank sends from one buffer and receives into one: only the simulator may do that.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

struct message {
  int phase, sender, receiver, bytes;
};

static struct message *messages;
static size_t count;
static int most = 1; // bytes of the largest message

static void fail(const char *path) {
  fprintf(stderr, "cannot read %s\n", path);
  exit(1);
}

/// The next number of a line, which goes on behind it.
static int number(char **line, const char *path) {
  char *end;
  long value = strtol(*line, &end, 10);
  if (end == *line || value < 0 || value > INT_MAX)
    fail(path);
  *line = end;
  return (int)value;
}

static void add(const struct message *next) {
  static size_t room;
  if (count == room) {
    size_t more = 2 * room + 64;
    struct message *moved = realloc(messages, more * sizeof *messages);
    if (moved == NULL) {
      fprintf(stderr, "no memory for %zu messages\n", more);
      exit(1);
    }
    messages = moved;
    room = more;
  }
  messages[count++] = *next;
  most = next->bytes > most ? next->bytes : most;
}

static void read_messages(const char *path) {
  char text[128];
  FILE *file = path != NULL ? fopen(path, "r") : NULL;
  if (file == NULL)
    fail(path != NULL ? path : "the schedule: no FILE is given");
  while (fgets(text, sizeof text, file) != NULL) {
    char *line = text;
    struct message next;
    next.phase = number(&line, path);
    next.sender = number(&line, path);
    next.receiver = number(&line, path);
    next.bytes = number(&line, path);
    add(&next);
  }
  if (ferror(file) != 0)
    fail(path);
  fclose(file);
}

/// Issues the messages of one phase and waits for them; returns where the next one begins.
static size_t play(size_t first, int rank, char *out, char *in, MPI_Request *requests) {
  int issued = 0;
  size_t i = first;
  for (; i < count && messages[i].phase == messages[first].phase; ++i) {
    const struct message *m = &messages[i];
    if (m->receiver == rank)
      MPI_Irecv(in, m->bytes, MPI_BYTE, m->sender, 0, MPI_COMM_WORLD, &requests[issued++]);
    if (m->sender == rank)
      MPI_Isend(out, m->bytes, MPI_BYTE, m->receiver, 0, MPI_COMM_WORLD, &requests[issued++]);
  }
  MPI_Waitall(issued, requests, MPI_STATUSES_IGNORE);
  return i;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  read_messages(argv[1]);
  char *out = SMPI_SHARED_MALLOC((size_t)most);
  char *in = SMPI_SHARED_MALLOC((size_t)most);
  MPI_Request *requests = (MPI_Request *)malloc((2 * count + 1) * sizeof *requests);
  double start = MPI_Wtime();
  for (size_t i = 0; i < count;)
    i = play(i, rank, out, in, requests);
  double mine = MPI_Wtime() - start;
  double slowest = 0;
  // Not a barrier, which would add two latencies.
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("seconds %.12e\n", slowest);
  SMPI_SHARED_FREE(in);
  SMPI_SHARED_FREE(out);
  free((void *)requests);
  free(messages);
  MPI_Finalize();
  return 0;
}
