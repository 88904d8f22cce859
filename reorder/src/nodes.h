/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which node every rank of MPI_COMM_WORLD is on, and with which device of it. */
#ifndef TOPOSEAT_NODES_H
#define TOPOSEAT_NODES_H

#include "behind.h"
#include "mapping.h"

/*
 * Learns the nodes: called by every rank when MPI_Init has returned. It is known from then on,
 * because MPI_Cart_map and MPI_Graph_map are local: they cannot ask.
 */
void tpr__nodes_learn(void);
/* Nothing is reordered from now on in this process: MPI ends, or this is a fork of a rank. */
void tpr__nodes_forget(void);
/* Says that they never will be known: MPI was begun past this library. */
void tpr__nodes_missed(void);
bool tpr__nodes_known(void);

/*
 * Where each of the `size` members of an intra-communicator is. False: not known, or some members
 * are of another MPI_COMM_WORLD; every member then comes to the same answer. Else the caller frees.
 */
bool tpr__places_of(tpr_word comm, int size, struct tpr_places *places);
void tpr__places_free(struct tpr_places *places);

/* A line on stderr, at most once per `*said`. */
void tpr__warn(bool *said, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
