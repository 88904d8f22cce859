/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The stand-in driver's parts, as they see each other. One lock guards all of this process. */
#ifndef TOPOSEAT_EMULATOR_DRIVER_H
#define TOPOSEAT_EMULATOR_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuda_abi.h"
#include "machine.h"
#include "visible.h"

#define EMU_EXPORT __attribute__((visibility("default")))

/* ---- the process */

struct emu_driver {
  bool initialized;
  const struct emu_machine *machine;
  struct emu_visible visible;
};

extern struct emu_driver emu_driver;

void emu_lock(void);
void emu_unlock(void);

/* Leaves the calling function unless cuInit was successful. */
#define EMU_NEEDS_INIT()                                                                           \
  do {                                                                                             \
    if (!emu_driver.initialized)                                                                   \
      return CUDA_ERROR_NOT_INITIALIZED;                                                           \
  } while (0)

bool emu_is_ordinal(CUdevice device);
/* The ordinal of a device in this process; -1 if it is not visible here. */
int emu_ordinal_of(unsigned physical);

/* ---- contexts */

struct CUctx_st {
  uint64_t id;
  CUdevice device;   /* ordinal */
  unsigned physical; /* device of the machine */
  bool primary;
  unsigned references; /* of a primary context */
  unsigned flags;
  bool peer[EMU_MAX_DEVICES]; /* by physical device: access enabled from here */
  CUstream null_stream;
};

/* The calling thread's current context, NULL without one. */
CUcontext emu_current(void);
/* Whether this is a context that exists. */
bool emu_context_lives(CUcontext context);
/* Whether any context of this process on device `from` may reach memory of device `to`. */
bool emu_peer_enabled(unsigned from, unsigned to);

/* ---- memory */

enum emu_kind { EMU_DEVICE, EMU_HOST, EMU_MANAGED };

struct emu_memory {
  uint64_t base; /* as the program sees it */
  uint64_t size;
  uint64_t mapped; /* whole pages behind it */
  char *alias;     /* where the copy engine reads and writes it */
  enum emu_kind kind;
  unsigned physical;
  CUcontext context;
  uint64_t buffer_id;
  int file; /* of device memory; -1 */
  uint64_t inode;
  bool imported;   /* by IPC from another process, or */
  bool is_virtual; /* mapped with cuMemMap */
  bool registered; /* host memory that was there before */
  unsigned references;
  pid_t owner;         /* of imported memory: who exported it, */
  uint64_t owner_base; /* and where it is there */
  int sync_memops;
};

/* The allocation that holds `pointer`; NULL if none does. Call with the lock held. */
struct emu_memory *emu_find(uint64_t pointer);
/* Adds an allocation; NULL if there is no memory. */
struct emu_memory *emu_add(const struct emu_memory *memory);
void emu_remove(struct emu_memory *memory);
/* Number of allocations, and one of them. */
unsigned emu_allocations(void);
struct emu_memory *emu_allocation(unsigned number);

/* Addresses without memory, aligned; NULL if there are none left. */
void *emu_new_addresses(uint64_t size, uint64_t align);
/* Maps `size` bytes of a file twice: unreachable for the program, and for the copy engine. */
bool emu_map_twice(int file, uint64_t mapped, uint64_t at, uint64_t *base, char **alias);
void emu_unmap_twice(uint64_t base, char *alias, uint64_t mapped);
uint64_t emu_new_buffer_id(void);
uint64_t emu_inode(int file);
int emu_new_file(const char *name, uint64_t size);

/* ---- streams */

/* One end of a copy. */
struct emu_place {
  char *bytes;
  bool on_device;
  unsigned physical;
  bool reachable_by_peers; /* opened from another process, or mapped with access */
};

struct emu_copy {
  struct emu_place from, to;
  uint64_t width, rows, from_pitch, to_pitch;
};

/* Resolves a pointer of the program; INVALID_VALUE if it runs over its allocation's end. */
CUresult emu_resolve(uint64_t pointer, uint64_t bytes, struct emu_place *place);

/* Queues a copy; `wait` until it is done. Takes the lock itself. */
CUresult emu_queue_copy(CUstream stream, const struct emu_copy *copy, bool wait);
CUresult emu_queue_fill(CUstream stream, uint64_t to, uint64_t width, uint64_t rows, uint64_t pitch,
                        uint32_t value, unsigned value_bytes, bool wait);
CUresult emu_queue_call(CUstream stream, CUhostFn function, CUstreamCallback callback, void *data);

/* A kernel: runs on the host; what it returns are the seconds it is to take, 0 for as long as it
   took. */
typedef double (*emu_kernel)(void **arguments, const unsigned grid[3], const unsigned block[3]);
CUresult emu_queue_kernel(CUstream stream, emu_kernel kernel, void **arguments,
                          const unsigned grid[3], const unsigned block[3]);

CUstream emu_new_stream(CUcontext context, unsigned flags);
/* Waits until all that was queued in this context is done. */
void emu_drain(CUcontext context);
/* Waits until all that was queued in this process is done. */
void emu_drain_all(void);
void emu_delete_streams(CUcontext context);

#endif
