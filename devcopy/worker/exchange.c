/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Both directions at once: a thread with a context of its own sends while the worker receives. The
   two links end with the exchange, so that nothing of it is open when memory is freed. */
#include <pthread.h>
#include <stdio.h>

#include "worker.h"

struct exchange {
  struct worker *worker;
  tdc_context *sending; /* a second context on the same device */
  tdc_link *to, *from;
  size_t bytes;
  long repeats;
  tdc_protocol protocol;
  tdc_result sent;
};

static void *send_all(void *of) {
  struct exchange *exchange = of;
  for (long i = 0; i < exchange->repeats && exchange->sent == TDC_OK; ++i)
    exchange->sent = tdc_send(exchange->to, exchange->worker->out, exchange->bytes, NULL);
  return NULL;
}

/* Times of all that is received; the answer is "ok PROTOCOL SECONDS...". */
static bool receive_all(struct exchange *exchange) {
  struct worker *worker = exchange->worker;
  tdc_report report = {0};
  for (long i = 0; i < exchange->repeats; ++i) {
    const double begin = worker_now();
    const tdc_result result =
        tdc_receive(exchange->from, worker->in, exchange->bytes, exchange->protocol, &report);
    if (result != TDC_OK)
      return worker_fail_copy(worker, result);
    if (i == 0)
      (void)snprintf(worker->answer, LINE, "ok %s", tdc_protocol_name(report.protocol));
    worker_add_seconds(worker, worker_now() - begin);
  }
  return true;
}

static bool both(struct exchange *exchange, long peer) {
  struct worker *worker = exchange->worker;
  pthread_t thread;
  if (pthread_create(&thread, NULL, send_all, exchange) != 0)
    return worker_fail(worker, "no thread");
  const bool received = receive_all(exchange);
  if (!received) { /* the peer's sender, and then ours, must not wait for what will not come */
    tdc_disconnect(exchange->from);
    exchange->from = NULL;
  }
  (void)pthread_join(thread, NULL);
  if (received && exchange->sent != TDC_OK)
    return worker_fail_copy(worker, exchange->sent);
  return received && worker_check(worker, exchange->bytes, (int)peer, false);
}

/* The one who listens is first joined as the receiver; both then change roles. */
static tdc_result join(struct exchange *exchange, int peer, bool listens) {
  for (int turn = 0; turn < 2; ++turn) {
    const bool receives = listens == (turn == 0);
    const int end = worker_join(exchange->worker, peer, listens);
    if (end < 0)
      return TDC_PEER_GONE;
    const tdc_result result = tdc_connect(receives ? exchange->worker->context : exchange->sending,
                                          end, receives ? &exchange->from : &exchange->to);
    if (result != TDC_OK)
      return result;
  }
  return TDC_OK;
}

/* exchange PEER LISTENS PROTOCOL BYTES REPEATS */
bool worker_exchange(struct worker *worker, char **rest) {
  const long peer = worker_number(rest, MAX_RANKS - 1);
  const long listens = worker_number(rest, 1);
  const long protocol = worker_number(rest, TDC_STAGED);
  const long bytes = worker_number(rest, 1L << 34);
  const long repeats = worker_number(rest, MAX_REPEATS);
  if (peer < 0 || peer == worker->rank || listens < 0 || protocol < 0 || bytes < 0 || repeats < 1 ||
      (size_t)bytes > worker->bytes || !worker->context)
    return worker_fail(worker, "bad exchange");
  struct exchange exchange = {.worker = worker,
                              .bytes = (size_t)bytes,
                              .repeats = repeats,
                              .protocol = (tdc_protocol)protocol};
  tdc_result result = tdc_open(worker->device, &worker->options, &exchange.sending);
  if (result == TDC_OK)
    result = join(&exchange, (int)peer, listens == 1);
  const bool good = result == TDC_OK ? both(&exchange, peer) : worker_fail_copy(worker, result);
  tdc_disconnect(exchange.from);
  tdc_close(exchange.sending);
  return good;
}
