/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The queues behind streams and events. All but the waits are called with the lock held. */
#ifndef TOPOSEAT_EMULATOR_QUEUE_H
#define TOPOSEAT_EMULATOR_QUEUE_H

#include <stdatomic.h>

#include "driver.h"
#include "transfer.h"

enum task_kind {
  TASK_COPY,
  TASK_FILL,
  TASK_RECORD,
  TASK_WAIT_EVENT,
  TASK_WAIT_STREAM,
  TASK_CALL,
  TASK_FREE,
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
    struct emu_memory *memory;
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

/* How often an event was recorded, by all processes that have it. */
struct event_mark {
  _Atomic uint64_t recorded, reached; /* numbers of the last record queued and taken */
  _Atomic int64_t time_ns;
  _Atomic int32_t recorder; /* the process that recorded it last */
};

struct CUevent_st {
  CUcontext context;
  unsigned flags;
  struct event_mark *mark; /* `own`, or that of a file which other processes map as well */
  struct event_mark own;
  int file; /* -1 without one */
  uint64_t inode;
  bool imported;
  struct CUevent_st *next;
};

/* How long a wait for another process's event rests between two looks. */
enum { EMU_LOOK_AGAIN_NS = 50000 };

/* Says that a record's turn has come, and asks whether that of one has, and when it is done. */
void emu_event_reach(CUevent event, uint64_t number, int64_t time_ns);
bool emu_event_is_reached(CUevent event, uint64_t number, int64_t *time_ns);

/* All streams of this process. */
extern CUstream emu_streams;

/* A task at the end of a stream, in order with the null stream; NULL with the reason. */
struct task *emu_queue(CUstream named, enum task_kind kind, CUstream *stream, CUresult *result);

/* Ends a queueing call: unlocks, and waits if the call is a blocking one. */
CUresult emu_finish(CUstream stream, CUresult result, bool wait);

/* Takes all whose turn has come, in all streams. Returns when to look again. Host functions are run
   by the worker only: the program's own threads may hold what they wait for. */
int64_t emu_take_tasks(bool may_call);
int64_t emu_progress(void);

/* Rests, without the lock, until about `due_ns`. */
void emu_rest_until(int64_t due_ns);

/* Rests a little, without the lock, where work that was asked for is due much later. */
void emu_rest_between_questions(int64_t due_ns);

/* Waits for one stream, or for all of a context, or for all (both NULL). Without the lock. */
void emu_wait_for(CUstream only, CUcontext context);

/* The stream behind a name, the null stream among them; NULL if there is none. */
CUstream emu_resolve_stream(CUstream named);
bool emu_stream_lives(CUstream stream);
bool emu_stream_is_done(CUstream stream, int64_t now_ns);
void emu_free_task(struct task *task);

#endif
