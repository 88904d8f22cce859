/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * MPI without MPI_Init. The record begins with the first session and ends with the last one; its
 * world is the process set mpi://WORLD, which has the ranks of MPI_COMM_WORLD. A session that is
 * opened after the last one was closed goes on with the same record.
 */
#include "counters.h"

void tps__world_model_begin(void) {
  tps__presence_of_world(true);
  tps__attach();
}

static void record_state(void) {
  if (tps__recording() && !tps__world_model())
    tps__presence_record();
}

void tps__session_begin(abi_handle session) {
  tps__thread.depth += 1; /* these MPI calls are ours, not the application's */
  int count = tps__presence_add(session);
  if (!tps__recording())
    tps__attach();
  else if (count == 1 && !tps__world_model())
    tps__comm_renew();
  record_state();
  tps__thread.depth -= 1;
}

void tps__session_end(abi_handle session) {
  bool first = false;
  tps__thread.depth += 1;
  int left = tps__presence_drop(session, &first);
  if (tps__recording() && !tps__world_model()) {
    if (first)
      tps__comm_renew();
    if (left == 0)
      tps__end_of_run();
  }
  tps__thread.depth -= 1;
}

void tps__session_ended(void) {
  tps__thread.depth += 1;
  record_state();
  tps__thread.depth -= 1;
}

bool tps__world_model_end(void) {
  if (tps__presence_count() == 0)
    return true;
  tps__presence_of_world(false);
  if (tps__recording())
    tps__comm_renew();
  return false;
}
