/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The folder of this rank's record, and what becomes of it when the rank has ended. On a node that
 * does not see the folder of the run, the last process to leave sends the records of all home
 * (launcher/src/carry.h).
 */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "carry.h"
#include "interposer.h"

#define RUN_VARIABLE "TOPOSEAT_PROFILE_RUN"
#define HOME_VARIABLE "TOPOSEAT_PROFILE_HOME"

static char node_folder[PATH_MAX]; /* empty: records go straight to where they are read */
static pid_t owner;                /* forks are no ranks */
static bool has_left;

const char *tps__record_folder(const char *directory) {
  const char *run = getenv(RUN_VARIABLE);
  owner = getpid();
  if (run == NULL || *run == '\0' || tps_is_folder_of_run(directory, run))
    return directory;
  if (tps_node_folder(run, true, node_folder, sizeof node_folder))
    return node_folder;
  node_folder[0] = '\0';
  return directory;
}

void tps__tell_start(void) {
  const char *home = getenv(HOME_VARIABLE);
  if (node_folder[0] != '\0' && home != NULL)
    tps_tell_starts(node_folder, home);
}

void tps__depart(void) {
  const struct tps_header *header = tps__process.header;
  if (node_folder[0] == '\0' || owner != getpid() ||
      __atomic_exchange_n(&has_left, true, __ATOMIC_RELAXED))
    return;
  const char *home = getenv(HOME_VARIABLE);
  /* Without a record there is the cause of that to be sent. */
  bool is_last = header == NULL ? tps_all_left(node_folder) : tps_leave(node_folder, header->rank);
  if (is_last && home != NULL)
    tps_carry_home(node_folder, home, false);
}

/* Programs that end without MPI_Finalize, or that use MPI by sessions. */
__attribute__((destructor)) static void leave_at_exit(void) { tps__depart(); }
