/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Starting and ending the recording of this process. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "count.h"

#define DIRECTORY_VARIABLE "TOPOSEAT_PROFILE_DIR"

static pthread_mutex_t attach_mutex = PTHREAD_MUTEX_INITIALIZER;

static void copy_text(char *to, size_t size, const char *from) {
  size_t length = strcspn(from, "\r\n");
  if (length >= size)
    length = size - 1;
  memcpy(to, from, length);
  to[length] = '\0';
}

/* The launcher's name for the job, so that records of two jobs in one folder can be told apart. */
static const char *job_name(void) {
  static const char *const names[] = {"PMIX_NAMESPACE", "PMI_JOBID", "HYDRA_JOBID", "FLUX_JOB_ID",
                                      "SLURM_JOB_ID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const char *text = getenv(names[i]);
    if (text != NULL && *text != '\0')
      return text;
  }
  return "";
}

static bool is_spawned(void) {
  abi_handle parent;
  return tps__mpi.Comm_get_parent != NULL && tps__mpi.Comm_get_parent(&parent) == 0 &&
         parent != tps__comm_null();
}

static void describe(struct tps_header *header, const char *directory) {
  char version[ABI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  int length = 0;
  int level = 0;
  if (tps__mpi.Get_library_version(version, &length) == 0)
    copy_text(header->library, sizeof header->library, version);
  if (gethostname(header->host, sizeof header->host - 1) != 0)
    header->host[0] = '\0';
  copy_text(header->world, sizeof header->world, job_name());
  copy_text(header->abi, sizeof header->abi, ABI_NAME);
  header->pid = (int32_t)getpid();
  header->device_ordinal = -1;
  header->visible_devices = -1;
  if (tps__mpi.Query_thread(&level) == 0 && level == ABI_THREAD_MULTIPLE) {
    tps__process.concurrent = true;
    header->flags |= TPS_FLAG_CONCURRENT;
  }
  if (is_spawned())
    header->flags |= TPS_FLAG_SPAWNED;
  if (tps__is_inside_rank(directory))
    header->flags |= TPS_FLAG_INSIDE_RANK;
}

/* Creates the record of this rank. False: something is wrong, it was said, and nothing is recorded.
 */
static bool start_recording(void) {
  static bool said;
  const char *directory = getenv(DIRECTORY_VARIABLE);
  int rank = -1;
  int size = 0;
  if (directory == NULL || *directory == '\0') {
    tps__warn(&said, DIRECTORY_VARIABLE " is not set: not recording");
    return false;
  }
  abi_handle world = tps__comm_world();
  if (tps__mpi.Comm_rank(world, &rank) != 0 || tps__mpi.Comm_size(world, &size) != 0)
    return false;
  if (!tps__comm_start() || !tps__record_create(directory, rank, size))
    return false;
  struct tps_header *header = tps__process.header;
  describe(header, directory);
  tps__gpu_look();
  header->start_ns = header->last_ns = tps__nanoseconds();
  header->start_ticks = header->last_ticks = tps__ticks();
  tps__process.beat = header->start_ticks;
  uint64_t magic;
  memcpy(&magic, TPS_RECORD_MAGIC, sizeof magic);
  __atomic_store_n((uint64_t *)(void *)header->magic, magic, __ATOMIC_RELEASE);
  return true;
}

/* A process forked off a rank shares the rank's record, and is not the rank. */
static void stop_in_child(void) {
  tps__process.mode = TPS_OFF;
  tps__process.recording = false;
}

static bool attach_locked(void) {
  int initialised = 0;
  int finalised = 0;
  if (tps__process.mode == TPS_UNDECIDED)
    tps__process.mode = tps__right_abi() ? TPS_WAITING : TPS_OFF;
  if (tps__process.mode == TPS_OFF)
    return false;
  if (tps__process.recording)
    return true;
  if (tps__mpi.Initialized(&initialised) != 0 || !initialised ||
      tps__mpi.Finalized(&finalised) != 0 || finalised)
    return false;
  if (start_recording() && pthread_atfork(NULL, NULL, stop_in_child) == 0)
    __atomic_store_n(&tps__process.recording, true, __ATOMIC_RELEASE);
  else
    __atomic_store_n(&tps__process.mode, TPS_OFF, __ATOMIC_RELAXED);
  return tps__process.recording;
}

bool tps__attach(void) {
  if (__atomic_load_n(&tps__process.mode, __ATOMIC_RELAXED) == TPS_OFF)
    return false;
  tps__thread.depth += 1; /* what is asked of MPI here is not the application's doing */
  pthread_mutex_lock(&attach_mutex);
  bool recording = attach_locked();
  pthread_mutex_unlock(&attach_mutex);
  tps__thread.depth -= 1;
  return recording;
}

void tps__beat(uint64_t now) {
  struct tps_header *header = tps__process.header;
  __atomic_store_n(&tps__process.beat, now, __ATOMIC_RELAXED);
  __atomic_store_n(&header->last_ticks, now, __ATOMIC_RELAXED);
  __atomic_store_n(&header->last_ns, tps__nanoseconds(), __ATOMIC_RELAXED);
  if (tps__process.gpu == TPS_GPU_NONE)
    tps__gpu_look();
}

void tps__finish(enum tps_state state) {
  struct tps_header *header = tps__process.header;
  if (header != NULL)
    __atomic_store_n(&header->state, (uint32_t)state, __ATOMIC_RELEASE);
}
