/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The calls of MPI at which the rank probe looks: exported under MPI's names, they do what is asked
   of them and change nothing. */
#include "beside.h"
#include "probe.h"
#include "probe_mpi.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

enum { MPI_ERROR = 16 }; /* MPI_ERR_OTHER or its like in all */

/* The PMPI_X behind ours. Behind it in the usual order of search; else, for an MPI library that was
   loaded privately (an extension module of Python), among what the caller depends on; else in any
   loaded MPI library. */
static void find_next(const char *name, const void *caller, void *target) {
  void *next = dlsym(RTLD_NEXT, name);
  Dl_info object;
  if (next == NULL && dladdr(caller, &object) != 0 && object.dli_fname != NULL) {
    void *library = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL)
      next = dlsym(library, name);
    if (next == dlsym(RTLD_DEFAULT, name)) /* the caller is the program: that is us again */
      next = NULL;
  }
  if (next == NULL)
    next = tps_probe_find_in_libmpi(name);
  memcpy(target, (const void *)&next, sizeof next);
}

/* Fortran's bindings call one or the other. No name of Fortran is exported: a program may ask for
   it, and its MPI may have none. */
EXPORTED int MPI_Finalize(void);
EXPORTED int PMPI_Finalize(void);

typedef int finalize_function(void);

static int finalize(finalize_function *tool, const void *caller) {
  finalize_function *next = tool;
  tps_probe_before_finalize();
  if (tool == NULL)
    find_next("PMPI_Finalize", caller, (void *)&next);
  tps__tools++;
  int code = next == NULL ? 0 : next();
  tps__tools--;
  return code;
}

int MPI_Finalize(void) {
  static tps_function *known;
  const void *caller = __builtin_return_address(0);
  return finalize((finalize_function *)tps__beside(&known, "MPI_Finalize", caller), caller);
}

int PMPI_Finalize(void) { return finalize(NULL, __builtin_return_address(0)); }

/* ---- calls behind which a rank is looked at ---- */

typedef uintptr_t word; /* a handle of any MPI, as it travels in a register */

#define BOTH(name, parameters, arguments)                                                          \
  typedef int name##_function parameters;                                                          \
  EXPORTED name##_function name, P##name;                                                          \
  static int look_at_##name(int code) {                                                            \
    if (code == 0)                                                                                 \
      toposeat_probe_look(#name);                                                                  \
    return code;                                                                                   \
  }                                                                                                \
  int P##name parameters {                                                                         \
    name##_function *next;                                                                         \
    find_next("P" #name, __builtin_return_address(0), (void *)&next);                              \
    return look_at_##name(next == NULL ? MPI_ERROR : next arguments);                              \
  }                                                                                                \
  int name parameters {                                                                            \
    static tps_function *known;                                                                    \
    const void *caller = __builtin_return_address(0);                                              \
    name##_function *next = (name##_function *)tps__beside(&known, #name, caller);                 \
    if (next == NULL) {                                                                            \
      find_next("P" #name, caller, (void *)&next);                                                 \
      return look_at_##name(next == NULL ? MPI_ERROR : next arguments);                            \
    }                                                                                              \
    tps__tools++;                                                                                  \
    int code = next arguments; /* looks at PMPI_X */                                               \
    tps__tools--;                                                                                  \
    return code;                                                                                   \
  }

BOTH(MPI_Init, (int *count, char ***words), (count, words))
BOTH(MPI_Init_thread, (int *count, char ***words, int required, int *provided),
     (count, words, required, provided))
BOTH(MPI_Comm_dup, (word comm, void *made), (comm, made))
BOTH(MPI_Comm_create, (word comm, word group, void *made), (comm, group, made))
BOTH(MPI_Comm_split, (word comm, int colour, int key, void *made), (comm, colour, key, made))
BOTH(MPI_Comm_split_type, (word comm, int type, int key, word info, void *made),
     (comm, type, key, info, made))
