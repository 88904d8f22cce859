/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where MPI begins and ends: the wrappers that calls.tsv calls `byhand`. Each acts once, at the
 * outermost entry, whatever a tool between makes of the call: what it sends there is its own.
 */
#include "counters.h"
#include "newer.h"

/* `next_X` is a tool's MPI_X or else `real_X`, the real PMPI_X; NULL: the MPI has none. */
#define WRAPPED(name, parameters)                                                                  \
  typedef int name##_call parameters;                                                              \
  TPS_EXPORT int MPI_##name parameters;                                                            \
  TPS_EXPORT int PMPI_##name parameters;                                                           \
  static name##_call *real_##name(void) {                                                          \
    static tps_function *found;                                                                    \
    return (name##_call *)tps__real(&found, "PMPI_" #name);                                        \
  }                                                                                                \
  TPS_FAST name##_call *next_##name(const void *caller) {                                          \
    static tps_function *known;                                                                    \
    name##_call *tool = (name##_call *)tps__beside(&known, "MPI_" #name, caller);                  \
    return tool != NULL ? tool : real_##name();                                                    \
  }

WRAPPED(Init, (int *argc, char ***argv))
WRAPPED(Init_thread, (int *argc, char ***argv, int required, int *provided))
WRAPPED(Finalize, (void))
WRAPPED(Abort, (tps_word comm, int errorcode))

/* Around every call of what comes next; true: it is the outermost one. */
static bool enter(void) {
  tps__tools += 1;
  return tps__thread.depth++ == 0;
}

static void leave(void) {
  tps__thread.depth -= 1;
  tps__tools -= 1;
}

static int init(Init_call *next, int *argc, char ***argv) {
  if (next == NULL)
    return ABI_ERR_UNSUPPORTED_OPERATION;
  bool outermost = enter();
  int code = next(argc, argv);
  leave();
  if (code == 0 && outermost)
    tps__world_model_begin();
  return code;
}

int MPI_Init(int *argc, char ***argv) { return init(next_Init(TPS_CALLER), argc, argv); }
int PMPI_Init(int *argc, char ***argv) { return init(real_Init(), argc, argv); }

static int init_thread(Init_thread_call *next, int *argc, char ***argv, int required,
                       int *provided) {
  if (next == NULL)
    return ABI_ERR_UNSUPPORTED_OPERATION;
  bool outermost = enter();
  int code = next(argc, argv, required, provided);
  leave();
  if (code == 0 && outermost)
    tps__world_model_begin();
  return code;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  return init_thread(next_Init_thread(TPS_CALLER), argc, argv, required, provided);
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  return init_thread(real_Init_thread(), argc, argv, required, provided);
}

static int finalize(Finalize_call *next) {
  if (next == NULL)
    return ABI_ERR_UNSUPPORTED_OPERATION;
  bool outermost = enter();
  bool recorded = outermost && tps__recording(); /* not in a process forked off a rank */
  if (recorded)
    tps__end_of_run();
  bool last = outermost && tps__world_model_end();
  int code = next();
  leave();
  if (code == 0 && last) {
    if (recorded)
      tps__record_finish(TPS_STATE_FINALIZED);
    tps__stop(); /* the mapping stays: another thread may still be inside a wrapper */
    if (recorded)
      tps__depart();
  }
  return code;
}

int MPI_Finalize(void) { return finalize(next_Finalize(TPS_CALLER)); }
int PMPI_Finalize(void) { return finalize(real_Finalize()); }

static int abort_job(Abort_call *next, tps_word comm, int errorcode) {
  if (tps__recording()) {
    tps__end_of_run();
    tps__record_finish(TPS_STATE_ABORTED);
  }
  return next != NULL ? next(comm, errorcode) : ABI_ERR_UNSUPPORTED_OPERATION;
}

int MPI_Abort(tps_word comm, int errorcode) {
  return abort_job(next_Abort(TPS_CALLER), comm, errorcode);
}

int PMPI_Abort(tps_word comm, int errorcode) { return abort_job(real_Abort(), comm, errorcode); }

tps_function *tps__real_Session_init;
tps_function *tps__real_Session_finalize;

int tps__on_Session_init(tps_word info, tps_word errhandler, abi_handle *session) {
  typedef int session_init(tps_word, tps_word, abi_handle *);
  session_init *real = (session_init *)tps__newer_real(&tps__real_Session_init);
  bool outermost = enter();
  int code = real(info, errhandler, session);
  leave();
  if (code == 0 && outermost)
    tps__session_begin(*session);
  return code;
}

int tps__on_Session_finalize(abi_handle *session) {
  typedef int session_finalize(abi_handle *);
  session_finalize *real = (session_finalize *)tps__newer_real(&tps__real_Session_finalize);
  bool outermost = tps__thread.depth == 0;
  if (outermost && session != NULL)
    tps__session_end(*session);
  enter();
  int code = real(session);
  leave();
  if (code == 0 && outermost)
    tps__session_ended();
  return code;
}
