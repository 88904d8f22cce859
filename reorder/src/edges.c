/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "edges.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 3 }; /* of one edge */

struct tpr_triples tpr__triples(long long count) {
  struct tpr_triples made = {.count = -1};
  if (count >= 0 && count <= INT_MAX / NUMBERS)
    made.numbers = malloc(sizeof *made.numbers * ((size_t)count * NUMBERS + 1));
  if (made.numbers != NULL)
    made.count = (int)count;
  return made;
}

/* Where each rank's numbers begin, and how many there are in all; -1: more than an int counts. */
static int offsets(int size, int *numbers, int *begin) {
  long long all = 0;
  for (int i = 0; i < size; ++i) {
    begin[i] = (int)all;
    numbers[i] *= NUMBERS;
    all += numbers[i];
    if (all > INT_MAX)
      return -1;
  }
  return (int)all;
}

static enum tpr_answer map_all(const struct tpr_order *order, const int *numbers, int count,
                               struct tpr_links *links) {
  int *columns = malloc(sizeof *columns * ((size_t)count * NUMBERS + 1));
  if (columns == NULL)
    return TPR_FAILED;
  int *sources = columns;
  int *targets = columns + count;
  int *weights = targets + count;
  for (int e = 0; e < count; ++e) {
    sources[e] = numbers[(size_t)e * NUMBERS];
    targets[e] = numbers[(size_t)e * NUMBERS + 1];
    weights[e] = numbers[(size_t)e * NUMBERS + 2];
  }
  const struct tpr_edges edges = {(size_t)count, sources, targets, weights};
  enum tpr_answer answer =
      tpr__map_graph(order->size, &order->places, &edges, order->new_rank, links);
  free(columns);
  return answer;
}

enum tpr_answer tpr__edges_map(struct tpr_order *order, const struct tpr_triples *own,
                               struct tpr_links *links) {
  bool root = order->rank == 0;
  size_t ranks = root ? (size_t)order->size : 1;
  int *counts = malloc(sizeof *counts * ranks);
  int *begin = malloc(sizeof *begin * ranks);
  int *numbers = NULL;
  int all = -1;
  enum tpr_answer answer = TPR_FAILED;
  tpr_word type = tpr__abi.type_int;
  bool room = counts != NULL && begin != NULL;
  if (!tpr__order_agree(order, room) || !room)
    goto done;
  if (tpr__mpi.Gather(&own->count, 1, type, counts, 1, type, 0, order->comm) != TPR_SUCCESS)
    goto done;
  if (root) {
    all = offsets(order->size, counts, begin);
    numbers = all >= 0 ? malloc(sizeof *numbers * ((size_t)all + 1)) : NULL;
  }
  room = !root || numbers != NULL;
  if (!tpr__order_agree(order, room) || !room)
    goto done;
  if (tpr__mpi.Gatherv(own->numbers, own->count * NUMBERS, type, numbers, counts, begin, type, 0,
                       order->comm) == TPR_SUCCESS &&
      root)
    answer = map_all(order, numbers, all / NUMBERS, links);
done:
  free(counts);
  free(begin);
  free(numbers);
  return answer;
}

static int *packed(const struct tpr_neighbours *own) {
  size_t in = (size_t)own->in;
  size_t out = (size_t)own->out;
  int *numbers = malloc(sizeof *numbers * ((in + out) * 2 + 1));
  if (numbers == NULL)
    return NULL;
  int *next = numbers;
  const struct {
    const int *from;
    size_t count;
  } parts[] = {{own->sources, in},
               {own->targets, out},
               {own->source_weights, own->weighted ? in : 0},
               {own->target_weights, own->weighted ? out : 0}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    if (parts[i].count > 0)
      memcpy(next, parts[i].from, parts[i].count * sizeof *next);
    next += parts[i].count;
  }
  return numbers;
}

static void unpack(struct tpr_neighbours *role, int in, int out) {
  int *next = role->room;
  role->in = in;
  role->out = out;
  role->sources = next;
  role->targets = role->sources + in;
  role->source_weights = role->targets + out;
  role->target_weights = role->source_weights + in;
}

bool tpr__edges_exchange(const struct tpr_order *order, tpr_word permuted,
                         const struct tpr_neighbours *own, struct tpr_neighbours *role) {
  /* The role that this process had is at the process whose rank is now this one's old rank. */
  int to = order->rank;
  int from = order->new_rank[order->new_rank[order->rank]];
  tpr_word type = tpr__abi.type_int;
  struct tpr_status status;
  int factor = own->weighted ? 2 : 1;
  int mine[2] = {own->in, own->out};
  int theirs[2] = {0, 0};
  int *numbers = packed(own);
  bool good = tpr__mpi.Sendrecv(mine, 2, type, to, 0, theirs, 2, type, from, 0, permuted,
                                &status) == TPR_SUCCESS;
  size_t room = good ? ((size_t)theirs[0] + (size_t)theirs[1]) * 2 + 1 : 1;
  role->room = malloc(sizeof *role->room * room);
  good = good && numbers != NULL && role->room != NULL;
  role->weighted = own->weighted;
  if (tpr__order_agree(order, good) && good) {
    good = tpr__mpi.Sendrecv(numbers, (mine[0] + mine[1]) * factor, type, to, 1, role->room,
                             (theirs[0] + theirs[1]) * factor, type, from, 1, permuted,
                             &status) == TPR_SUCCESS;
    if (good)
      unpack(role, theirs[0], theirs[1]);
  } else {
    good = false;
  }
  free(numbers);
  return good;
}
