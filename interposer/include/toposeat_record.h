/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Layout of one rank's traffic record: one or more segment files.
 *
 *   rank-<rank>-<pid>.tpsrec            the main segment
 *   rank-<rank>-<pid>-t<thread>.tpsrec  what one thread counted, under MPI_THREAD_MULTIPLE
 *
 * The record is the sum of its segments. A segment is sparse and mapped MAP_SHARED by the rank that
 * writes it, so what was counted survives the rank's death by any signal. Sections, each found by
 * the offsets in the header:
 *
 *   header          one struct tps_header
 *   devices         array of struct tps_device, numbered alike in all segments of a rank
 *   phases          array of struct tps_phase, numbered alike in all segments of a rank
 *   slots           open-addressed table of struct tps_slot, key 0 = free
 *   events          open-addressed table of struct tps_event, `used` 0 = free
 *   communicators   array of struct tps_communicator, the first `communicators_used` are valid
 *   runs            array of struct tps_run, the first `runs_used` are valid
 *
 * Only the main segment has communicators, runs and names of devices, knows when phases
 * begin and end, and has a meaningful `state`.
 *
 * All numbers are in the writer's byte order (`byte_order` tells). Counters only grow. A rank
 * killed between two stores of one message can leave `messages` one ahead of `bytes`; nothing else
 * can tear.
 *
 * Threads: below MPI_THREAD_MULTIPLE the application itself keeps MPI calls of a process apart, and
 * everything is counted into the main segment with plain stores. Under MPI_THREAD_MULTIPLE (flag
 * TPS_FLAG_CONCURRENT) every thread counts into a segment of its own, also with plain stores; a
 * segment outlives its thread and is handed to the next new one. Threads beyond TPS_MAX_THREADS at
 * once share the main segment, whose counters are then updated by atomic additions; no count is
 * lost.
 *
 * `state` stays TPS_STATE_RUNNING until MPI_Finalize returns: a record in that state belongs to a
 * rank that died or was killed, and holds what it had done up to that moment.
 */
#ifndef TOPOSEAT_RECORD_H
#define TOPOSEAT_RECORD_H

#include <assert.h>
#include <stdint.h>

#define TPS_RECORD_MAGIC "TPSREC\r\n"
#define TPS_RECORD_VERSION 5u
#define TPS_BYTE_ORDER_MARK 0x01020304u
#define TPS_RECORD_SUFFIX ".tpsrec"
/* An empty file `rank-RANK-PID.errno-NUMBER` is of a rank that could not keep a record. */
#define TPS_CAUSE_SUFFIX ".errno-"

enum tps_state { TPS_STATE_RUNNING = 0, TPS_STATE_FINALIZED = 1, TPS_STATE_ABORTED = 2 };

enum tps_flag {
  TPS_FLAG_CONCURRENT = 2,      /* MPI_THREAD_MULTIPLE */
  TPS_FLAG_GPU_RUNTIME = 4,     /* buffers were classified by a GPU runtime */
  TPS_FLAG_SEVERAL_DEVICES = 8, /* buffers on more than one device */
  TPS_FLAG_LEVEL_ZERO = 16,     /* Level Zero without a known context: its memory counts as host */
  TPS_FLAG_INSIDE_RANK = 32,    /* a rank that records into the same folder started this process */
  TPS_FLAG_UNTIMED = 64,        /* no clock was read around MPI calls */
  TPS_FLAG_PHASES_MERGED = 128, /* there were more phases than room: the last one holds the rest */
  TPS_FLAG_NOT_GPU_AWARE = 256, /* device memory reached an MPI that says it is not GPU-aware */
  TPS_FLAG_SPAWNS = 512         /* MPI_Comm_spawn was called: what it started is not recorded */
};

/* Who asked for the bytes. FROM: the flow is from the peer to this rank (MPI_Get). */
enum tps_kind {
  TPS_POINT_TO_POINT = 0,
  TPS_COLLECTIVE = 1,
  TPS_ONE_SIDED = 2,
  TPS_ONE_SIDED_FROM = 3
};

enum tps_space { TPS_HOST = 0, TPS_DEVICE = 1 };

/* What the time inside MPI calls was spent on. Completion: the Wait, Test and Probe families. File:
 * MPI-IO, and waits for nothing else; it is of no memory, and all of it is in that of the host. */
