/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sealed MPI: where the system lets no read-only memory be changed, calls newer than MPI 3.1 stay
 * the MPI's own, that is said once, and all others are recorded. Exit code 77: no such system can
 * be made here.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "standin_mpi.h"
#include "totals.h"

/* From now on mprotect(..., PROT_WRITE) fails in this process. */
static int seal(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void *need(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (found == NULL)
    exit(1);
  return found;
}

typedef int init_call(int *, char ***);
typedef int finalize_call(void);
typedef int send_call(const void *, int, MPI_Datatype, int, int, MPI_Comm);

int main(int argc, char **argv) {
  char folder[] = "/tmp/toposeat-sealed-XXXXXX", said[1024] = "";
  FILE *file = tmpfile();
  int usual = dup(STDERR_FILENO);
  if (argc < 2 || file == NULL || mkdtemp(folder) == NULL ||
      setenv("TOPOSEAT_PROFILE_DIR", folder, 1) != 0 || setenv("STANDIN_FIRST", "", 1) != 0 ||
      dup2(fileno(file), STDERR_FILENO) < 0)
    return 1;
  void *mpi = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (mpi == NULL)
    return 1;
  if (!seal())
    return 77;
  init_call *init;
  finalize_call *finalize;
  send_call *send;
  Dl_info newer;
  void *found = need(mpi, "MPI_Init");
  memcpy((void *)&init, (const void *)&found, sizeof found);
  found = need(mpi, "MPI_Send");
  memcpy((void *)&send, (const void *)&found, sizeof found);
  found = need(mpi, "MPI_Finalize");
  memcpy((void *)&finalize, (const void *)&found, sizeof found);
  double buffer[4] = {0};
  init(&argc, &argv);
  send(buffer, 2, need(mpi, "standin_double"), 3, 0, need(mpi, "ompi_mpi_comm_world"));
  finalize();
  dup2(usual, STDERR_FILENO);
  struct totals totals = totals_of(folder);
  expect("messages", totals.messages[TPS_POINT_TO_POINT][TPS_HOST][3], 1);
  expect("finalised", totals.state, TPS_STATE_FINALIZED);
  found = need(mpi, "MPI_Session_init");
  expect("the MPI's own", dladdr(found, &newer) != 0 && strcmp(newer.dli_fname, argv[1]) == 0, 1);
  rewind(file); /* what the first rank says */
  size_t length = fread(said, 1, sizeof said - 1, file);
  const char *mark = strstr(said, "newer than MPI 3.1");
  expect("said", length > 0 && mark != NULL, 1);
  expect("said once", strchr(mark, '\n') == &said[length - 1], 1);
  printf("exact\n");
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}
