/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One transfer: what the sender offers, what the receiver decides, and who copies. */
#include <string.h>
#include <unistd.h>

#include "link.h"

/* One side's view of a transfer. */
struct transfer {
  tdc_link *link;
  tdc_context *context;
  uint64_t pointer;
  size_t bytes;
  bool on_device;
  void *stream; /* that copies between the two processes' memory */
  tdc_report report;
};

static tdc_result begin(struct transfer *transfer, tdc_link *link, uint64_t pointer, size_t bytes) {
  if (!link || (!pointer && bytes))
    return TDC_ARGUMENT;
  if (link->fault != TDC_OK)
    return link->fault;
  memset(transfer, 0, sizeof *transfer);
  transfer->link = link;
  transfer->context = link->context;
  transfer->pointer = pointer;
  transfer->bytes = bytes;
  transfer->report.bytes = bytes;
  if (!tdc_good(link->context, link->context->driver->set_current(link->context->primary)))
    return TDC_DRIVER;
  transfer->on_device = bytes && tdc_is_device_memory(link->context, pointer);
  return TDC_OK;
}

static tdc_result say(struct transfer *transfer, enum tdc_kind kind, tdc_protocol protocol,
                      uint32_t flags) {
  const struct tdc_message message = {
      .kind = kind, .bytes = transfer->bytes, .protocol = protocol, .flags = flags};
  return tdc_say(transfer->link, &message, -1);
}

/* What the other side needs to open this side's memory. */
struct offer {
  struct tdc_shared shared;
  int file;
};

/* TDC_DRIVER if the memory cannot be offered: virtual memory that spans several allocations cannot.
   TDC_ARGUMENT if the transfer runs over the end of its memory. */
static tdc_result describe(struct transfer *transfer, struct offer *offer) {
  const struct tdc_shared *shared = &offer->shared;
  const tdc_result result =
      tdc_describe(transfer->context, transfer->pointer, &offer->shared, &offer->file);
  if (result != TDC_OK ||
      (shared->offset <= shared->size && transfer->bytes <= shared->size - shared->offset))
    return result;
  if (!shared->by_file)
    return TDC_ARGUMENT;
  (void)close(offer->file);
  return TDC_DRIVER;
}

/* Says it together with an offer, which ends with that. */
static tdc_result say_offer(struct transfer *transfer, enum tdc_kind kind, tdc_protocol protocol,
                            const struct offer *offer, uint64_t split) {
  const struct tdc_message message = {.kind = kind,
                                      .bytes = transfer->bytes,
                                      .protocol = protocol,
                                      .flags = TDC_ON_DEVICE,
                                      .split = split,
                                      .shared = offer->shared};
  const tdc_result result = tdc_say(transfer->link, &message, offer->file);
  if (offer->file >= 0)
    (void)close(offer->file);
  return result;
}

/* Copies between the own buffer and memory that is open here, and waits. */
static tdc_result copy(struct transfer *transfer, uint64_t theirs, size_t first, size_t bytes,
                       bool push) {
  tdc_context *context = transfer->context;
  const struct tdc_driver *driver = context->driver;
  const uint64_t mine = transfer->pointer + first;
  const uint64_t other = theirs + first;
  int code = 0;
  if (bytes == 0)
    return TDC_OK;
  if (transfer->on_device)
    code = driver->copy(push ? other : mine, push ? mine : other, bytes, transfer->stream);
  else if (push)
    code = driver->copy_in(other, (const void *)(uintptr_t)mine, bytes, transfer->stream);
  else
    code = driver->copy_out((void *)(uintptr_t)mine, other, bytes, transfer->stream);
  if (!tdc_good(context, code) || !tdc_good(context, driver->stream_synchronize(transfer->stream)))
    return TDC_DRIVER;
  return TDC_OK;
}

static tdc_result open_theirs(struct transfer *transfer, const struct tdc_shared *shared,
                              uint64_t *pointer) {
  int device = transfer->context->device;
  transfer->stream =
      transfer->on_device ? transfer->context->stream : tdc_attach(transfer->link, &device);
  return tdc_open_shared(transfer->link, shared, device, pointer, &transfer->report.was_open);
}

/* Without a cache nothing stays open. */
static void close_theirs(struct transfer *transfer, uint64_t pointer) {
  if (transfer->context->options.no_cache)
    tdc_close_shared(transfer->context, pointer);
}

/* ---- the sender */

static tdc_result hear_done(struct transfer *transfer) {
  struct tdc_message message;
  return tdc_hear(transfer->link, TDC_DONE, TDC_DONE, &message);
}

