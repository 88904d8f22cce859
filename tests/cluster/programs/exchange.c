/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * exchange BYTES TIMES grid EXTENT... | exchange BYTES TIMES graph DEGREE SEED
 *
 * Makes a topology with reorder = 1 and sends BYTES to every neighbour that MPI names, TIMES times.
 * Rank 0 prints for each rank: its old rank, its new rank, its host, and the new ranks that it
 * sends to.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };

static unsigned long state;

static int draw(int below) {
  state = state * 6364136223846793005UL + 1442695040888963407UL;
  return (int)((state >> 33) % (unsigned long)below);
}

static MPI_Comm make_grid(int dimensions, char **words, int *targets, int *count) {
  int extents[8];
  int periods[8] = {0};
  MPI_Comm made;
  for (int d = 0; d < dimensions; ++d)
    extents[d] = atoi(words[d]);
  MPI_Cart_create(MPI_COMM_WORLD, dimensions, extents, periods, 1, &made);
  *count = 0;
  for (int d = 0; d < dimensions; ++d) {
    int ends[2];
    MPI_Cart_shift(made, d, 1, &ends[0], &ends[1]);
    for (int i = 0; i < 2; ++i)
      if (ends[i] != MPI_PROC_NULL)
        targets[(*count)++] = ends[i];
  }
  return made;
}

/* A random graph without direction, of which each role tells its own edges. */
static MPI_Comm make_graph(int degree, int *targets, int *count) {
  int rank;
  int size;
  int own[MOST];
  int edges = 0;
  int in;
  int weighted;
  int sources[MOST];
  int unused[MOST];
  MPI_Comm made;
  static char joined[MOST][MOST];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int e = 0; e < size * degree / 2; ++e) {
    int a = draw(size);
    int b = draw(size);
    joined[a][b] = joined[b][a] = a != b;
  }
  for (int other = 0; other < size; ++other)
    if (joined[rank][other])
      own[edges++] = other;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, edges, own, MPI_UNWEIGHTED, edges, own,
                                 MPI_UNWEIGHTED, MPI_INFO_NULL, 1, &made);
  MPI_Dist_graph_neighbors_count(made, &in, count, &weighted);
  MPI_Dist_graph_neighbors(made, in, sources, unused, *count, targets, unused);
  return made;
}

int main(int argc, char **argv) {
  int old_rank;
  int new_rank;
  int count = 0;
  int length;
  int targets[MOST];
  char host[MPI_MAX_PROCESSOR_NAME];
  MPI_Request requests[2 * MOST];
  MPI_Init(&argc, &argv);
  if (argc < 5)
    MPI_Abort(MPI_COMM_WORLD, 2);
  int bytes = atoi(argv[1]);
  int times = atoi(argv[2]);
  state = argc > 5 ? strtoul(argv[5], NULL, 10) : 0;
  MPI_Comm made = strcmp(argv[3], "grid") == 0 ? make_grid(argc - 4, argv + 4, targets, &count)
                                               : make_graph(atoi(argv[4]), targets, &count);
  char *sent = calloc((size_t)bytes, 1);
  char *got = malloc((size_t)bytes * (size_t)(count + 1));
  MPI_Comm_rank(MPI_COMM_WORLD, &old_rank);
  MPI_Comm_rank(made, &new_rank);
  MPI_Get_processor_name(host, &length);
  for (int t = 0; t < times; ++t) {
    for (int i = 0; i < count; ++i) {
      MPI_Irecv(got + (size_t)i * (size_t)bytes, bytes, MPI_BYTE, targets[i], t, made,
                &requests[2 * i]);
      MPI_Isend(sent, bytes, MPI_BYTE, targets[i], t, made, &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
  }
  char line[MOST * 8];
  int used = snprintf(line, sizeof line, "%d %d %s", old_rank, new_rank, host);
  for (int i = 0; i < count; ++i)
    used += snprintf(line + used, sizeof line - (size_t)used, " %d", targets[i]);
  static char lines[MOST][sizeof line];
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Gather(line, sizeof line, MPI_CHAR, lines, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
  for (int rank = 0; old_rank == 0 && rank < size; ++rank)
    puts(lines[rank]);
  free(sent);
  free(got);
  MPI_Finalize();
  return 0;
}
