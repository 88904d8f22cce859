/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Starts env with two words and the environment that it has itself, in each of C's ways. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define IS(name) (strcmp(way, name) == 0)
static const char path[] = "/usr/bin/env";
static char *words[] = {"env", "echo", "started", NULL};
static void become(const char *way) {
  if (IS("execl"))
    execl(path, "env", "echo", "started", (char *)NULL);
  if (IS("execlp"))
    execlp("env", "env", "echo", "started", (char *)NULL);
  if (IS("execle"))
    execle(path, "env", "echo", "started", (char *)NULL, environ);
  if (IS("execv"))
    execv(path, words);
  if (IS("execvp"))
    execvp("env", words);
  if (IS("execve"))
    execve(path, words, environ);
  if (IS("execvpe"))
    execvpe("env", words, environ);
  if (IS("fexecve"))
    fexecve(open(path, O_RDONLY), words, environ);
}
int main(int argc, char **argv) {
  const char *way = argv[1];
  pid_t child = 0;
  if (argc > 2)
    unsetenv("LD_PRELOAD");
  if (IS("system"))
    return system("env echo started");
  if (IS("popen"))
    return pclose(popen("env echo started", "w"));
  if (IS("posix_spawn"))
    posix_spawn(&child, path, NULL, NULL, words, environ);
  else if (IS("posix_spawnp"))
    posix_spawnp(&child, "env", NULL, NULL, words, environ);
  else {
    child = IS("vfork") ? vfork() : fork();
    if (child == 0) {
      become(IS("vfork") ? "execve" : way);
      _exit(1);
    }
  }
  return waitpid(child, NULL, 0) != child;
}