/* Pushes what the receiver has asked for into its buffer; *refused if it cannot be opened. */
static tdc_result push(struct transfer *transfer, const struct tdc_message *cts, bool *refused) {
  uint64_t theirs = 0;
  const bool whole = cts->protocol == TDC_PUT;
  *refused = open_theirs(transfer, &cts->shared, &theirs) != TDC_OK;
  if (*refused)
    return say(transfer, TDC_REFUSED, TDC_PUT, 0);
  const size_t part = whole || cts->split > transfer->bytes ? transfer->bytes : cts->split;
  tdc_result result = copy(transfer, theirs, 0, part, true);
  close_theirs(transfer, theirs);
  if (result != TDC_OK)
    return tdc_break(transfer->link, result);
  result = say(transfer, TDC_DONE, TDC_PUT, 0);
  return result == TDC_OK && !whole ? hear_done(transfer) : result;
}

/* Does what the receiver's answer says; *again if it will send another answer. */
static tdc_result follow(struct transfer *transfer, const struct tdc_message *cts, bool *again) {
  *again = false;
  transfer->report.protocol = (tdc_protocol)cts->protocol;
  if (cts->flags & TDC_FELL_BACK)
    transfer->report.fell_back = true;
  if (cts->flags & TDC_SIZE_REFUSED)
    return TDC_TOO_SMALL;
  tdc_result result = TDC_OK;
  switch (cts->protocol) {
  case TDC_PUT:
  case TDC_COOPERATE:
    return push(transfer, cts, again);
  case TDC_STAGED:
    result = tdc_push_ring(transfer->link, transfer->pointer, transfer->bytes, transfer->on_device);
    return result == TDC_OK ? hear_done(transfer) : result;
  default:
    return tdc_break(transfer->link, TDC_PROTOCOL);
  }
}

/* Announces the transfer, with the memory if that can be opened. */
static tdc_result announce(struct transfer *transfer) {
  struct offer offer;
  const tdc_result described = transfer->on_device ? describe(transfer, &offer) : TDC_DRIVER;
  if (described == TDC_ARGUMENT)
    return described;
  return described == TDC_OK ? say_offer(transfer, TDC_RTS, TDC_AUTO, &offer, 0)
                             : say(transfer, TDC_RTS, TDC_AUTO, 0);
}

static tdc_result send_announced(struct transfer *transfer) {
  struct tdc_message heard;
  for (bool again = true; again;) {
    again = false;
    tdc_result result = tdc_hear(transfer->link, TDC_CTS, TDC_DONE, &heard);
    if (result == TDC_OK && heard.kind == TDC_CTS)
      result = follow(transfer, &heard, &again);
    if (result != TDC_OK)
      return result;
  }
  if (heard.kind == TDC_DONE) { /* the receiver has pulled */
    transfer->report.protocol = TDC_GET;
    transfer->report.fell_back = heard.flags & TDC_FELL_BACK;
  }
  return TDC_OK;
}

tdc_result tdc_send(tdc_link *link, uint64_t pointer, size_t bytes, tdc_report *report) {
  struct transfer transfer;
  tdc_result result = begin(&transfer, link, pointer, bytes);
  if (result == TDC_OK)
    result = announce(&transfer);
  if (result == TDC_OK)
    result = send_announced(&transfer);
  if (link)
    tdc_drop_file(link);
  if (report && result != TDC_ARGUMENT)
    *report = transfer.report;
  return result;
}

/* ---- the receiver */

/* What to try, given what both sides have. */
static tdc_protocol decide(const struct transfer *transfer, const struct tdc_message *rts,
                           tdc_protocol wanted) {
  const bool theirs_on_device = rts->flags & TDC_ON_DEVICE;
  const bool near = tdc_is_near(transfer->link);
  if (transfer->bytes == 0 || (!transfer->on_device && !theirs_on_device))
    return TDC_STAGED;
  if (wanted == TDC_AUTO) /* between host and device: staging is faster (Ji et al., Fig. 6) */
    wanted = transfer->on_device && theirs_on_device && near &&
                     transfer->bytes < transfer->link->direct_below
                 ? TDC_GET
                 : TDC_STAGED;
  if ((wanted == TDC_GET || wanted == TDC_COOPERATE) && !theirs_on_device)
    return TDC_STAGED;
  if ((wanted == TDC_PUT || wanted == TDC_COOPERATE) && !transfer->on_device)
    return TDC_STAGED;
  return near ? wanted : TDC_STAGED;
}

