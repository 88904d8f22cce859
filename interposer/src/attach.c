/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Starting and ending the recording of this process. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "newer.h"

#define DIRECTORY_VARIABLE "TOPOSEAT_PROFILE_DIR"
#define TIME_VARIABLE "TOPOSEAT_PROFILE_TIME"
#define UNTIMED_CALLS_PER_BEAT 256u

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

/* This rank among those of its node; -1: the launcher does not say. */
static int local_rank(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK",
                                      "MPI_LOCALRANKID",
                                      "PALS_LOCAL_RANKID",
                                      "MV2_COMM_WORLD_LOCAL_RANK",
                                      "FLUX_TASK_LOCAL_ID",
                                      "JSM_NAMESPACE_LOCAL_RANK",
                                      "PMI_LOCAL_RANK",
                                      "SLURM_LOCALID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const char *text = getenv(names[i]);
    char *end = NULL;
    long number = text != NULL ? strtol(text, &end, 10) : -1;
    if (number >= 0 && number <= INT_MAX && end != text && *end == '\0')
      return (int)number;
  }
  return -1;
}

/* By a rank, which counts what it sends here as sent outside. */
static bool is_spawned(void) {
  abi_handle parent;
  return tps__world_model() && tps__mpi.Comm_get_parent != NULL &&
         tps__mpi.Comm_get_parent(&parent) == 0 && parent != tps__comm_null();
}

/* Nothing where the machine has more CPUs than the record has room for. */
static void note_cpus(struct tps_header *header) {
  cpu_set_t *cpus = (cpu_set_t *)(void *)header->cpus;
  if (sched_getaffinity(0, sizeof header->cpus, cpus) != 0)
    CPU_ZERO_S(sizeof header->cpus, cpus);
}