enum tps_time_kind {
  TPS_TIME_POINT_TO_POINT = 0,
  TPS_TIME_COLLECTIVE = 1,
  TPS_TIME_ONE_SIDED = 2,
  TPS_TIME_COMPLETION = 3,
  TPS_TIME_OTHER = 4,
  TPS_TIME_FILE = 5
};
#define TPS_TIME_KINDS 6u
#define TPS_SPACES 2u

/* Who tells phases apart: nobody (there is one), the application (MPI_Pcontrol), or the clock. */
enum tps_phase_mode { TPS_PHASES_OFF = 0, TPS_PHASES_PCONTROL = 1, TPS_PHASES_WINDOWS = 2 };

/* Collective operations; nonblocking and persistent forms count as the blocking one. */
#define TPS_OPERATIONS(X)                                                                          \
  X(1, barrier)                                                                                    \
  X(2, bcast)                                                                                      \
  X(3, gather)                                                                                     \
  X(4, gatherv)                                                                                    \
  X(5, scatter)                                                                                    \
  X(6, scatterv)                                                                                   \
  X(7, allgather)                                                                                  \
  X(8, allgatherv)                                                                                 \
  X(9, alltoall)                                                                                   \
  X(10, alltoallv)                                                                                 \
  X(11, alltoallw)                                                                                 \
  X(12, reduce)                                                                                    \
  X(13, allreduce)                                                                                 \
  X(14, reduce_scatter)                                                                            \
  X(15, reduce_scatter_block)                                                                      \
  X(16, scan)                                                                                      \
  X(17, exscan)                                                                                    \
  X(18, neighbor_allgather)                                                                        \
  X(19, neighbor_allgatherv)                                                                       \
  X(20, neighbor_alltoall)                                                                         \
  X(21, neighbor_alltoallv)                                                                        \
  X(22, neighbor_alltoallw)

enum tps_operation {
#define TPS_OPERATION_MEMBER(number, name) TPS_OP_##name = (number),
  TPS_OPERATIONS(TPS_OPERATION_MEMBER)
#undef TPS_OPERATION_MEMBER
};

#define TPS_HISTOGRAM_BUCKETS 65u /* bucket = bit length of the size; 0 = empty message */
/* All processes that are not in this rank's MPI_COMM_WORLD are one peer. */
#define TPS_PEER_OUTSIDE 0x7fffffffu
#define TPS_MEMBER_OUTSIDE (-1)
#define TPS_NO_COMMUNICATOR 0xffffffffu /* the communicator table was full */
#define TPS_NO_ROOT (-1)
#define TPS_KEY_USED (UINT64_C(1) << 63)
#define TPS_KEY_PHASE_SHIFT 48
#define TPS_MAX_PHASES 256u
#define TPS_MAX_DEVICES 16u
#define TPS_MAX_THREADS 64u
#define TPS_NO_PHASE 0xffffffffu /* counting is paused */
#define TPS_MAIN_SEGMENT (-1)
#define TPS_CPU_WORDS 32u

/* Key of a slot: TPS_KEY_USED | phase << 48 | kind << 40 | space << 32 | peer. */
struct tps_slot {
  uint64_t key;
  uint64_t messages;
  uint64_t bytes;
  uint64_t histogram[TPS_HISTOGRAM_BUCKETS];
  uint64_t reserved[4];
};
static_assert(sizeof(struct tps_slot) == 576, "slot layout");

/*
 * All calls of one collective with one shape. `bytes` is one call's contribution (see the
 * operations in calls.tsv). When the table is three quarters full, further shapes are merged by
 * size class: then `by_class` is 1, `bytes` is the class (bit length) and bytes_total / calls is
 * the mean. `element` is the size of one element of a vector that the MPI may cut into pieces
 * (bcast and reductions); 0 elsewhere.
 */
struct tps_event {
  uint32_t used;
  uint32_t communicator;
  uint16_t operation;
  uint8_t space;
  uint8_t by_class;
  int32_t root; /* world rank, or TPS_NO_ROOT */
  uint64_t bytes;
  uint64_t calls;
  uint64_t bytes_total;
  uint32_t phase;
  uint32_t element;
};
static_assert(sizeof(struct tps_event) == 48, "event layout");

