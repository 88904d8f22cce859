/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parts of the worker, as they see each other. Each verb gets the rest of its line, and leaves
   the answer in the worker; false if it failed. */
#ifndef TOPOSEAT_DEVCOPY_WORKER_H
#define TOPOSEAT_DEVCOPY_WORKER_H

#include "../src/driver.h"
#include "toposeat_devcopy.h"

enum { MAX_RANKS = 256, LINE = 4096, MAX_REPEATS = 10000 };

struct worker {
  const char *folder;
  int control;
  int rank;
  int device;          /* ordinal */
  tdc_options options; /* as it was opened */
  tdc_context *context;
  tdc_link *links[MAX_RANKS];
  uint64_t out, in; /* device memory */
  unsigned char *host;
  bool pinned; /* the driver knows `host` */
  size_t bytes;
  char answer[LINE];
};

/* ---- words.c */
double worker_now(void);
void worker_wait_until(double start); /* CLOCK_MONOTONIC seconds, 0 for at once */
bool worker_fail(struct worker *worker, const char *cause);
bool worker_fail_copy(struct worker *worker, tdc_result result);
void worker_add_seconds(struct worker *worker, double seconds);
/* The next word as a number of 0 to `most`; -1 if it is none. */
long worker_number(char **rest, long most);
double worker_start_time(char **rest);
/* Whether the next word is this one. */
bool worker_has_word(char **rest, const char *word);

/* ---- links.c */
/* A connected socket to the worker of another rank; -1. One of the two listens. */
int worker_join(const struct worker *worker, int peer, bool listens);
bool worker_link(struct worker *worker, char **rest, bool listens);

/* ---- memory.c */
bool worker_set_size(struct worker *worker, char **rest);
void worker_free_host(struct worker *worker);
/* Fills this side's host memory with what it sends. */
void worker_fill_host(struct worker *worker);
/* Whether what has come, in device or host memory, is what the sender's rank sends. */
bool worker_check(struct worker *worker, size_t bytes, int sender, bool in_host);

/* ---- copies.c */
bool worker_send(struct worker *worker, char **rest);
bool worker_receive(struct worker *worker, char **rest);
bool worker_host_copies(struct worker *worker, char **rest);

/* ---- exchange.c */
bool worker_exchange(struct worker *worker, char **rest);

#endif