static void describe(struct tps_header *header, const char *directory) {
  char version[ABI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  int length = 0;
  if (tps__mpi.Get_library_version(version, &length) == 0)
    copy_text(header->library, sizeof header->library, version);
  if (gethostname(header->host, sizeof header->host - 1) != 0)
    header->host[0] = '\0';
  copy_text(header->world, sizeof header->world, job_name());
  copy_text(header->abi, sizeof header->abi, ABI_NAME);
  header->local_rank = local_rank();
  note_cpus(header);
  if (tps__process.concurrent)
    header->flags |= TPS_FLAG_CONCURRENT;
  if (!tps__process.timed)
    header->flags |= TPS_FLAG_UNTIMED;
  if (tps__is_inside_rank(directory))
    header->flags |= TPS_FLAG_INSIDE_RANK;
}

/* What to record, and how, from the environment and MPI. */
static void configure(void) {
  static bool said;
  int level = 0;
  const char *time = getenv(TIME_VARIABLE);
  tps__process.timed = time == NULL || strcmp(time, "0") != 0;
  if (tps__process.timed && time != NULL && *time != '\0' && strcmp(time, "1") != 0 &&
      tps__speaks_for_job())
    tps__warn(&said, TIME_VARIABLE "=%.40s is neither 0 nor 1: calls are timed", time);
  /* Sessions may each have a level of their own. */
  tps__process.concurrent =
      !tps__world_model() || (tps__mpi.Query_thread(&level) == 0 && level == ABI_THREAD_MULTIPLE);
  tps__phases_configure();
  bool windows = tps__process.phase_mode == TPS_PHASES_WINDOWS;
  tps__process.calls_per_beat = windows ? 1 : UNTIMED_CALLS_PER_BEAT;
}

static uint64_t cpu_nanoseconds(void) {
  struct timespec used = {0};
  if (tps__process.timed)
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* Creates the record of this rank. False: it failed with a warning, and nothing is recorded. */
static bool start_recording(void) {
  static bool said, unseen;
  const char *directory = getenv(DIRECTORY_VARIABLE);
  int rank = -1;
  int size = 0;
  if (directory == NULL || *directory == '\0') {
    if (tps__speaks_for_job())
      tps__warn(&said, DIRECTORY_VARIABLE " is not set: not recording");
    return false;
  }
  configure();
  directory = tps__record_folder(directory);
  if (!tps__comm_start(&rank, &size) || !tps__main_segment_start(directory, rank, size))
    return false;
  struct tps_header *header = tps__process.header;
  describe(header, directory);
  if (tps__newer_unseen() && tps__speaks_for_job())
    tps__warn(&unseen, "this system does not let calls newer than MPI 3.1 be seen (X_c, X_init of "
                       "collectives, sessions): what is sent by them is not recorded");
  tps__gpu_look();
  header->start_ns = header->last_ns = tps__nanoseconds();
  header->start_ticks = header->last_ticks = tps__ticks();
  header->start_cpu_ns = header->last_cpu_ns = cpu_nanoseconds();
  tps__phases_start(header->start_ticks);
  tps__record_publish(header);
  tps__tell_start();
  return true;
}

void tps__stop(void) {
  __atomic_store_n(&tps__process.mode, TPS_OFF, __ATOMIC_RELAXED);
  __atomic_store_n(&tps__process.recording, false, __ATOMIC_RELEASE);
  __atomic_store_n(&tps__process.epoch, TPS_EPOCH_CLOSED, __ATOMIC_RELEASE);
}

static bool attach_locked(void) {
  abi_handle world;
  if (tps__process.mode == TPS_UNDECIDED)
    tps__process.mode = tps__right_abi() ? TPS_WAITING : TPS_OFF;
  if (tps__process.mode == TPS_OFF)
    return false;
  if (tps__process.recording)
    return true;
  if (!tps__world_group(&world)) /* MPI is not initialised yet */
    return false;
  tps__mpi.Group_free(&world);
  /* A process that a rank forked shares the rank's record, but is not the rank. */
  if (is_spawned() || !start_recording() || pthread_atfork(NULL, NULL, tps__stop) != 0) {
    __atomic_store_n(&tps__process.mode, TPS_OFF, __ATOMIC_RELAXED);
    return false;
  }
  __atomic_store_n(&tps__process.recording, true, __ATOMIC_RELEASE);
  __atomic_store_n(&tps__process.epoch, TPS_EPOCH_CLOSED + 1, __ATOMIC_RELEASE);
  return true;
}

bool tps__attach(void) {
  if (__atomic_load_n(&tps__process.mode, __ATOMIC_RELAXED) == TPS_OFF)
    return false;
  tps__thread.depth += 1; /* these MPI calls are ours, not the application's */
  pthread_mutex_lock(&attach_mutex);
  bool recording = attach_locked();
  pthread_mutex_unlock(&attach_mutex);
  tps__thread.depth -= 1;
  return recording;
}

void tps__went_past(const char *name) {
  static bool said;
  bool recorded = tps__recording() && tps__thread.depth == 0 &&
                  __atomic_load_n(&tps__process.phase, __ATOMIC_RELAXED) != TPS_NO_PHASE;
  if (recorded && tps__speaks_for_job())
    tps__warn(&said,
              "another tool keeps a call of %s, or hands it on past this library: what it "
              "sends so is not recorded",
              name);
}

static uint64_t stamp(uint64_t now) {
  struct tps_header *header = tps__process.header;
  uint64_t nanoseconds = tps__nanoseconds();
  __atomic_store_n(&header->last_ticks, now, __ATOMIC_RELAXED);
  __atomic_store_n(&header->last_ns, nanoseconds, __ATOMIC_RELAXED);
  __atomic_store_n(&header->last_cpu_ns, cpu_nanoseconds(), __ATOMIC_RELAXED);
  return nanoseconds;
}

void tps__beat(uint64_t now) {
  struct tps_thread *thread = &tps__thread;
  thread->beat = now;
  thread->calls_until_beat = tps__process.calls_per_beat;
  tps__phases_beat(now, stamp(now));
  if (tps__gpu() == TPS_GPU_NONE)
    tps__gpu_look();
}

void tps__end_of_run(void) {
  uint64_t now = tps__ticks();
  stamp(now);
  tps__phases_finish(now);
  tps__gpu_finish();
}

bool tps__thread_enter(void) {
  bool closed = __atomic_load_n(&tps__process.epoch, __ATOMIC_ACQUIRE) == TPS_EPOCH_CLOSED;
  return (!closed || tps__attach()) && tps__thread_join();
}
