/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hostile HOW: a program on the stand-in MPI (interposer/tests) that says what it does on stdout
 * and ends in the way asked for. Whatever the environment, it must say and do the same.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "standin_mpi.h"

static void *talk(void *unused) {
  double buffer[2] = {0};
  MPI_Request request;
  for (int i = 0; i < 40; ++i) {
    MPI_Send(buffer, i % 3, MPI_DOUBLE, i % STANDIN_SIZE, 0, MPI_COMM_WORLD);
    MPI_Isend(buffer, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, NULL);
    MPI_Allreduce(buffer, buffer, 1 + i, MPI_DOUBLE, NULL, MPI_COMM_WORLD);
    MPI_Pcontrol(i % 4 - 1);
  }
  return unused;
}

static void say(const char *what) {
  printf("%s\n", what);
  fflush(stdout);
}

static void fork_and_talk(void) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    talk(NULL);
    say("child");
    _exit(3);
  }
  waitpid(child, &status, 0);
  printf("child ended with %d\n", status);
}

static void in_threads(void) {
  pthread_t threads[3];
  int made = 0;
  while (made < 3 && pthread_create(&threads[made], NULL, talk, NULL) == 0)
    made += 1;
  while (made > 0)
    pthread_join(threads[--made], NULL);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  talk(NULL);
  say(how);
  if (strcmp(how, "segv") == 0)
    raise(SIGSEGV);
  if (strcmp(how, "kill") == 0)
    raise(SIGKILL);
  if (strcmp(how, "_exit") == 0)
    _exit(5);
  if (strcmp(how, "abort") == 0)
    MPI_Abort(MPI_COMM_WORLD, 6);
  if (strcmp(how, "exec") == 0)
    execl("/bin/sh", "sh", "-c", "echo executed; exit 9", (char *)NULL);
  if (strcmp(how, "fork") == 0)
    fork_and_talk();
  if (strcmp(how, "threads") == 0)
    in_threads();
  if (strcmp(how, "close") == 0)
    for (int file = 2; file < 64; ++file)
      close(file);
  talk(NULL);
  MPI_Finalize();
  talk(NULL);
  say("end");
  return 7;
}
