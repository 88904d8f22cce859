/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where MPI begins and ends: the wrappers that calls.tsv calls `byhand`. */
#include "counters.h"

#define ALIAS(name) __attribute__((alias(name)))

TPS_EXPORT int MPI_Init(int *argc, char ***argv);
TPS_EXPORT int PMPI_Init(int *argc, char ***argv) ALIAS("MPI_Init");
TPS_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
TPS_EXPORT int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
    ALIAS("MPI_Init_thread");
TPS_EXPORT int MPI_Finalize(void);
TPS_EXPORT int PMPI_Finalize(void) ALIAS("MPI_Finalize");
TPS_EXPORT int MPI_Abort(tps_word comm, int errorcode);
TPS_EXPORT int PMPI_Abort(tps_word comm, int errorcode) ALIAS("MPI_Abort");
TPS_EXPORT int MPI_Session_init(tps_word info, tps_word errhandler, abi_handle *session);
TPS_EXPORT int PMPI_Session_init(tps_word info, tps_word errhandler, abi_handle *session)
    ALIAS("MPI_Session_init");
TPS_EXPORT int MPI_Session_finalize(abi_handle *session);
TPS_EXPORT int PMPI_Session_finalize(abi_handle *session) ALIAS("MPI_Session_finalize");

int MPI_Init(int *argc, char ***argv) {
  typedef int real_call(int *, char ***);
  static tps_function *found;
  real_call *real = (real_call *)tps__real(&found, "PMPI_Init");
  if (real == NULL)
    return ABI_ERR_UNSUPPORTED_OPERATION;
  tps__thread.depth += 1;
  int code = real(argc, argv);
  tps__thread.depth -= 1;
  if (code == 0 && tps__thread.depth == 0)
    tps__world_model_begin();
  return code;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  typedef int real_call(int *, char ***, int, int *);
  static tps_function *found;
  real_call *real = (real_call *)tps__real(&found, "PMPI_Init_thread");
  if (real == NULL)
    return ABI_ERR_UNSUPPORTED_OPERATION;
  tps__thread.depth += 1;
  int code = real(argc, argv, required, provided);
  tps__thread.depth -= 1;
  if (code == 0 && tps__thread.depth == 0)
    tps__world_model_begin();
  return code;
}

int MPI_Finalize(void) {
  typedef int real_call(void);
  static tps_function *found;
  real_call *real = (real_call *)tps__real(&found, "PMPI_Finalize");
  if (real == NULL)
    return ABI_ERR_UNSUPPORTED_OPERATION;
  bool recorded = tps__recording(); /* not in a process forked off a rank */
  if (recorded)
    tps__end_of_run();
  tps__thread.depth += 1;
  bool last = tps__world_model_end();
  int code = real();
  tps__thread.depth -= 1;
  if (code == 0 && tps__thread.depth == 0 && last) {
    if (recorded)
      tps__record_finish(TPS_STATE_FINALIZED);
    tps__stop(); /* the mapping stays: another thread may still be inside a wrapper */
    if (recorded)
      tps__depart();
  }
  return code;
}

int MPI_Abort(tps_word comm, int errorcode) {
  typedef int real_call(tps_word, int);
  static tps_function *found;
  real_call *real = (real_call *)tps__real(&found, "PMPI_Abort");
  if (tps__recording()) {
    tps__end_of_run();
    tps__record_finish(TPS_STATE_ABORTED);
  }
  if (real == NULL)
    return ABI_ERR_UNSUPPORTED_OPERATION;
  return real(comm, errorcode);
}

int MPI_Session_init(tps_word info, tps_word errhandler, abi_handle *session) {
  typedef int real_call(tps_word, tps_word, abi_handle *);
  static tps_function *found;
  real_call *real = (real_call *)tps__real(&found, "PMPI_Session_init");
  if (real == NULL)
    return ABI_ERR_UNSUPPORTED_OPERATION;
  tps__thread.depth += 1;
  int code = real(info, errhandler, session);
  tps__thread.depth -= 1;
  if (code == 0 && tps__thread.depth == 0)
    tps__session_begin(*session);
  return code;
}

int MPI_Session_finalize(abi_handle *session) {
  typedef int real_call(abi_handle *);
  static tps_function *found;
  real_call *real = (real_call *)tps__real(&found, "PMPI_Session_finalize");
  if (real == NULL)
    return ABI_ERR_UNSUPPORTED_OPERATION;
  bool outermost = tps__thread.depth == 0;
  if (outermost && session != NULL)
    tps__session_end(*session);
  tps__thread.depth += 1;
  int code = real(session);
  tps__thread.depth -= 1;
  if (code == 0 && outermost)
    tps__session_ended();
  return code;
}
