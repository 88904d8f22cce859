/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Process-wide and per-thread state, the lock, and warnings. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "interposer.h"

struct tps_process tps__process = {.epoch = TPS_EPOCH_CLOSED};
_Thread_local struct tps_thread tps__thread;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Below MPI_THREAD_MULTIPLE the application keeps calls apart, and no lock is needed. */
void tps__lock(void) {
  if (tps__process.concurrent)
    pthread_mutex_lock(&mutex);
}

void tps__unlock(void) {
  if (tps__process.concurrent)
    pthread_mutex_unlock(&mutex);
}

/* The rank for a message: from the record, or before that from the launcher. */
static int rank_for_message(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                      "SLURM_PROCID"};
  const struct tps_header *header = tps__process.header;
  if (header != NULL)
    return header->rank;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const char *text = getenv(names[i]);
    if (text != NULL && *text != '\0')
      return (int)strtol(text, NULL, 10);
  }
  return -1;
}

bool tps__speaks_for_job(void) { return rank_for_message() <= 0; }

void tps__warn(bool *said, const char *format, ...) {
  if (__atomic_exchange_n(said, true, __ATOMIC_RELAXED))
    return;
  char line[512];
  int rank = rank_for_message();
  int used = rank >= 0 ? snprintf(line, sizeof line, "toposeat: rank %d: ", rank)
                       : snprintf(line, sizeof line, "toposeat: pid %d: ", (int)getpid());
  size_t length = used > 0 ? (size_t)used : 0;
  va_list arguments;
  va_start(arguments, format);
  used = vsnprintf(line + length, sizeof line - length - 1, format, arguments);
  va_end(arguments);
  length += used > 0 ? (size_t)used : 0;
  if (length > sizeof line - 2)
    length = sizeof line - 2;
  for (size_t i = 0; i < length; ++i) /* paths and variables may hold anything */
    if (line[i] < ' ' || line[i] > '~')
      line[i] = '?';
  line[length] = '\n';
  ssize_t written =
      write(STDERR_FILENO, line, length + 1); /* one write: lines of ranks do not mix */
  (void)written;
}
