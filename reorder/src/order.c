/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodes.h"
#include "wrapped.h"

#define MOST_LINES 8 /* that one rank writes about its communicators */

/* Whether ranks differ in what an order could be chosen by. */
static bool several(const struct tpr_places *places, int size) {
  for (int i = 1; i < size; ++i)
    if (places->node[i] != places->node[0] ||
        (places->device != NULL && places->device[i] != places->device[0]))
      return true;
  return false;
}

bool tpr__order_begin(struct tpr_order *order, const char *call, tpr_word comm) {
  int inter = 0;
  *order = (struct tpr_order){.call = call, .comm = tpr__handle(comm)};
  if (tpr__depth > 0 || !tpr__nodes_known() || order->comm == tpr__abi.comm_null ||
      tpr__mpi.Comm_test_inter(order->comm, &inter) != TPR_SUCCESS || inter ||
      tpr__mpi.Comm_size(order->comm, &order->size) != TPR_SUCCESS ||
      tpr__mpi.Comm_rank(order->comm, &order->rank) != TPR_SUCCESS || order->size < 2 ||
      !tpr__places_of(order->comm, order->size, &order->places))
    return false;
  if (!several(&order->places, order->size)) {
    tpr__places_free(&order->places);
    return false;
  }
  tpr__depth += 1;
  order->members = order->size;
  order->new_rank = malloc(sizeof *order->new_rank * (size_t)order->size);
  order->has_handler =
      tpr__mpi.Comm_get_errhandler(order->comm, &order->handler) == TPR_SUCCESS &&
      tpr__mpi.Comm_set_errhandler(order->comm, tpr__abi.errors_return) == TPR_SUCCESS;
  return true;
}

bool tpr__order_agree(const struct tpr_order *order, bool good) {
  int own = good && order->new_rank != NULL;
  int least = 0;
  return tpr__mpi.Allreduce(&own, &least, 1, tpr__abi.type_int, tpr__abi.op_min, order->comm) ==
             TPR_SUCCESS &&
         least == 1;
}

static bool is_quiet(void) {
  const char *text = getenv("TOPOSEAT_REORDER");
  return text != NULL && strcmp(text, "quiet") == 0;
}

/* What the user asked for by starting the job with this library: what came of it. */
static void tell(const struct tpr_order *order, enum tpr_answer answer,
                 const struct tpr_links *links, const char *shape, const char *unit) {
  static int lines;
  bool nothing = answer == TPR_KEPT && links->before <= 0;
  if (nothing || is_quiet() || __atomic_fetch_add(&lines, 1, __ATOMIC_RELAXED) >= MOST_LINES)
    return;
  char text[192];
  int used = 0;
  if (answer == TPR_FAILED)
    snprintf(text, sizeof text, "not reordered, too large or no memory");
  else if (answer == TPR_KEPT)
    snprintf(text, sizeof text, "%.10g of %.10g %s between nodes, no better order", links->before,
             links->all, unit);
  else if (links->nodes > 1)
    used = snprintf(text, sizeof text,
                    "%.10g of %.10g %s between nodes, %.10g in the order of old ranks",
                    links->after, links->all, unit, links->before);
  else
    used = snprintf(text, sizeof text, "%.10g %s", links->all, unit);
  if (used > 0 && used < (int)sizeof text && links->within < links->within_rising)
    snprintf(text + used, sizeof text - (size_t)used, "%s cost %.0f %% less by link",
             links->nodes > 1 ? "; those within" : "",
             100 * (1 - links->within / links->within_rising));
  fprintf(stderr, "toposeat: reorder: %s%s, %d ranks on %d node%s: %s\n", order->call, shape,
          order->members, links->nodes, links->nodes == 1 ? "" : "s", text);
}

bool tpr__order_is_member(const struct tpr_order *order) { return order->rank < order->members; }

bool tpr__order_move(const struct tpr_order *order, enum tpr_answer answer,
                     const struct tpr_links *links, const char *shape, const char *unit,
                     tpr_word *permuted) {
  bool member = tpr__order_is_member(order);
  int told = (int)answer;
  if (order->rank == 0)
    tell(order, answer, links, shape, unit);
  *permuted = 0;
  return tpr__mpi.Bcast(&told, 1, tpr__abi.type_int, 0, order->comm) == TPR_SUCCESS &&
         told == TPR_MOVED &&
         tpr__mpi.Bcast(order->new_rank, order->members, tpr__abi.type_int, 0, order->comm) ==
             TPR_SUCCESS &&
         tpr__mpi.Comm_split(order->comm, member ? 0 : TPR_UNDEFINED,
                             member ? order->new_rank[order->rank] : 0, permuted) == TPR_SUCCESS;
}

bool tpr__order_finish(const struct tpr_order *order, tpr_word permuted, int code, void *made) {
  bool member = tpr__order_is_member(order);
  /* Where some ranks failed, what the others made is lost: freeing it would be collective, too. */
  bool all = tpr__order_agree(order, code == TPR_SUCCESS);
  if (all && member && order->has_handler) {
    tpr_word communicator = 0;
    memcpy(&communicator, made, tpr__abi.handle_bytes);
    tpr__mpi.Comm_set_errhandler(communicator, order->handler);
  }
  if (all && !member)
    tpr__store(made, tpr__abi.comm_null);
  if (member)
    tpr__mpi.Comm_free(&permuted);
  return all;
}

void tpr__order_end(struct tpr_order *order) {
  if (order->has_handler) {
    tpr__mpi.Comm_set_errhandler(order->comm, order->handler);
    tpr__mpi.Errhandler_free(&order->handler);
  }
  tpr__places_free(&order->places);
  free(order->new_rank);
  tpr__depth -= 1;
}
