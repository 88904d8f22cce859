/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One call of a topology constructor: what all its ranks agree on, step by step. */
#ifndef TOPOSEAT_ORDER_H
#define TOPOSEAT_ORDER_H

#include "behind.h"
#include "mapping.h"

struct tpr_order {
  const char *call; /* the name of the MPI function */
  tpr_word comm;    /* the old communicator */
  int size;
  int rank;
  struct tpr_places places; /* of the ranks of it */
  int *new_rank;            /* of each rank of it; ranks beyond the topology have none */
  int members;              /* ranks 0 to members - 1 of it are in the topology */
  tpr_word handler;
  bool has_handler; /* the communicator's own, put aside: our errors are not the application's */
};

/*
 * Whether there is something to decide. False: the call is the MPI's own business, or an MPI's that
 * calls itself; all ranks come to that answer by themselves, without a message.
 */
bool tpr__order_begin(struct tpr_order *order, const char *call, tpr_word comm);
/* Collective: whether every rank says so. */
bool tpr__order_agree(const struct tpr_order *order, bool good);
/*
 * Collective: rank 0's `answer` and new_rank (of `members` ranks), told to all and to the user:
 * of which shape, and what its links are counted in. True: ranks move, and `permuted` is the
 * communicator of the topology's members in their new order; a rank that is no member has
 * MPI_COMM_NULL there.
 */
bool tpr__order_move(const struct tpr_order *order, enum tpr_answer answer,
                     const struct tpr_links *links, const char *shape, const char *unit,
                     tpr_word *permuted);
/* Whether this rank is in the topology. */
bool tpr__order_is_member(const struct tpr_order *order);
/*
 * Collective: `made` was created on `permuted`, with this `code` here. It gets what a communicator
 * inherits from the old one; a rank that is no member gets MPI_COMM_NULL there. False: at some rank
 * it failed.
 */
bool tpr__order_finish(const struct tpr_order *order, tpr_word permuted, int code, void *made);
/* Gives the old communicator its error handler back, and frees what was taken. */
void tpr__order_end(struct tpr_order *order);

#endif
