/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Inside of the interposer. A generated wrapper (calls.tsv, generate.py) does, for every MPI call:
 *
 *   PMPI_X: find the real function; if this is a call from inside another wrapped call, or nothing
 * is recorded, go straight to it; otherwise time it and, when it returned MPI_SUCCESS, run the row's
 * action.
 *   MPI_X: the same, unless a tool stands between the program and its MPI (beside.h): then that
 * tool's MPI_X, and what it hands on is recorded at PMPI_X.
 *   Calls newer than MPI 3.1 are not exported: the MPI's own entries lead to the wrapper (newer.h).
 *
 * By-value handles travel through wrappers as full registers (`tps_word`), so that a library of the
 * wrong ABI passes the calls of the other ABI through unharmed: it only has to keep quiet.
 */
#ifndef TOPOSEAT_INTERPOSER_H
#define TOPOSEAT_INTERPOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "beside.h"
#include "loaded.h"
#include "toposeat_record.h"
#include TPS_ABI_HEADER

#define TPS_EXPORT __attribute__((visibility("default")))
#define TPS_CALLER __builtin_return_address(0)
#define tps__likely(x) __builtin_expect(!!(x), 1)
#define tps__unlikely(x) __builtin_expect(!!(x), 0)

typedef uintptr_t tps_word; /* a by-value handle, whatever its width in the caller's ABI */
/* What dlsym returns: object and function pointers have one size wherever there is dlsym. */
union tps_address {
  void *object;
  void (*function)(void);
};
typedef long long abi_count; /* MPI_Count in both ABIs on 64-bit Linux */
_Static_assert(sizeof(void *) == 8 && sizeof(abi_count) == 8, "64-bit platforms only");

/* ---- process-wide state (state.c, attach.c) ---- */

enum tps_mode {
  TPS_UNDECIDED, /* nothing known yet */
  TPS_WAITING,   /* right ABI, MPI not initialised */
  TPS_OFF        /* wrong ABI, finalised, or something went wrong: every call passes through */
};

/* What one thread counts into. */
struct tps_segment {
  struct tps_header *header;
  struct tps_slot *slots;
  uint64_t *keys; /* private copy of the slots' keys: 0 also says that the slot has no page yet */
  uint64_t slot_mask;
  struct tps_event *events;
  bool *event_used; /* as `keys` */
  uint64_t event_capacity;
  uint64_t events_used;
  struct tps_event *last_event; /* that was counted; NULL: none yet */
  struct tps_device *devices;
  struct tps_phase *phases;
  bool shared; /* several threads count into it: atomic additions, and a lock for events */
  struct tps_segment *next; /* in the list of those that no thread uses */
};

/* Values of tps_process.epoch that are not a period of recording. */
enum { TPS_EPOCH_NEVER = 0, TPS_EPOCH_CLOSED = 1 };

struct tps_process {
  uint64_t epoch; /* a thread whose own is another must ask (tps__thread_enter) */
  bool timed;
  unsigned file_requests;  /* that are not complete */
  int gpu;                 /* enum tps_gpu; read in the fast path */
  bool guarded;            /* the MPI is not GPU-aware, and no device buffer has been met yet */
  uint64_t gpu_generation; /* changes whenever device memory is freed */
  unsigned long long libraries_seen; /* loaded at the last look for a GPU runtime; 0: look again */
  uint64_t generation;               /* changes whenever a communicator or window handle dies */
  bool recording;
  bool concurrent;           /* MPI_THREAD_MULTIPLE */
  struct tps_header *header; /* of the main segment; set once, before `recording` */
  uint32_t phase;            /* or TPS_NO_PHASE */
  uint32_t calls_per_beat;   /* untimed: how many calls a thread makes between two beats */
  int mode;
  enum tps_phase_mode phase_mode; /* set once, before the main segment is created */
};
extern struct tps_process tps__process;

struct tps_comm;
struct tps_capture;

#define TPS_COMM_CACHE 8
#define TPS_PAGE_CACHE 32
#define TPS_ALLOCATION_CACHE 4

/* What is known of an address range, until `expires` (ticks). */
struct tps_range {
  uintptr_t low;
  uintptr_t high; /* exclusive; 0: empty entry */
  uint64_t expires;
  int device; /* its number, or TPS_NO_DEVICE */
};

struct tps_thread {
  int depth;              /* > 0: inside a wrapped call */
  bool shared;            /* as in the segment */
  bool on_device;         /* the current call met a device buffer */
  bool pending_on_device; /* so did one of the nonblocking calls since the last completion */
  bool completed;         /* the last of them is followed by a completion */
  uint64_t epoch;
  struct tps_segment *segment;
  struct tps_time (*time)[TPS_SPACES]; /* of the current phase */
  uint64_t phase_key;
  uint64_t now; /* ticks at the end of the last call */
  uint64_t beat;
  uint32_t calls_until_beat;
  bool awaits_others;          /* beside the requests of files */
  struct tps_capture *capture; /* not NULL: a persistent request is being set up */
  uint64_t generation;
  struct {
    tps_word word;
    struct tps_comm *comm;
  } comms[TPS_COMM_CACHE];
  uint64_t gpu_generation;
  unsigned next_allocation;
  struct tps_range allocations[TPS_ALLOCATION_CACHE]; /* the last device allocations */
  struct tps_range pages[TPS_PAGE_CACHE];             /* single pages, direct-mapped */
};
extern _Thread_local struct tps_thread tps__thread __attribute__((tls_model("initial-exec")));