/* Communicators with the same members in the same order share one entry. */
struct tps_communicator {
  uint32_t size;
  uint32_t inter; /* 1: an inter-communicator; the members are those of the remote group */
  uint32_t first_run;
  uint32_t run_count;
  char name[48]; /* as of first use, zero terminated */
};
static_assert(sizeof(struct tps_communicator) == 64, "communicator layout");

/* World ranks first, first + stride, ... (`count` of them); TPS_MEMBER_OUTSIDE with stride 0 for
 * processes outside. */
struct tps_run {
  int32_t first;
  int32_t stride;
  int32_t count;
  int32_t reserved;
};
static_assert(sizeof(struct tps_run) == 16, "run layout");

/* One device whose buffers the rank handed to MPI. */
struct tps_device {
  uint64_t uses;   /* calls */
  uint64_t bytes;  /* in counted operations: sends, contributions to collectives, one-sided */
  int32_t ordinal; /* as the application numbers devices; -1 not known */
  uint32_t used;
  char pci[32]; /* PCI bus id; empty when not known */
};
static_assert(sizeof(struct tps_device) == 56, "device layout");

struct tps_time {
  uint64_t ticks; /* inside recorded MPI calls */
  uint64_t calls;
};

/*
 * A stretch of the run. Phase 0 begins at MPI_Init. `label` is the level given to MPI_Pcontrol, or
 * the number of the time window. A phase entered again goes on where it was left: it began when it
 * was first entered and ended when it was last left, and `active_ticks` is without what lay
 * between.
 */
struct tps_phase {
  int64_t label;
  uint64_t begin_ticks;
  uint64_t end_ticks;
  uint64_t active_ticks;
  struct tps_time time[TPS_TIME_KINDS][TPS_SPACES];
  uint32_t used;
  uint32_t reserved;
};
static_assert(sizeof(struct tps_phase) == 40 + 16 * TPS_TIME_KINDS * TPS_SPACES, "phase layout");

struct tps_section {
  uint64_t offset;   /* bytes from the start of the file */
  uint64_t capacity; /* entries */
  uint64_t stride;   /* bytes per entry */
};

struct tps_header {
  char magic[8]; /* written last */
  uint32_t version;
  uint32_t byte_order;
  uint32_t header_bytes;
  uint32_t state;
  uint32_t flags;
  int32_t rank;
  int32_t world_size;
  int32_t pid;
  int32_t thread;     /* number of the segment, or TPS_MAIN_SEGMENT */
  int32_t local_rank; /* as the launcher says; -1 not known */
  struct tps_section slots;
  struct tps_section events;
  struct tps_section communicators;
  struct tps_section runs;
  struct tps_section devices;
  struct tps_section phases;
  uint32_t communicators_used;
  uint32_t runs_used;
  uint32_t phase_mode;
  uint32_t current_phase; /* or TPS_NO_PHASE */
  uint64_t entered_ticks; /* when it was entered, last */
  uint64_t window_ns;     /* length of a time window */
  /* Clocks: ticks are of the time stamp counter (or ns where there is none), ns are
   * CLOCK_MONOTONIC. */
  uint64_t start_ticks;
  uint64_t start_ns;
  uint64_t last_ticks; /* at MPI_Finalize, or at the last of the marks set every few milliseconds */
  uint64_t last_ns;
  /* Could not be counted: table full, no memory or no space in the folder. */
  uint64_t lost_messages;
  uint64_t lost_bytes;
  uint64_t lost_events;
  int32_t visible_devices; /* how many devices the runtime shows; -1 not asked */
  uint32_t reserved;
  char host[64];
  char world[64]; /* the launcher's name of the job, empty when it gives none */
  char abi[16];
  char library[128]; /* first line of MPI_Get_library_version */
  /* CPU time of the process, all threads, at start and last mark; 0 where calls are not timed. */
  uint64_t start_cpu_ns;
  uint64_t last_cpu_ns;
  /* Allowed at the start: CPU c is bit c % 64 of word c / 64. All zero: not known. */
  uint64_t cpus[TPS_CPU_WORDS];
};
static_assert(sizeof(struct tps_header) ==
                  48 + 6 * 24 + 4 * 4 + 9 * 8 + 8 + 64 + 64 + 16 + 128 + 8 * (2 + TPS_CPU_WORDS),
              "header layout");
#define TPS_HEADER_RESERVED 1024u /* bytes from the start of the file to the first section */
static_assert(sizeof(struct tps_header) <= TPS_HEADER_RESERVED, "the header fits");

#endif
