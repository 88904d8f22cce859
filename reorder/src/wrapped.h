/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What every wrapper needs. Each is MPI_X and PMPI_X: Fortran's bindings call one or the other. */
#ifndef TOPOSEAT_WRAPPED_H
#define TOPOSEAT_WRAPPED_H

#include "behind.h"

#define TPR_EXPORT __attribute__((visibility("default")))
#define TPR_WRAPPED(name, parameters)                                                              \
  TPR_EXPORT int MPI_##name parameters;                                                            \
  TPR_EXPORT int PMPI_##name parameters __attribute__((alias("MPI_" #name)));                      \
  typedef int name##_call parameters;                                                              \
  static name##_call *next_##name(void) {                                                          \
    static tpr_function *found;                                                                    \
    return (name##_call *)tpr__next(&found, "PMPI_" #name);                                        \
  }

/* What a wrapper returns where there is no MPI behind it: never in a program that was linked. */
enum { TPR_NO_MPI = 16 };

/* > 0 inside of a wrapper: an MPI that calls itself by public names gets what it asks for. */
extern _Thread_local int tpr__depth;

#endif
