/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One-sided calls, counted at the origin. The space is that of the origin's buffer: what memory the
 * target's window is made of is not known here.
 */
#include "actions.h"

static void count_access(const void *buffer, uint64_t bytes, int rank, tps_word win,
                         enum tps_kind kind) {
  if (rank < 0) /* MPI_PROC_NULL */
    return;
  const struct tps_comm *window = tps__comm_of(win, true);
  if (window == NULL) {
    tps__lost(bytes);
    return;
  }
  tps__count(window->peers, rank, kind, tps__space_of(buffer, bytes), bytes);
}

void tps__on_put(const void *origin, abi_count count, tps_word datatype, int rank, tps_word win) {
  count_access(origin, tps__bytes(count, datatype), rank, win, TPS_ONE_SIDED);
}

void tps__on_get(const void *origin, abi_count count, tps_word datatype, int rank, tps_word win) {
  count_access(origin, tps__bytes(count, datatype), rank, win, TPS_ONE_SIDED_FROM);
}

/* MPI_NO_OP reads the target only, whatever the origin's arguments are. */
static bool is_no_op(tps_word operation) {
  static abi_handle no_op;
  abi_handle known = __atomic_load_n(&no_op, __ATOMIC_RELAXED);
  if (tps__unlikely(known == 0)) {
    known = tps__no_op();
    __atomic_store_n(&no_op, known, __ATOMIC_RELAXED);
  }
  return known != 0 && ABI_HANDLE(operation) == known;
}

void tps__on_exchange(const void *origin, abi_count count, tps_word datatype, const void *result,
                      abi_count result_count, tps_word result_type, int rank, tps_word win,
                      tps_word operation) {
  uint64_t result_bytes = tps__bytes(result_count, result_type);
  if (origin != NULL && count > 0 && !is_no_op(operation))
    count_access(origin, tps__bytes(count, datatype), rank, win, TPS_ONE_SIDED);
  count_access(result, result_bytes, rank, win, TPS_ONE_SIDED_FROM);
}
