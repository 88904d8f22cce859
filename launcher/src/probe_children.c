/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "probe_children.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static pid_t speaker;
static void (*begin)(void);
static volatile sig_atomic_t killed;

bool tps_probe_may_speak(void) { return getpid() == speaker; }

bool tps_probe_child_was_killed(void) { return killed != 0; }

/* ---- forks ---- */

/* By the map of this process: in a fork nothing else can be asked without a lock. */
static bool has_driver(void) {
  static const char name[] = "/libcuda.so";
  char text[4096 + sizeof name];
  size_t kept = 0;
  bool found = false;
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return true;
  for (ssize_t got; !found && (got = read(file, text + kept, 4096)) > 0;) {
    size_t length = kept + (size_t)got;
    found = memmem(text, length, name, sizeof name - 1) != NULL;
    kept = length < sizeof name - 2 ? length : sizeof name - 2;
    memmove(text, text + length - kept, kept);
  }
  close(file);
  return found;
}

static void begin_in_fork(void) {
  if (has_driver())
    return;
  speaker = getpid();
  killed = 0;
  begin();
}

/* ---- waiting, as shells and Python do; `wait` may be a name of a library's own ---- */

static struct {
  pid_t (*waitpid)(pid_t, int *, int);
  pid_t (*wait3)(int *, int, struct rusage *);
  pid_t (*wait4)(pid_t, int *, int, struct rusage *);
} next;

static void load_next(const char *name, void *target) {
  void *symbol = dlsym(RTLD_NEXT, name);
  memcpy(target, (const void *)&symbol, sizeof symbol);
}

static void load_all(void) {
  load_next("waitpid", (void *)&next.waitpid);
  load_next("wait3", (void *)&next.wait3);
  load_next("wait4", (void *)&next.wait4);
}

void tps_probe_watch_children(void (*begin_anew)(void)) {
  speaker = getpid();
  begin = begin_anew;
  load_all();
  pthread_atfork(NULL, NULL, begin_in_fork);
}

/* A closed pipe ends most pipelines of a shell, and no job. */
static pid_t note(pid_t ended, const int *status) {
  if (ended > 0 && WIFSIGNALED(*status) && WTERMSIG(*status) != SIGPIPE)
    killed = 1;
  return ended;
}

EXPORTED pid_t waitpid(pid_t pid, int *status, int options) {
  int own = 0;
  int *told = status == NULL ? &own : status;
  if (next.waitpid == NULL)
    load_all();
  return note(next.waitpid(pid, told, options), told);
}

EXPORTED pid_t wait3(int *status, int options, struct rusage *usage) {
  int own = 0;
  int *told = status == NULL ? &own : status;
  if (next.wait3 == NULL)
    load_all();
  return note(next.wait3(told, options, usage), told);
}

EXPORTED pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage) {
  int own = 0;
  int *told = status == NULL ? &own : status;
  if (next.wait4 == NULL)
    load_all();
  return note(next.wait4(pid, told, options, usage), told);
}
