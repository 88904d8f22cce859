/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "rendezvous.h"

#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_EXPECTED = 65536, ATTEMPTS = 100 };

/* The file: a header, then one entry per rank in order of arrival. All access is under flock. */
struct header {
  int64_t expected;
  int64_t arrived;
  int64_t left;
};

struct entry {
  int64_t rank;
  int64_t pid;
};

/* Variables that differ between two jobs on one node, each group used whole. */
static const char *const JOB_VARIABLES[][2] = {
    {"PMIX_NAMESPACE", NULL},
    {"PMI_JOBID", NULL},
    {"PALS_APID", NULL},
    {"FLUX_JOB_ID", NULL},
    {"SLURM_JOB_ID", "SLURM_STEP_ID"},
    {"PBS_JOBID", NULL},
    {"LSB_JOBID", NULL},
};

/* FNV-1a, so that any job name becomes a file name. */
static uint64_t hash(uint64_t state, const char *text) {
  for (; *text; text++)
    state = (state ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return state;
}

static bool job_path(struct tps_text *path) {
  for (size_t i = 0; i < sizeof JOB_VARIABLES / sizeof *JOB_VARIABLES; i++) {
    const char *first = tps_getenv(JOB_VARIABLES[i][0]);
    const char *second = JOB_VARIABLES[i][1] == NULL ? "" : tps_getenv(JOB_VARIABLES[i][1]);
    if (first == NULL || second == NULL)
      continue;
    uint64_t key = hash(hash(UINT64_C(0xcbf29ce484222325) + i, first), second);
    tps_text_add(path, "/dev/shm/toposeat-%lu-%016llx", (unsigned long)getuid(),
                 (unsigned long long)key);
    return true;
  }
  return false;
}

static bool read_at(int file, void *target, size_t size, size_t offset) {
  return pread(file, target, size, (off_t)offset) == (ssize_t)size;
}

static bool write_at(int file, const void *source, size_t size, size_t offset) {
  return pwrite(file, source, size, (off_t)offset) == (ssize_t)size;
}

static size_t entry_offset(int64_t position) {
  return sizeof(struct header) + (size_t)position * sizeof(struct entry);
}

/* Whether the file was left behind by an earlier job of the same name. */
static bool is_stale(int file, const struct header *header, long rank, long expected) {
  if (header->expected != expected || header->arrived >= expected || header->arrived < 0)
    return true;
  for (int64_t i = 0; i < header->arrived; i++) {
    struct entry entry;
    if (!read_at(file, &entry, sizeof entry, entry_offset(i)) || entry.rank == rank ||
        entry.pid <= 0 || (kill((pid_t)entry.pid, 0) != 0 && errno == ESRCH))
      return true;
  }
  return false;
}

static bool is_same_file(int file, const char *path) {
  struct stat opened, named;
  return fstat(file, &opened) == 0 && lstat(path, &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

/* Opens and locks the file; ours alone, so that another user cannot plant one. -1 on failure. */
static int open_locked(const char *path) {
  int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  struct stat status;
  if (file < 0)
    return -1;
  if (fstat(file, &status) != 0 || status.st_uid != geteuid() || !S_ISREG(status.st_mode) ||
      flock(file, LOCK_EX) != 0) {
    close(file);
    return -1;
  }
  return file;
}

/* Adds this rank; the file stays open and unlocked. -1 on failure. */
static int arrive(const char *path, long rank, long expected) {
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    int file = open_locked(path);
    if (file < 0)
      return -1;
    struct header header = {.expected = expected};
    bool is_new = !read_at(file, &header, sizeof header, 0);
    if (!is_same_file(file, path)) {
      close(file); /* somebody replaced it while this process waited for the lock */
      continue;
    }
    if (!is_new && is_stale(file, &header, rank, expected)) {
      unlink(path);
      close(file);
      continue;
    }
    struct entry entry = {.rank = rank, .pid = getpid()};
    bool written = write_at(file, &entry, sizeof entry, entry_offset(header.arrived));
    header.arrived++;
    written = written && write_at(file, &header, sizeof header, 0);
    flock(file, LOCK_UN);
    if (written)
      return file;
    close(file);
    return -1;
  }
  return -1;
}

/* Under the lock: counts smaller ranks if all are here, and the last one to look tidies up. */
static bool try_complete(int file, const char *path, long rank, long *local_rank) {
  struct header header;
  if (!read_at(file, &header, sizeof header, 0) || header.arrived < header.expected)
    return false;
  *local_rank = 0;
  for (int64_t i = 0; i < header.arrived; i++) {
    struct entry entry;
    if (!read_at(file, &entry, sizeof entry, entry_offset(i)))
      return false;
    *local_rank += entry.rank < rank;
  }
  header.left++;
  if (write_at(file, &header, sizeof header, 0) && header.left == header.expected &&
      is_same_file(file, path))
    unlink(path);
  return true;
}

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool wait_for_all(int file, const char *path, long rank, int timeout_ms, long *local_rank) {
  long deadline = now_ms() + timeout_ms;
  for (long pause_us = 200;; pause_us = pause_us < 20000 ? pause_us * 2 : pause_us) {
    if (flock(file, LOCK_EX) != 0)
      return false;
    bool complete = try_complete(file, path, rank, local_rank);
    bool expired = !complete && now_ms() >= deadline;
    if (expired && is_same_file(file, path))
      unlink(path);
    flock(file, LOCK_UN);
    if (complete || expired)
      return complete;
    struct timespec pause = {.tv_nsec = pause_us * 1000};
    nanosleep(&pause, NULL);
  }
}

bool tps_rendezvous(long rank, long expected, int timeout_ms, long *local_rank) {
  struct tps_text path;
  tps_text_init(&path);
  bool met = false;
  if (expected > 0 && expected <= MAX_EXPECTED && job_path(&path)) {
    int file = arrive(path.data, rank, expected);
    if (file >= 0) {
      met = wait_for_all(file, path.data, rank, timeout_ms, local_rank);
      close(file);
    }
  }
  tps_text_free(&path);
  return met;
}
