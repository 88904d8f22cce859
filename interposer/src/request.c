/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Persistent requests. At X_init the row's action runs with a capture in place, which notes what
 * one start means (pairs and at most one event); MPI_Start counts it. Nothing is counted at X_init
 * itself.
 */
#include <stdlib.h>

#include "actions.h"

#define REQUEST_BUCKETS 4096u

struct tps_pair {
  uint64_t key;
  uint64_t bytes;
};

struct tps_capture {
  tps_word word;
  struct tps_capture *next;
  struct tps_event_shape event;
  bool has_event;
  bool incomplete; /* memory ran out */
  int device;      /* of its buffer, or TPS_NO_DEVICE */
  uint64_t device_bytes;
  size_t used;
  size_t capacity;
  struct tps_pair *pairs;
};

static struct tps_capture *requests[REQUEST_BUCKETS];

static struct tps_capture **bucket_of(tps_word word) {
  return &requests[(unsigned)((word * UINT64_C(0x9e3779b97f4a7c15)) >> 48) % REQUEST_BUCKETS];
}

/* The link that points at the request, or at the NULL where it would be. Under the lock. */
static struct tps_capture **find_link(tps_word word) {
  struct tps_capture **link = bucket_of(word);
  while (*link != NULL && (*link)->word != word)
    link = &(*link)->next;
  return link;
}

void tps__capture_begin(void) {
  struct tps_capture *capture = calloc(1, sizeof *capture);
  if (capture != NULL)
    capture->device = TPS_NO_DEVICE;
  tps__thread.capture = capture;
}

void tps__capture_pair(uint64_t key, uint64_t bytes) {
  struct tps_capture *capture = tps__thread.capture;
  if (capture->used == capture->capacity) {
    size_t capacity = capture->capacity == 0 ? 1 : capture->capacity * 2;
    struct tps_pair *pairs = realloc(capture->pairs, capacity * sizeof *pairs);
    if (pairs == NULL) {
      capture->incomplete = true;
      return;
    }
    capture->pairs = pairs;
    capture->capacity = capacity;
  }
  capture->pairs[capture->used++] = (struct tps_pair){key, bytes};
}

void tps__capture_event(const struct tps_event_shape *shape) {
  tps__thread.capture->event = *shape;
  tps__thread.capture->has_event = true;
}

void tps__capture_device(int device, uint64_t bytes) {
  tps__thread.capture->device = device;
  tps__thread.capture->device_bytes = bytes;
}

static void drop(struct tps_capture *capture) {
  free(capture->pairs);
  free(capture);
}

/* MPI reuses handles: this one belonged to a request whose freeing was not seen. */
void tps__capture_end(abi_handle request) {
  struct tps_capture *capture = tps__thread.capture;
  tps__thread.capture = NULL;
  if (capture == NULL)
    return;
  capture->word = ABI_WORD(request);
  tps__lock();
  struct tps_capture **link = find_link(capture->word);
  struct tps_capture *old = *link;
  if (old != NULL) {
    *link = old->next;
    drop(old);
  }
  struct tps_capture **bucket = bucket_of(capture->word);
  capture->next = *bucket;
  *bucket = capture;
  tps__unlock();
}

void tps__on_start(abi_handle request) {
  tps__lock();
  const struct tps_capture *capture = *find_link(ABI_WORD(request));
  tps__unlock(); /* starting and freeing one request at a time is an error of the application */
  if (capture == NULL)
    return;
  for (size_t i = 0; i < capture->used; ++i)
    tps__count_key(capture->pairs[i].key, capture->pairs[i].bytes);
  if (capture->has_event)
    tps__event_add(&capture->event);
  if (capture->device != TPS_NO_DEVICE)
    tps__use_device(capture->device, capture->device_bytes);
  if (capture->incomplete)
    tps__lost(0);
}

void tps__on_startall(int count, const abi_handle *started) {
  for (int i = 0; i < count; ++i)
    tps__on_start(started[i]);
}

void tps__on_request_gone(abi_handle request) {
  if (!tps__recording())
    return;
  tps__file_request_gone(request);
  tps__lock();
  struct tps_capture **link = find_link(ABI_WORD(request));
  struct tps_capture *gone = *link;
  if (gone != NULL) {
    *link = gone->next;
    drop(gone);
  }
  tps__unlock();
}
