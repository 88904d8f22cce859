/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "say.h"
#include "trust.h"

enum { MAX_PROCESSES = 512 };

struct holder {
  pid_t pid;
  int64_t bytes[EMU_MAX_DEVICES];
};

struct shared {
  uint64_t digest; /* of the machine that this state belongs to */
  bool said;
  pthread_mutex_t lock; /* robust: a process may be killed while it holds it */
  struct emu_links links;
  struct holder holder[MAX_PROCESSES];
};

static struct shared *shared;
static struct holder *mine;

static void lock_shared(void) {
  if (pthread_mutex_lock(&shared->lock) == EOWNERDEAD)
    (void)pthread_mutex_consistent(&shared->lock); /* every value in it is valid at any moment */
}

static void unlock_shared(void) { (void)pthread_mutex_unlock(&shared->lock); }

static void make_lock(void) {
  pthread_mutexattr_t kind;
  (void)pthread_mutexattr_init(&kind);
  (void)pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  (void)pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  (void)pthread_mutex_init(&shared->lock, &kind);
  (void)pthread_mutexattr_destroy(&kind);
}

/* The first process fills the file, under a lock that ends with it. */
static bool map_file(int file, uint64_t digest) {
  struct stat is;
  if (flock(file, LOCK_EX) != 0 || fstat(file, &is) != 0)
    return false;
  if (!S_ISREG(is.st_mode) || is.st_uid != geteuid()) {
    errno = EACCES;
    return false;
  }
  const bool fresh = is.st_size == 0;
  bool good = !fresh || ftruncate(file, sizeof *shared) == 0;
  good = good && (fresh || (size_t)is.st_size == sizeof *shared);
  void *at =
      good ? mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (at != MAP_FAILED) {
    shared = at;
    if (fresh) {
      make_lock();
      shared->digest = digest;
    }
  }
  (void)flock(file, LOCK_UN);
  return at != MAP_FAILED;
}

bool emu_state_open(const struct emu_machine *machine) {
  if (shared)
    return true;
  char path[4096];
  const char *of_machine = getenv("TOPOSEAT_EMULATED_MACHINE");
  (void)snprintf(path, sizeof path, "%s.state", of_machine ? of_machine : "");
  int file = tps_make_mark(AT_FDCWD, path);
  if (file < 0 && errno == EEXIST)
    file = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 || !map_file(file, machine->digest)) {
    emu_say("%s: cannot share it with the other processes: %s", path, strerror(errno));
    if (file >= 0)
      (void)close(file);
    return false;
  }
  (void)close(file);
  if (shared->digest != machine->digest) {
    emu_say("%s belongs to another machine file: remove it", path);
    (void)munmap(shared, sizeof *shared);
    shared = NULL;
    return false;
  }
  return true;
}

bool emu_state_first_here(void) {
  if (!shared)
    return true;
  lock_shared();
  const bool first = !shared->said;
  shared->said = true;
  unlock_shared();
  return first;
}

struct emu_links *emu_state_lock(void) {
  lock_shared();
  return &shared->links;
}

void emu_state_unlock(void) { unlock_shared(); }

/* This process's entry: a free one, or that of a process that is no more. */
static struct holder *my_holder(void) {
  for (int i = 0; !mine && i < MAX_PROCESSES; ++i) {
    struct holder *each = &shared->holder[i];
    if (each->pid != 0 && (kill(each->pid, 0) == 0 || errno != ESRCH))
      continue;
    memset(each, 0, sizeof *each);
    each->pid = getpid();
    mine = each;
  }
  return mine;
}

static uint64_t used(unsigned device) {
  int64_t sum = 0;
  for (int i = 0; i < MAX_PROCESSES; ++i) {
    const struct holder *each = &shared->holder[i];
    if (each->pid != 0 && each->bytes[device] && (kill(each->pid, 0) == 0 || errno != ESRCH))
      sum += each->bytes[device];
  }
  return (uint64_t)sum;
}

bool emu_take_memory(const struct emu_machine *machine, unsigned device, int64_t bytes) {
  lock_shared();
  struct holder *holder = my_holder();
  const bool enough = holder && (bytes <= 0 || used(device) + (uint64_t)bytes <=
                                                   machine->device[device].memory_bytes);
  if (enough)
    holder->bytes[device] += bytes;
  unlock_shared();
  return enough;
}

uint64_t emu_memory_used(unsigned device) {
  lock_shared();
  const uint64_t sum = used(device);
  unlock_shared();
  return sum;
}
