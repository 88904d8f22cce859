/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parts of the library, as they see each other. */
#ifndef TOPOSEAT_DEVCOPY_LINK_H
#define TOPOSEAT_DEVCOPY_LINK_H

#include <stdatomic.h>
#include <sys/types.h>

#include "driver.h"
#include "toposeat_devcopy.h"

enum { TDC_MAX_DEPTH = 64, TDC_PCI_LENGTH = 16 };

/* ---- what is said over the socket */

enum tdc_kind {
  TDC_HELLO = 1,
  TDC_RTS,
  TDC_CTS,
  TDC_REFUSED, /* the sender cannot open the receiver's memory */
  TDC_DONE,
  TDC_FREE, /* close what you have open of this buffer */
  TDC_FREED,
};

/* A device buffer as another process can open it: by a handle of its whole allocation or, where
   that is virtual memory, by a file that comes along with the message. */
struct tdc_shared {
  tdc_handle handle;
  uint64_t by_file;
  uint64_t base, size, offset, buffer_id;
};

struct tdc_message {
  uint32_t magic, kind;
  uint64_t bytes;
  uint32_t protocol; /* of CTS */
  uint32_t flags;
  uint64_t split; /* COOPERATE: the sender pushes [0, split) */
  struct tdc_shared shared;
  int32_t process;
  uint32_t depth;
  uint64_t chunk;
  char pci[TDC_PCI_LENGTH];
};

enum { TDC_ON_DEVICE = 1, TDC_SIZE_REFUSED = 2, TDC_FELL_BACK = 4, TDC_WITH_FILE = 8 };

/* ---- rings */

struct tdc_ring_head {
  _Atomic uint64_t published, consumed; /* chunks since the link began */
  _Atomic uint32_t failed;
};

struct tdc_ring {
  struct tdc_ring_head *head; /* NULL: not mapped */
  char *slots;
  size_t chunk, mapped;
  unsigned depth;
  bool registered;
};

/* ---- memory of other processes that is open here */

struct tdc_opened {
  const tdc_link *link;
  struct tdc_shared shared;
  int device; /* ordinal of the device that may reach it */
  uint64_t pointer;
  uint64_t last_used;
};

/* ---- contexts and links */

struct tdc_link {
  tdc_context *context;
  tdc_link *next;
  int socket;
  tdc_result fault; /* TDC_OK: the link works */
  pid_t peer;
  char peer_pci[TDC_PCI_LENGTH];
  struct tdc_ring out, in;
  size_t direct_below;
  bool has_message; /* one that nobody has asked for yet */
  struct tdc_message message;
  int file; /* that came along with a message of this transfer; -1 */
  unsigned unanswered_frees;
  void *attached; /* a context on the peer's device, for host memory of this side; NULL */
  void *attached_stream;
  int attached_device;
};

struct tdc_context {
  const struct tdc_driver *driver;
  int device;
  void *primary; /* the device's primary context */
  void *stream;
  void *events[TDC_MAX_DEPTH];
  char pci[TDC_PCI_LENGTH];
  tdc_options options;
  int driver_error;
  tdc_link *links;
  struct tdc_opened *opened; /* cache_size entries */
  unsigned opened_count;
  uint64_t use;
  uint64_t *owned; /* device memory that tdc_allocate gave */
  unsigned owned_count;
  struct tdc_shared *freed;          /* first phase done */
  unsigned freed_count, asked_count; /* peers know of the first asked_count */
};

/* Remembers a driver's answer; true if it is good. */
static inline bool tdc_good(tdc_context *context, int code) {
  if (code != 0)
    context->driver_error = code;
  return code == 0;
}
double tdc_now(void);

/* wire.c: `file` comes along, -1 for none. */
tdc_result tdc_say(tdc_link *link, const struct tdc_message *message, int file);
/* All bytes of something, or an error; with them at most one file. */
tdc_result tdc_move_out(tdc_link *link, const void *bytes, size_t size, int file);
tdc_result tdc_move_in(tdc_link *link, void *bytes, size_t size, int *file);
/* Closes the file that came along. */
void tdc_drop_file(tdc_link *link);
/* The next message for this link's user; frees of all links are answered meanwhile. */
tdc_result tdc_hear(tdc_link *link, enum tdc_kind kind, enum tdc_kind or_kind,
                    struct tdc_message *message);
/* Reads what has come on any link for at most `seconds`. */
tdc_result tdc_pump(tdc_context *context, double seconds);
/* Whether the other process still holds its end. */
bool tdc_peer_lives(tdc_link *link);
tdc_result tdc_break(tdc_link *link, tdc_result result);

/* ring.c */
tdc_result tdc_make_ring(tdc_context *context, struct tdc_ring *ring, int *file);
tdc_result tdc_map_ring(tdc_context *context, struct tdc_ring *ring, int file, size_t chunk,
                        unsigned depth);
void tdc_unmap_ring(tdc_context *context, struct tdc_ring *ring);
tdc_result tdc_push_ring(tdc_link *link, uint64_t pointer, size_t bytes, bool on_device);
tdc_result tdc_pull_ring(tdc_link *link, uint64_t pointer, size_t bytes, bool on_device);

/* opened.c */
/* What another process needs to open memory; `*file` is for the caller to close, -1 without one. */
tdc_result tdc_describe(tdc_context *context, uint64_t pointer, struct tdc_shared *shared,
                        int *file);
/* Opens memory for a device of this process; TDC_DRIVER if that cannot be. */
tdc_result tdc_open_shared(tdc_link *link, const struct tdc_shared *shared, int device,
                           uint64_t *pointer, bool *was_open);
void tdc_close_shared(tdc_context *context, uint64_t pointer);
void tdc_close_buffer(tdc_link *link, uint64_t base, uint64_t buffer_id);
void tdc_close_all(tdc_context *context, const tdc_link *link);

/* virtual.c: allocations that have no IPC handle, as files */
int tdc_export_virtual(tdc_context *context, uint64_t pointer);
tdc_result tdc_map_virtual(tdc_context *context, int device, int file, size_t size,
                           uint64_t *pointer);
void tdc_unmap_virtual(tdc_context *context, uint64_t pointer, size_t size);

/* attach.c: makes a context on the peer's device current, or the own one where that is not visible.
   Returns the stream to copy with, and the device that it is of. */
void *tdc_attach(tdc_link *link, int *device);
void tdc_detach(tdc_link *link);

bool tdc_is_device_memory(tdc_context *context, uint64_t pointer);

#endif
