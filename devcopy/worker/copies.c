/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Transfers of one direction, and copies between host memory and the own device. */
#include <stdio.h>

#include "worker.h"

bool worker_send(struct worker *worker, char **rest) {
  const long peer = worker_number(rest, MAX_RANKS - 1);
  const long bytes = worker_number(rest, 1L << 34);
  const long repeats = worker_number(rest, MAX_REPEATS);
  if (peer < 0 || !worker->links[peer] || bytes < 0 || (size_t)bytes > worker->bytes || repeats < 1)
    return worker_fail(worker, "bad send");
  const double start = worker_start_time(rest);
  const bool from_host = worker_has_word(rest, "host");
  if (from_host)
    worker_fill_host(worker);
  const uint64_t from = from_host ? (uint64_t)(uintptr_t)worker->host : worker->out;
  worker_wait_until(start);
  for (long i = 0; i < repeats; ++i) {
    const tdc_result result = tdc_send(worker->links[peer], from, (size_t)bytes, NULL);
    if (result != TDC_OK)
      return worker_fail_copy(worker, result);
  }
  return true;
}

bool worker_receive(struct worker *worker, char **rest) {
  const long peer = worker_number(rest, MAX_RANKS - 1);
  const long protocol = worker_number(rest, TDC_STAGED);
  const long bytes = worker_number(rest, 1L << 34);
  const long repeats = worker_number(rest, MAX_REPEATS);
  if (peer < 0 || !worker->links[peer] || protocol < 0 || bytes < 0 ||
      (size_t)bytes > worker->bytes || repeats < 1)
    return worker_fail(worker, "bad receive");
  const double start = worker_start_time(rest);
  const bool to_host = worker_has_word(rest, "host");
  const uint64_t to = to_host ? (uint64_t)(uintptr_t)worker->host : worker->in;
  worker_wait_until(start);
  tdc_report report = {0};
  for (long i = 0; i < repeats; ++i) {
    const double begin = worker_now();
    const tdc_result result =
        tdc_receive(worker->links[peer], to, (size_t)bytes, (tdc_protocol)protocol, &report);
    if (result != TDC_OK)
      return worker_fail_copy(worker, result);
    if (i == 0)
      (void)snprintf(worker->answer, LINE, "ok %s", tdc_protocol_name(report.protocol));
    worker_add_seconds(worker, worker_now() - begin);
  }
  return worker_check(worker, (size_t)bytes, (int)peer, to_host);
}

bool worker_host_copies(struct worker *worker, char **rest) {
  const long out = worker_number(rest, 1);
  const long bytes = worker_number(rest, 1L << 34);
  const long repeats = worker_number(rest, MAX_REPEATS);
  const struct tdc_driver *driver = tdc_load_driver();
  if (out < 0 || bytes < 0 || (size_t)bytes > worker->bytes || repeats < 1)
    return worker_fail(worker, "bad host");
  worker_wait_until(worker_start_time(rest));
  (void)snprintf(worker->answer, LINE, "ok %s", worker->pinned ? "pinned" : "pageable");
  for (long i = 0; i < repeats; ++i) {
    const double begin = worker_now();
    const int code = out ? driver->copy_out(worker->host, worker->in, (size_t)bytes, NULL)
                         : driver->copy_in(worker->in, worker->host, (size_t)bytes, NULL);
    if (code != 0 || driver->stream_synchronize(NULL) != 0)
      return worker_fail(worker, "a copy between host and device failed");
    worker_add_seconds(worker, worker_now() - begin);
  }
  return true;
}
