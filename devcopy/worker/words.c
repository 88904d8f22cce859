/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lines of words: what an order says, and what the answer is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker.h"

bool worker_fail(struct worker *worker, const char *cause) {
  (void)snprintf(worker->answer, LINE, "failed %s", cause);
  return false;
}

bool worker_fail_copy(struct worker *worker, tdc_result result) {
  if (result == TDC_DRIVER)
    (void)snprintf(worker->answer, LINE, "failed %s (its code is %d)", tdc_result_text(result),
                   worker->context ? tdc_driver_error(worker->context) : 0);
  else
    (void)snprintf(worker->answer, LINE, "failed %s", tdc_result_text(result));
  return false;
}

long worker_number(char **rest, long most) {
  const char *text = strtok_r(NULL, " \n", rest);
  char *end = NULL;
  const long value = text ? strtol(text, &end, 10) : -1;
  return text && end && *end == 0 && value >= 0 && value <= most ? value : -1;
}

double worker_start_time(char **rest) {
  const char *text = strtok_r(NULL, " \n", rest);
  return text ? strtod(text, NULL) : 0;
}

double worker_now(void) {
  struct timespec at;
  (void)clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

void worker_wait_until(double start) {
  const struct timespec at = {(time_t)start, (long)((start - (double)(time_t)start) * 1e9)};
  if (start > 0)
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

void worker_add_seconds(struct worker *worker, double seconds) {
  const size_t length = strlen(worker->answer);
  if (length + 32 < LINE)
    (void)snprintf(worker->answer + length, LINE - length, " %.9f", seconds);
}

bool worker_has_word(char **rest, const char *word) {
  const char *text = strtok_r(NULL, " \n", rest);
  return text && strcmp(text, word) == 0;
}
