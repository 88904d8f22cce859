/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which node every rank of MPI_COMM_WORLD is on. */
#ifndef TOPOSEAT_NODES_H
#define TOPOSEAT_NODES_H

#include "behind.h"

/*
 * Learns the nodes: called by every rank when MPI_Init has returned. It is known from then on,
 * because MPI_Cart_map and MPI_Graph_map are local: they cannot ask.
 */
void tpr__nodes_learn(void);
/* Nothing is reordered from now on in this process: MPI ends, or this is a fork of a rank. */
void tpr__nodes_forget(void);
bool tpr__nodes_known(void);

/*
 * The node of each of the `size` members of an intra-communicator, as a number. NULL: not known, or
 * some members are of another MPI_COMM_WORLD; every member then comes to the same answer. The
 * caller frees.
 */
int *tpr__nodes_of(tpr_word comm, int size);

/* A line on stderr, at most once per `*said`. */
void tpr__warn(bool *said, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
