/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The calls of MPI at which the rank probe looks: exported under MPI's names, they do what is asked
   of them and change nothing. */
#include "probe.h"
#include "probe_mpi.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

enum { MPI_ERROR = 16 }; /* MPI_ERR_OTHER or its like in all */

/* The function behind ours. Behind it in the usual order of search; else, for an MPI library that
   was loaded privately (an extension module of Python), `own` among what the caller depends on;
   else in any loaded MPI library. */
static void find_next(const char *name, const char *own, const void *caller, void *target) {
  void *next = dlsym(RTLD_NEXT, name);
  Dl_info object;
  if (next == NULL && dladdr(caller, &object) != 0 && object.dli_fname != NULL) {
    void *library = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL)
      next = dlsym(library, own);
    if (next == dlsym(RTLD_DEFAULT, own)) /* the caller is the program: that is us again */
      next = NULL;
  }
  if (next == NULL)
    next = tps_probe_find_in_libmpi(own);
  memcpy(target, (const void *)&next, sizeof next);
}

/* Fortran's bindings call one or the other. No name of Fortran is exported: a program may ask for
   it, and its MPI may have none. */
EXPORTED int MPI_Finalize(void);
EXPORTED int PMPI_Finalize(void);

static int finalize(const char *name, const void *caller) {
  int (*next)(void);
  tps_probe_before_finalize();
  find_next(name, "PMPI_Finalize", caller, (void *)&next);
  return next == NULL ? 0 : next();
}

int MPI_Finalize(void) { return finalize("MPI_Finalize", __builtin_return_address(0)); }

int PMPI_Finalize(void) { return finalize("PMPI_Finalize", __builtin_return_address(0)); }

/* ---- calls behind which a rank is looked at ---- */

typedef uintptr_t word; /* a handle of any MPI, as it travels in a register */

#define CALL(symbol, name, parameters, arguments)                                                  \
  typedef int symbol##_function parameters;                                                        \
  EXPORTED symbol##_function symbol;                                                               \
  int symbol parameters {                                                                          \
    symbol##_function *next;                                                                       \
    find_next(#symbol, "P" name, __builtin_return_address(0), (void *)&next);                      \
    int code = next == NULL ? MPI_ERROR : next arguments;                                          \
    if (code == 0)                                                                                 \
      toposeat_probe_look(name);                                                                   \
    return code;                                                                                   \
  }
#define BOTH(name, parameters, arguments)                                                          \
  CALL(name, #name, parameters, arguments)                                                         \
  CALL(P##name, #name, parameters, arguments)

BOTH(MPI_Init, (int *count, char ***words), (count, words))
BOTH(MPI_Init_thread, (int *count, char ***words, int required, int *provided),
     (count, words, required, provided))
BOTH(MPI_Comm_dup, (word comm, void *made), (comm, made))
BOTH(MPI_Comm_create, (word comm, word group, void *made), (comm, group, made))
BOTH(MPI_Comm_split, (word comm, int colour, int key, void *made), (comm, colour, key, made))
BOTH(MPI_Comm_split_type, (word comm, int type, int key, word info, void *made),
     (comm, type, key, info, made))
