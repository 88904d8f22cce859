/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where MPI begins and ends. */
#include "nodes.h"
#include "wrapped.h"

_Thread_local int tpr__depth;

TPR_WRAPPED(Init, (int *argc, char ***argv))
TPR_WRAPPED(Init_thread, (int *argc, char ***argv, int required, int *provided))
TPR_WRAPPED(Finalize, (void))

static int begun(int code) {
  tpr__depth -= 1;
  if (code == TPR_SUCCESS && tpr__depth == 0) {
    tpr__depth += 1;
    tpr__nodes_learn();
    tpr__depth -= 1;
  }
  return code;
}

int MPI_Init(int *argc, char ***argv) {
  Init_call *next = next_Init();
  if (next == NULL)
    return TPR_NO_MPI;
  tpr__depth += 1;
  return begun(next(argc, argv));
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  Init_thread_call *next = next_Init_thread();
  if (next == NULL)
    return TPR_NO_MPI;
  tpr__depth += 1;
  return begun(next(argc, argv, required, provided));
}

int MPI_Finalize(void) {
  Finalize_call *next = next_Finalize();
  if (next == NULL)
    return TPR_NO_MPI;
  tpr__nodes_forget();
  return next();
}
