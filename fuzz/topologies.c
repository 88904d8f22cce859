/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Grids and graphs that a program lets MPI reorder. The first line of an input says what links
   between devices cost; then there are numbers: how many ranks, the node of each, the device of
   each, which constructor, and its arguments. Arrays are as long as MPI wants them and no longer.
 */
#include "fuzz.h"

#include "presence.h"
#include "standin_world.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 64, MOST_NUMBERS = 4096, UNTOUCHED = -7, UNDEFINED = -32766 };

/* Every rank is there: who is missing is another target's question. */
bool tpr__all_present(const struct tpr_world *world, char *why, size_t size) {
  (void)why, (void)size;
  return world->size > 1;
}

/* ---- numbers ---- */

static char *numbers;

static int next_number(void) {
  char *end = NULL;
  long value = strtol(numbers, &end, 10);
  if (end != numbers)
    numbers = end;
  else
    numbers += strcspn(numbers, " \n") + (*numbers != '\0');
  return value > INT_MAX ? INT_MAX : value < INT_MIN ? INT_MIN : (int)value;
}

static int next_below(int limit) { return (int)((unsigned)next_number() % (unsigned)limit); }

static int next_count(void) {
  int count = next_number();
  return count > MOST_NUMBERS ? MOST_NUMBERS : count;
}

static int *next_array(int count) {
  int *made = malloc((count > 0 ? (size_t)count : 1) * sizeof *made);
  if (made == NULL)
    abort();
  for (int i = 0; i < count; ++i)
    made[i] = next_number();
  return made;
}

/* Open MPI's constants, or as many weights as there are edges. */
static const int *next_weights(int count, int **owned) {
  *owned = NULL;
  switch (next_below(4)) {
  case 0:
    return (const int *)2; /* MPI_UNWEIGHTED */
  case 1:
    return *owned = next_array(count);
  case 2:
    return (const int *)3; /* MPI_WEIGHTS_EMPTY */
  default:
    return NULL;
  }
}

/* ---- where ranks are ---- */

static int node[MOST_RANKS], device[MOST_RANKS];

static void place(int rank, int *numbers_of_rank) {
  numbers_of_rank[0] = node[rank];
  numbers_of_rank[1] = device[rank];
}

static void begin(const char *costs) {
  int devices = 1;
  for (const char *at = costs; *at != '\0'; ++at)
    devices += *at == ';';
  int ranks = next_below(MOST_RANKS + 1);
  standin_size = ranks < 2 ? 2 : ranks;
  for (int i = 0; i < standin_size; ++i)
    node[i] = next_below(8);
  for (int i = 0; i < standin_size; ++i)
    device[i] = next_below(devices);
  standin_place = place;
  setenv("TOPOSEAT_REORDER", "quiet", 1);
  setenv("TOPOSEAT_REORDER_COSTS", costs, 1);
  MPI_Init(NULL, NULL);
}

/* ---- the calls ---- */

static void check(int code, int new_rank) {
  bool known =
      new_rank == UNTOUCHED || new_rank == UNDEFINED || (new_rank >= 0 && new_rank < standin_size);
  if (code != 0 || !known || standin_key >= standin_size)
    abort();
}

static void call_grid(bool maps) {
  MPI_Comm made = NULL;
  int new_rank = UNTOUCHED;
  int count = next_count();
  int *dims = next_array(count);
  int *periods = next_array(count);
  int code = maps ? MPI_Cart_map(&ompi_mpi_comm_world, count, dims, periods, &new_rank)
                  : MPI_Cart_create(&ompi_mpi_comm_world, count, dims, periods, 1, &made);
  check(code, new_rank);
  free(dims);
  free(periods);
}

static void call_graph(bool maps) {
  MPI_Comm made = NULL;
  int new_rank = UNTOUCHED;
  int count = next_count();
  int *index = next_array(count);
  if (count > 0 && index[count - 1] > MOST_NUMBERS)
    index[count - 1] = MOST_NUMBERS;
  int *edges = next_array(count > 0 ? index[count - 1] : 0);
  int code = maps ? MPI_Graph_map(&ompi_mpi_comm_world, count, index, edges, &new_rank)
                  : MPI_Graph_create(&ompi_mpi_comm_world, count, index, edges, 1, &made);
  check(code, new_rank);
  free(index);
  free(edges);
}

static void call_listed(void) {
  MPI_Comm made = NULL;
  int all = 0;
  int count = next_count();
  int *sources = next_array(count);
  int *degrees = next_array(count);
  for (int i = 0; i < count; ++i) {
    if (degrees[i] > MOST_NUMBERS - all)
      degrees[i] = MOST_NUMBERS - all;
    all += degrees[i] > 0 ? degrees[i] : 0;
  }
  int *targets = next_array(all);
  int *owned = NULL;
  const int *weights = next_weights(all, &owned);
  check(MPI_Dist_graph_create(&ompi_mpi_comm_world, count, sources, degrees, targets, weights, NULL,
                              1, &made),
        UNTOUCHED);
  free(sources);
  free(degrees);
  free(targets);
  free(owned);
}

static void call_adjacent(void) {
  MPI_Comm made = NULL;
  int *owned[2];
  int in = next_count();
  int *sources = next_array(in);
  const int *source_weights = next_weights(in, &owned[0]);
  int out = next_count();
  int *targets = next_array(out);
  const int *target_weights = next_weights(out, &owned[1]);
  check(MPI_Dist_graph_create_adjacent(&ompi_mpi_comm_world, in, sources, source_weights, out,
                                       targets, target_weights, NULL, 1, &made),
        UNTOUCHED);
  free(sources);
  free(targets);
  free(owned[0]);
  free(owned[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = calloc(size + 2, 1);
  if (text == NULL)
    return 0;
  memcpy(text, data, size);
  numbers = text + strcspn(text, "\n");
  if (*numbers == '\n')
    *numbers++ = '\0';
  begin(text);
  standin_key = -1;
  int kind = next_below(6);
  if (kind < 2)
    call_grid(kind == 1);
  else if (kind < 4)
    call_graph(kind == 3);
  else if (kind == 4)
    call_listed();
  else
    call_adjacent();
  MPI_Finalize();
  free(text);
  return 0;
}
