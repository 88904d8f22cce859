/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where MPI begins and ends. */
#include "nodes.h"
#include "wrapped.h"

_Thread_local int tpr__depth;

TPR_ENTRIES(Init, (int *argc, char ***argv))
TPR_ENTRIES(Init_thread, (int *argc, char ***argv, int required, int *provided))
TPR_WRAPPED(Finalize, (void), ())

static bool came; /* to PMPI_Init or PMPI_Init_thread, which a tool between goes on to */

static int begun(int code) {
  came = true;
  tpr__depth -= 1;
  if (code == TPR_SUCCESS && tpr__depth == 0) {
    tpr__depth += 1;
    tpr__nodes_learn();
    tpr__depth -= 1;
  }
  return code;
}

static int begun_by_tool(int code) {
  tps__tools -= 1;
  if (code == TPR_SUCCESS && !came)
    tpr__nodes_missed();
  return code;
}

int MPI_Init(int *argc, char ***argv) {
  Init_call *tool = tool_Init(__builtin_return_address(0));
  if (tool == NULL)
    return PMPI_Init(argc, argv);
  tps__tools += 1;
  return begun_by_tool(tool(argc, argv));
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  Init_thread_call *tool = tool_Init_thread(__builtin_return_address(0));
  if (tool == NULL)
    return PMPI_Init_thread(argc, argv, required, provided);
  tps__tools += 1;
  return begun_by_tool(tool(argc, argv, required, provided));
}

int PMPI_Init(int *argc, char ***argv) {
  Init_call *next = next_Init();
  if (next == NULL)
    return TPR_NO_MPI;
  tpr__depth += 1;
  return begun(next(argc, argv));
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  Init_thread_call *next = next_Init_thread();
  if (next == NULL)
    return TPR_NO_MPI;
  tpr__depth += 1;
  return begun(next(argc, argv, required, provided));
}

int PMPI_Finalize(void) {
  Finalize_call *next = next_Finalize();
  if (next == NULL)
    return TPR_NO_MPI;
  tpr__nodes_forget();
  return next();
}
