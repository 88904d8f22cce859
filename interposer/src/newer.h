/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls newer than MPI 3.1: this library exports none, and sees those that the MPI of its process
   has (newer.c). calls.tsv says which they are; generate.py makes the table. */
#ifndef TOPOSEAT_NEWER_H
#define TOPOSEAT_NEWER_H

#include "interposer.h"

struct tps_newer {
  const char *name; /* MPI_X; the table is sorted by it */
  tps_function *wrapper;
  tps_function **real; /* where the wrapper finds the MPI's PMPI_X */
  uintptr_t own[2];    /* the MPI's MPI_X and PMPI_X, 0 where it has none */
};
extern struct tps_newer tps__newer[];
extern const size_t tps__newer_count;

/* The MPI's function behind a wrapper: set before anything leads to the wrapper, and another thread
 * may see the second first. */
static inline tps_function *tps__newer_real(tps_function *const *real) {
  tps_function *found;
  do
    found = __atomic_load_n(real, __ATOMIC_ACQUIRE);
  while (tps__unlikely(found == NULL));
  return found;
}

/* As soon as there is an MPI in this process, its newer calls lead here; asked whenever there may
 * be one. */
void tps__see_newer(void);
/* Whether some of its newer calls could not be made to. */
bool tps__newer_unseen(void);

/* Of calls.tsv those by hand (lifecycle.c). */
extern tps_function *tps__real_Session_init;
extern tps_function *tps__real_Session_finalize;
int tps__on_Session_init(tps_word info, tps_word errhandler, abi_handle *session);
int tps__on_Session_finalize(abi_handle *session);

#endif
