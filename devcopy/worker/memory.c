/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Host and device memory of one worker, and the data that crosses. */
#include <stdlib.h>

#include "worker.h"

static unsigned char letter(size_t at, int rank) {
  return (unsigned char)(at * 131 + (at >> 9) * 7 + (size_t)rank * 29 + 1);
}

void worker_fill_host(struct worker *worker) {
  for (size_t i = 0; i < worker->bytes; ++i)
    worker->host[i] = letter(i, worker->rank);
}

/* What this side sends, in its host and its device memory. */
static bool fill(struct worker *worker) {
  worker_fill_host(worker);
  const struct tdc_driver *driver = tdc_load_driver();
  return driver->copy_in(worker->out, worker->host, worker->bytes, NULL) == 0 &&
         driver->stream_synchronize(NULL) == 0;
}

void worker_free_host(struct worker *worker) {
  if (worker->pinned)
    (void)tdc_load_driver()->unregister_host(worker->host);
  worker->pinned = false;
  free(worker->host);
  worker->host = NULL;
}

static bool allocate_host(struct worker *worker, size_t bytes) {
  worker->host = malloc(bytes);
  worker->pinned = worker->host && tdc_load_driver()->register_host(worker->host, bytes, 0) == 0;
  return worker->host != NULL;
}

bool worker_set_size(struct worker *worker, char **rest) {
  const long bytes = worker_number(rest, 1L << 34);
  if (bytes <= 0 || !worker->context)
    return worker_fail(worker, "no size, or no device yet");
  if ((size_t)bytes <= worker->bytes)
    return true;
  if (worker->bytes) {
    tdc_result result = tdc_free(worker->context, worker->out);
    if (result == TDC_OK)
      result = tdc_free(worker->context, worker->in);
    if (result == TDC_OK)
      result = tdc_commit_frees(worker->context);
    if (result != TDC_OK)
      return worker_fail_copy(worker, result);
  }
  worker_free_host(worker);
  worker->bytes = 0;
  if (!allocate_host(worker, (size_t)bytes))
    return worker_fail(worker, "no host memory");
  tdc_result result = tdc_allocate(worker->context, (size_t)bytes, &worker->out);
  if (result == TDC_OK)
    result = tdc_allocate(worker->context, (size_t)bytes, &worker->in);
  if (result != TDC_OK)
    return worker_fail_copy(worker, result);
  worker->bytes = (size_t)bytes;
  return fill(worker) || worker_fail(worker, "a copy to the device failed");
}

bool worker_check(struct worker *worker, size_t bytes, int sender, bool in_host) {
  const struct tdc_driver *driver = tdc_load_driver();
  if (!in_host && (driver->copy_out(worker->host, worker->in, bytes, NULL) != 0 ||
                   driver->stream_synchronize(NULL) != 0))
    return worker_fail(worker, "a copy from the device failed");
  for (size_t i = 0; i < bytes; ++i)
    if (worker->host[i] != letter(i, sender))
      return worker_fail(worker, "the data that arrived is wrong");
  return true;
}