/* Whether this process says what holds for every rank alike: rank 0, or nobody knows its rank. */
bool tps__speaks_for_job(void);

/* Writes one line to stderr, with the rank; at most once per `*said`. Never to stdout. */
void tps__warn(bool *said, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tps__lock(void); /* guards the maps below; a no-op unless concurrent */
void tps__unlock(void);

/* Says that a tool between did not hand on a call by this thread: it is not recorded. */
void tps__went_past(const char *name);
/* Starts recording if MPI is initialised and everything is in order. True: recording. */
bool tps__attach(void);
/* Stamps the clocks, looks for a GPU runtime, and begins the next time window. */
void tps__beat(uint64_t now);
void tps__end_of_run(void); /* stamps the clocks and ends the phase: before MPI_Finalize */
/* Makes this thread count from now on, if anything is recorded: its epoch is not the process's.
 * False: this call is not recorded. */
bool tps__thread_enter(void);
/* Stops recording for good. */
void tps__stop(void);

/* ---- the real MPI (real.c) ---- */

tps_function *tps__find(const char *name); /* e.g. "PMPI_Send"; NULL when the MPI has none */
void *tps__find_data(const char *name);
const char *tps__file_of(tps_function *function); /* base name of the library that holds it */
abi_handle tps__comm_world(void);
abi_handle tps__comm_null(void);
abi_handle tps__no_op(void); /* 0: the MPI has none */
abi_handle tps__request_null(void);
bool tps__right_abi(void);

/* What the interposer itself calls. Resolved by tps__right_abi. */
struct tps_mpi {
  int (*Initialized)(int *);
  int (*Finalized)(int *);
  int (*Query_thread)(int *);
  int (*Get_library_version)(char *, int *);
  int (*Comm_rank)(abi_handle, int *);
  int (*Comm_size)(abi_handle, int *);
  int (*Comm_test_inter)(abi_handle, int *);
  int (*Comm_group)(abi_handle, abi_handle *);
  int (*Comm_remote_group)(abi_handle, abi_handle *);
  int (*Comm_get_name)(abi_handle, char *, int *);
  int (*Comm_get_parent)(abi_handle *);
  int (*Group_size)(abi_handle, int *);
  int (*Group_rank)(abi_handle, int *);
  int (*Group_translate_ranks)(abi_handle, int, const int *, abi_handle, int *);
  int (*Group_from_session_pset)(abi_handle, const char *, abi_handle *);
  int (*Group_free)(abi_handle *);
  int (*Win_get_group)(abi_handle, abi_handle *);
  int (*Type_size)(abi_handle, int *);
  int (*Type_size_x)(abi_handle, abi_count *);
  int (*Topo_test)(abi_handle, int *);
  int (*Cartdim_get)(abi_handle, int *);
  int (*Cart_shift)(abi_handle, int, int, int *, int *);
  int (*Graph_neighbors_count)(abi_handle, int, int *);
  int (*Graph_neighbors)(abi_handle, int, int, int *);
  int (*Dist_graph_neighbors_count)(abi_handle, int *, int *, int *);
  int (*Dist_graph_neighbors)(abi_handle, int, int *, int *, int, int *, int *);
};
extern struct tps_mpi tps__mpi;

/* ---- whether MPI is there, and since when (presence.c) ---- */

/* Between MPI_Init and MPI_Finalize. False: MPI may still be there, by sessions. */
bool tps__world_model(void);
/* The processes of MPI_COMM_WORLD, from there or from an open session. False: neither is there. */
bool tps__world_group(abi_handle *group);
void tps__presence_of_world(bool begun);   /* after MPI_Init; or it ends while sessions go on */
int tps__presence_add(abi_handle session); /* how many sessions are open now */
/* How many are left; `*first`: whether it was the one that the world's group is from. */
int tps__presence_drop(abi_handle session, bool *first);
int tps__presence_count(void);
/* Writes into the record whether any session is open. */
void tps__presence_record(void);

/* ---- MPI Sessions (session.c) ---- */

void tps__world_model_begin(void); /* after MPI_Init */
void tps__session_begin(abi_handle session);
void tps__session_end(abi_handle session); /* before MPI_Session_finalize */
void tps__session_ended(void);             /* after it */
/* Before MPI_Finalize. False: open sessions go on. */
bool tps__world_model_end(void);

/* ---- communicators and windows (communicator.c) ---- */

/* The ranks one can send to over some communicators or windows, as world ranks. Never freed. */
struct tps_group {
  int size;
  bool inter;
  bool identity; /* rank i is world rank i */
  int *world;    /* world rank, or TPS_MEMBER_OUTSIDE */
  uint32_t record_id;
  uint64_t hash;
  struct tps_group *next;
};

/* One live communicator or window. */
struct tps_comm {
  tps_word word;
  struct tps_group *peers; /* own group, or the remote one of an inter-communicator */
  int my_rank;
  int local_size;
  int out_degree; /* -1: neighbours not asked yet */
  int in_degree;
  int *out; /* ranks in `peers`, negative: none */
  struct tps_comm *next;
};

bool tps__comm_start(int *rank, int *size); /* learns the world's group */
/* What gave the world's group ends: takes it from elsewhere, now or when there is something. */
void tps__comm_renew(void);
struct tps_comm *tps__comm_find(tps_word word, bool window);
void tps__handle_gone(tps_word word);
/* Fills out_degree, in_degree and out; false if the communicator has no topology. */
bool tps__comm_neighbours(struct tps_comm *comm);

/* ---- segment files (record.c) ---- */

/* Remembers folder, rank and size for the segments to come. False: it was said why. */
bool tps__record_start(const char *directory, int rank, int size);
/* Creates segment `thread` and maps it. False: nothing is left behind, errno tells why. */
bool tps__segment_create(struct tps_segment *segment, int thread);
/* The same without a file: what is counted there is forgotten. */
bool tps__segment_create_sink(struct tps_segment *segment);
/* Makes the pages of [start, start + length) writable for good. False: no space for them. */
bool tps__populate(const void *start, size_t length);
/* Everything in the header is in place. */
void tps__record_publish(struct tps_header *header);
void tps__record_finish(enum tps_state state);

/* ---- where records go in the end (departure.c) ---- */

/* `directory`, or this node's own folder if the node does not see that of the run. */
const char *tps__record_folder(const char *directory);
/* The record has begun: says where this node's ranks are, if that is not seen from there. */
void tps__tell_start(void);
/* Nothing more is going to be counted by this process. */
void tps__depart(void);

/* ---- who counts where (segment.c) ---- */

bool tps__main_segment_start(const char *directory, int rank, int size);
struct tps_segment *tps__main_segment(void);
/* Takes a segment for this thread, and the current phase. False: nothing is being recorded. */
bool tps__thread_join(void);

/* ---- tables of a segment (tables.c) ---- */

struct tps_slot *tps__slot_insert(uint64_t key); /* NULL: no room */
struct tps_event_shape {
  uint32_t communicator;
  uint16_t operation;
  uint8_t space;
  int32_t root;
  uint64_t bytes;
  uint32_t element;
};
void tps__event_add(const struct tps_event_shape *shape);
uint32_t tps__communicator_add(const struct tps_group *group, const char *name);

/* ---- phases (phase.c) ---- */

void tps__phases_configure(void); /* from the environment; before the main segment is created */
void tps__phases_start(uint64_t now);
void tps__phases_beat(uint64_t ticks, uint64_t nanoseconds);
/* The current phase has ended: MPI_Finalize, MPI_Abort. */
void tps__phases_finish(uint64_t now);

/* ---- jobs within jobs (ancestry.c) ---- */

/* Whether an ancestor of this process is a rank that records into `directory`. */
bool tps__is_inside_rank(const char *directory);

/* ---- device or host (gpu.c, gpu_free.c, gpu_aware.c, gpu_guard.c) ---- */

enum tps_gpu { TPS_GPU_NONE, TPS_GPU_CUDA, TPS_GPU_HIP, TPS_GPU_LEVEL_ZERO };
void tps__gpu_look(void);   /* is a GPU runtime loaded by now? Never loads one */
void tps__gpu_finish(void); /* the same at the end, and how many devices it shows */
/* Number of the device that holds the buffer, or TPS_NO_DEVICE. */
#define TPS_NO_DEVICE (-1)
int tps__gpu_device(const void *buffer);
/* The runtime's own function behind one that this library exports; NULL: there is none. */
tps_function *tps__gpu_real(const char *name, const void *caller);
/* Whether the MPI says that it cannot use this runtime's memory. */
bool tps__mpi_refuses(enum tps_gpu gpu);
const char *tps__refusal_remedy(void);
/* Warns, once, if a buffer of a call that is about to be made is in device memory. */
/* Whether what the MPI sends its messages with knows that GPU's memory, whatever the MPI says. */
bool tps__messages_take(enum tps_gpu gpu);
void tps__guard_buffers(const char *call, const void *const *buffers, int count);

/* ---- persistent requests (request.c) ---- */

void tps__capture_begin(void);
void tps__capture_end(abi_handle request);
void tps__capture_pair(uint64_t key, uint64_t bytes);
void tps__capture_event(const struct tps_event_shape *shape);
void tps__capture_device(int device, uint64_t bytes);

#endif
