/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The MPI behind this library: its functions, and the few facts of its ABI that are needed, both
 * found in the running process. One library serves every ABI: a handle that is passed by value is a
 * full register, and one that MPI writes lands in the low bytes of a zeroed word.
 */
#ifndef TOPOSEAT_BEHIND_H
#define TOPOSEAT_BEHIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uintptr_t tpr_word; /* a handle, whatever its width */
typedef void tpr_function(void);

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "handles of 4 bytes are read as words");

/* The same in every ABI (tests/reorder/test_abi.py). */
enum { TPR_UNDEFINED = -32766, TPR_SUCCESS = 0 };

/* What this library itself calls. Never another tool's wrappers: these calls are not the
 * application's. */
struct tpr_mpi {
  int (*Comm_rank)(tpr_word, int *);
  int (*Comm_size)(tpr_word, int *);
  int (*Comm_get_parent)(tpr_word *);
  int (*Comm_test_inter)(tpr_word, int *);
  int (*Comm_group)(tpr_word, tpr_word *);
  int (*Group_translate_ranks)(tpr_word, int, const int *, tpr_word, int *);
  int (*Group_free)(tpr_word *);
  int (*Comm_split)(tpr_word, int, int, tpr_word *);
  int (*Comm_split_type)(tpr_word, int, int, tpr_word, tpr_word *);
  int (*Comm_free)(tpr_word *);
  int (*Comm_get_errhandler)(tpr_word, tpr_word *);
  int (*Comm_set_errhandler)(tpr_word, tpr_word);
  int (*Errhandler_free)(tpr_word *);
  int (*Bcast)(void *, int, tpr_word, int, tpr_word);
  int (*Gather)(const void *, int, tpr_word, void *, int, tpr_word, int, tpr_word);
  int (*Gatherv)(const void *, int, tpr_word, void *, const int *, const int *, tpr_word, int,
                 tpr_word);
  int (*Allgather)(const void *, int, tpr_word, void *, int, tpr_word, tpr_word);
  int (*Allreduce)(const void *, void *, int, tpr_word, tpr_word, tpr_word);
  int (*Sendrecv)(const void *, int, tpr_word, int, int, void *, int, tpr_word, int, int, tpr_word,
                  void *);
};
extern struct tpr_mpi tpr__mpi;

struct tpr_abi {
  size_t handle_bytes;
  tpr_word comm_world;
  tpr_word comm_null;
  tpr_word type_int;
  tpr_word op_min;
  tpr_word info_null;
  tpr_word errors_return;
  int comm_type_shared;
  const int *unweighted;
  const int *weights_empty;
};
extern struct tpr_abi tpr__abi;

/* Room for an MPI_Status of any ABI. */
struct tpr_status {
  uint64_t room[8];
};

/* Fills both. False: this MPI is none that is known, `*why` says so. */
bool tpr__find_mpi(const char **why);
/* The next definition of a function that this library wraps: that of another tool, or the MPI's;
 * NULL: the MPI has none. */
tpr_function *tpr__next(tpr_function **found, const char *name);
/* A handle that MPI wrote, or was given, without what is not part of it. */
tpr_word tpr__handle(tpr_word word);
/* Writes a handle where an application expects one. */
void tpr__store(void *to, tpr_word handle);

#endif
