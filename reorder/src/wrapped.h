/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What every wrapper needs. Each is PMPI_X, which is defined with it, and MPI_X: Fortran's bindings
 * call one or the other. */
#ifndef TOPOSEAT_WRAPPED_H
#define TOPOSEAT_WRAPPED_H

#include "behind.h"
#include "beside.h"

#define TPR_EXPORT __attribute__((visibility("default")))
/* `next_X` is the next PMPI_X, `tool_X` the MPI_X of a tool between. */
#define TPR_ENTRIES(name, parameters)                                                              \
  TPR_EXPORT int MPI_##name parameters;                                                            \
  TPR_EXPORT int PMPI_##name parameters;                                                           \
  typedef int name##_call parameters;                                                              \
  static name##_call *next_##name(void) {                                                          \
    static tpr_function *found;                                                                    \
    return (name##_call *)tpr__next(&found, "PMPI_" #name);                                        \
  }                                                                                                \
  static name##_call *tool_##name(const void *caller) {                                            \
    static tps_function *known;                                                                    \
    return (name##_call *)tps__beside(&known, "MPI_" #name, caller);                               \
  }

#define TPR_WRAPPED(name, parameters, arguments)                                                   \
  TPR_ENTRIES(name, parameters)                                                                    \
  int MPI_##name parameters {                                                                      \
    name##_call *tool = tool_##name(__builtin_return_address(0));                                  \
    if (tool == NULL)                                                                              \
      return PMPI_##name arguments;                                                                \
    tps__tools += 1;                                                                               \
    int code = tool arguments;                                                                     \
    tps__tools -= 1;                                                                               \
    return code;                                                                                   \
  }

/* What a wrapper returns where there is no MPI behind it: never in a program that was linked. */
enum { TPR_NO_MPI = 16 };

/* > 0 inside of a wrapper: an MPI that calls itself by public names gets what it asks for. */
extern _Thread_local int tpr__depth;

#endif
