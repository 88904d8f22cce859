/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The queues behind streams and events. All but the waits are called with the lock held. */
#ifndef TOPOSEAT_EMULATOR_QUEUE_H
#define TOPOSEAT_EMULATOR_QUEUE_H

#include "driver.h"
#include "transfer.h"

enum task_kind {
  TASK_COPY,
  TASK_FILL,
  TASK_RECORD,
  TASK_WAIT_EVENT,
  TASK_WAIT_STREAM,
  TASK_CALL,
  TASK_NOTHING
};

struct call {
  CUhostFn function;
  CUstreamCallback callback;
  void *data;
  emu_kernel kernel;
  unsigned grid[3], block[3];
  void **arguments;
};

struct fill {
  struct emu_place to;
  uint64_t width, rows, pitch;
  uint32_t value;
  unsigned value_bytes;
};

struct task {
  struct task *next;
  enum task_kind kind;
  int64_t queued_ns;
  bool begun;
  uint64_t wanted; /* number of a record or of a stream's task that is waited for */
  union {
    struct transfer transfer;
    struct fill fill;
    struct call call;
    CUevent event;
    CUstream stream;
  } of;
};

struct CUstream_st {
  CUcontext context;
  unsigned flags;
  int64_t clock_ns;
  struct task *first, *last;
  uint64_t queued, taken;
  bool calling; /* a host function runs, without the lock */
  struct CUstream_st *next;
};

struct CUevent_st {
  CUcontext context;
  unsigned flags;
  uint64_t recorded, reached; /* numbers of the last record queued and taken */
  int64_t time_ns;
  struct CUevent_st *next;
};

/* All streams of this process. */
extern CUstream emu_streams;

/* A task at the end of a stream, in order with the null stream; NULL with the reason. */
struct task *emu_queue(CUstream named, enum task_kind kind, CUstream *stream, CUresult *result);

/* Ends a queueing call: unlocks, and waits if the call is a blocking one. */
CUresult emu_finish(CUstream stream, CUresult result, bool wait);

/* Takes all whose turn has come. Returns when to look again. */
int64_t emu_progress(void);

/* Rests, without the lock, until about `due_ns`. */
void emu_rest_until(int64_t due_ns);

/* Waits for one stream, or for all of a context, or for all (both NULL). Without the lock. */
void emu_wait_for(CUstream only, CUcontext context);

/* The stream behind a name, the null stream among them; NULL if there is none. */
CUstream emu_resolve_stream(CUstream named);
bool emu_stream_lives(CUstream stream);
bool emu_stream_is_done(CUstream stream, int64_t now_ns);
void emu_free_task(struct task *task);

#endif
