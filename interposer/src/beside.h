/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Other tools that wrap MPI. The interposer, the reordering library and the rank probe stand in
 * front of a tool that is linked to the program; each of their MPI_X therefore calls the tool's,
 * and what the tool hands on comes back as PMPI_X, which always goes on to the next PMPI_X. With
 * one body for both, the tool's call of PMPI_X would call the tool again, for ever.
 */
#ifndef TOPOSEAT_BESIDE_H
#define TOPOSEAT_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

typedef void tps_function(void); /* any function, cast before the call */

/* The next definition of a name behind this library that lies in none of ours; NULL: there is none
 * in the global scope. Ours ask each other by this name. */
void *toposeat_behind(const char *name) __attribute__((visibility("default")));
/* Whether an address lies in a library of ours. */
bool tps__is_ours(const void *address);

/* What stands for "no tool is between" where NULL says that nobody has looked. */
void tps__no_tool(void);
/* How many tools' MPI_X this thread is in, called by this library. */
extern _Thread_local int tps__tools;

/*
 * The next MPI_X where a tool stands between the program and its MPI; NULL: there is none, or this
 * thread is in so many already that one of them must have come back here. Looked up once, from where
 * the first call comes: an MPI that was loaded for a module alone, with its tool, only that module
 * sees.
 */
tps_function *tps__beside(tps_function **known, const char *name, const void *caller);
/* Whether that was looked up, and there is none. */
static inline bool tps__is_alone(tps_function *const *known) {
  return __atomic_load_n(known, __ATOMIC_RELAXED) == tps__no_tool;
}

#endif