static tdc_result receive_staged(struct transfer *transfer, uint32_t flags) {
  transfer->report.protocol = TDC_STAGED;
  tdc_result result = say(transfer, TDC_CTS, TDC_STAGED, flags);
  if (result == TDC_OK)
    result = tdc_pull_ring(transfer->link, transfer->pointer, transfer->bytes, transfer->on_device);
  return result == TDC_OK ? say(transfer, TDC_DONE, TDC_STAGED, 0) : result;
}

static tdc_result fall_back(struct transfer *transfer) {
  transfer->report.fell_back = true;
  return receive_staged(transfer, TDC_FELL_BACK);
}

static tdc_result receive_get(struct transfer *transfer, const struct tdc_shared *theirs,
                              uint32_t flags) {
  uint64_t pointer = 0;
  if (open_theirs(transfer, theirs, &pointer) != TDC_OK)
    return fall_back(transfer);
  transfer->report.protocol = TDC_GET;
  const tdc_result result = copy(transfer, pointer, 0, transfer->bytes, false);
  close_theirs(transfer, pointer);
  if (result != TDC_OK)
    return tdc_break(transfer->link, result);
  return say(transfer, TDC_DONE, TDC_GET, flags);
}

static tdc_result receive_put(struct transfer *transfer) {
  struct offer mine;
  struct tdc_message heard;
  if (describe(transfer, &mine) != TDC_OK)
    return fall_back(transfer);
  transfer->report.protocol = TDC_PUT;
  tdc_result result = say_offer(transfer, TDC_CTS, TDC_PUT, &mine, 0);
  if (result == TDC_OK)
    result = tdc_hear(transfer->link, TDC_DONE, TDC_REFUSED, &heard);
  if (result == TDC_OK && heard.kind == TDC_REFUSED)
    return fall_back(transfer);
  return result;
}

/* The sender pushes the lower half while this side pulls the upper one. */
static tdc_result receive_together(struct transfer *transfer, const struct tdc_shared *theirs) {
  struct offer mine;
  struct tdc_message heard;
  uint64_t pointer = 0;
  const uint64_t split = transfer->bytes / 2;
  if (open_theirs(transfer, theirs, &pointer) != TDC_OK || describe(transfer, &mine) != TDC_OK)
    return fall_back(transfer);
  transfer->report.protocol = TDC_COOPERATE;
  tdc_result result = say_offer(transfer, TDC_CTS, TDC_COOPERATE, &mine, split);
  if (result == TDC_OK) {
    result = copy(transfer, pointer, split, transfer->bytes - split, false);
    close_theirs(transfer, pointer);
    if (result != TDC_OK)
      return tdc_break(transfer->link, result);
    result = tdc_hear(transfer->link, TDC_DONE, TDC_REFUSED, &heard);
  }
  if (result != TDC_OK)
    return result;
  if (heard.kind == TDC_REFUSED) { /* it cannot reach us, but we can reach it */
    transfer->report.fell_back = true;
    return receive_get(transfer, theirs, TDC_FELL_BACK);
  }
  return say(transfer, TDC_DONE, TDC_COOPERATE, 0);
}

static tdc_result receive_announced(struct transfer *transfer, const struct tdc_message *rts,
                                    tdc_protocol wanted) {
  const tdc_protocol chosen = decide(transfer, rts, wanted);
  transfer->report.fell_back = wanted != TDC_AUTO && chosen != wanted;
  if (chosen == TDC_GET)
    return receive_get(transfer, &rts->shared, 0);
  if (chosen == TDC_PUT)
    return receive_put(transfer);
  if (chosen == TDC_COOPERATE)
    return receive_together(transfer, &rts->shared);
  return receive_staged(transfer, transfer->report.fell_back ? TDC_FELL_BACK : 0);
}

tdc_result tdc_receive(tdc_link *link, uint64_t pointer, size_t bytes, tdc_protocol wanted,
                       tdc_report *report) {
  struct transfer transfer;
  struct tdc_message rts;
  tdc_result result = begin(&transfer, link, pointer, bytes);
  if (result != TDC_OK)
    return result;
  if ((unsigned)wanted > TDC_STAGED)
    return TDC_ARGUMENT;
  result = tdc_hear(link, TDC_RTS, TDC_RTS, &rts);
  if (result != TDC_OK)
    return result;
  if (rts.bytes > bytes) {
    result = say(&transfer, TDC_CTS, TDC_STAGED, TDC_SIZE_REFUSED);
    tdc_drop_file(link);
    return result == TDC_OK ? TDC_TOO_SMALL : result;
  }
  transfer.bytes = rts.bytes;
  transfer.report.bytes = rts.bytes;
  result = receive_announced(&transfer, &rts, wanted);
  tdc_drop_file(link);
  if (report)
    *report = transfer.report;
  return result;
}
