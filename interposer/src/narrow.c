/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * X_c calls on an MPI that has only X (Open MPI before 6). A program built against newer headers
 * refers to X_c weakly and would do without; once this library defines X_c it must work, so the
 * counts are converted and X is called. Counts beyond INT_MAX are refused with an MPI error, as
 * they would be.
 */
#include <limits.h>
#include <stdlib.h>

#include "count.h"

#define KEPT 1024u

int tps__narrow_one(struct tps_narrowing *state, abi_count value) {
  if (value > INT_MAX || value < INT_MIN) {
    state->failed = true;
    return 0;
  }
  return (int)value;
}

static int peers_of(tps_word comm) {
  typedef int ask(tps_word, int *);
  int size = 0;
  int inter = 0;
  ask *test = (ask *)tps__find("PMPI_Comm_test_inter");
  if (test == NULL || test(comm, &inter) != 0)
    return -1;
  ask *count = (ask *)tps__find(inter ? "PMPI_Comm_remote_size" : "PMPI_Comm_size");
  return count != NULL && count(comm, &size) == 0 ? size : -1;
}

static bool is_root(tps_word comm, int root) {
  typedef int ask(tps_word, int *);
  int rank = -1;
  ask *find = (ask *)tps__find("PMPI_Comm_rank");
  return root == ABI_ROOT || (find != NULL && find(comm, &rank) == 0 && rank == root);
}

static int neighbours_of(tps_word comm, bool outgoing) {
  struct tps_comm *over = tps__recording() ? tps__comm_of(comm, false) : NULL;
  if (over == NULL || !tps__comm_neighbours(over))
    return -1;
  return outgoing ? over->out_degree : over->in_degree;
}

/* How many elements the array has; -1: cannot tell. */
static int length_of(const struct tps_narrowing *state, enum tps_extent extent) {
  switch (extent) {
  case TPS_ROOT_ONLY:
    return is_root(state->comm, state->root) ? peers_of(state->comm) : 0;
  case TPS_OUT:
    return neighbours_of(state->comm, true);
  case TPS_IN:
    return neighbours_of(state->comm, false);
  case TPS_ALL:
    break;
  }
  return peers_of(state->comm);
}

const int *tps__narrow_many(struct tps_narrowing *state, const void *values,
                            enum tps_extent extent) {
  if (values == NULL)
    return NULL;
  const abi_count *wide = values;
  int length = length_of(state, extent);
  int *made = length < 0 ? NULL : malloc(sizeof *made * ((size_t)length + 1));
  if (made == NULL) {
    state->failed = true;
    return NULL;
  }
  for (int i = 0; i < length; ++i)
    made[i] = tps__narrow_one(state, wide[i]);
  state->arrays[state->used++] = made;
  return made;
}

/*
 * Nonblocking calls may read the arrays until they complete, which is not watched here: the last
 * KEPT arrays stay alive. Those of persistent requests stay for good.
 */
static void keep(int *array) {
  static int *kept[KEPT];
  static unsigned next;
  unsigned index = __atomic_fetch_add(&next, 1u, __ATOMIC_RELAXED) % KEPT;
  free(__atomic_exchange_n(&kept[index], array, __ATOMIC_ACQ_REL));
}

void tps__narrow_end(struct tps_narrowing *state) {
  for (int i = 0; i < state->used; ++i) {
    if (state->lifetime == TPS_DURING_CALL)
      free(state->arrays[i]);
    else if (state->lifetime == TPS_UNTIL_COMPLETE)
      keep(state->arrays[i]);
  }
}
