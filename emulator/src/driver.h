/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The stand-in driver's parts, as they see each other. One lock guards all of this process. */
#ifndef TOPOSEAT_EMULATOR_DRIVER_H
#define TOPOSEAT_EMULATOR_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuda_calls.h"
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

/* A context that comes into being, false if there are too many; and one that ends. Call with the
 * lock held. */
bool emu_keep_context(CUcontext context);
void emu_forget_context(CUcontext context);
/* The calling thread's stack of current contexts. False: it is full; it is empty. `top` may be
 * NULL. */
bool emu_push(CUcontext context);
bool emu_pop(CUcontext *top);
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
  bool imported;   /* from another process, by IPC or through a pool, or */
  bool is_virtual; /* mapped with cuMemMap */
  bool registered; /* host memory that was there before */
  bool freeing;    /* cuMemFreeAsync is queued */
  CUmemoryPool pool;
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
bool emu_map_twice(int file, uint64_t mapped, uint64_t *base, char **alias);
/* The same at reserved addresses; and reserves addresses again that were mapped. */
bool emu_map_at(int file, uint64_t mapped, uint64_t base, char *alias);
bool emu_clear_addresses(char *at, uint64_t size);
void emu_unmap_twice(uint64_t base, char *alias, uint64_t mapped);
uint64_t emu_new_buffer_id(void);
uint64_t emu_inode(int file);
int emu_new_file(const char *name, uint64_t size);

/* Gives memory back and forgets it: of this process, or that of another one. */
void emu_release(struct emu_memory *memory);
/* Size in whole pages, as memory is mapped. */
uint64_t emu_whole_pages(uint64_t size);
/* New device memory of a context's device, reachable at *result. Call with the lock held. */
CUresult emu_allocate_device(CUcontext context, unsigned physical, uint64_t size, bool managed,
                             struct emu_memory **result);

/* ---- what one process tells another */

enum { EMU_MEMORY_MAGIC = 0x74707345, EMU_EVENT_MAGIC = 0x74707346, EMU_POOL_MAGIC = 0x74707347 };

#define EMU_DEVICE_MEMORY "toposeat-device-memory" /* the name of its files */

/* Names a file that a process holds open: memory, or the mark of an event. */
struct emu_handle {
  uint32_t magic;
  int32_t process;
  int32_t file;
  uint32_t physical;
  uint64_t base, size, mapped, inode, pool;
};

_Static_assert(sizeof(struct emu_handle) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");

/* A handle of this process's memory. */
struct emu_handle emu_handle_of(const struct emu_memory *memory, uint32_t magic);
/* The exporter's file, if it is still the one that the handle names; -1. */
int emu_open_exported(const struct emu_handle *handle);
bool emu_owner_lives(const struct emu_handle *handle);
/* A handle is of a place: once its memory was freed, and other memory lies there, it is of that. */
void emu_follow(struct emu_handle *handle);
/* Maps another process's memory. */
CUresult emu_open_memory(CUcontext context, const struct emu_handle *handle,
                         struct emu_memory **result);

/* ---- pools */

struct CUmemPoolHandle_st {
  uint64_t id; /* of the pool that a file names, in all processes */
  unsigned physical;
  int handle_types;
  int file;                /* names the pool for other processes; -1 */
  bool imported, standing; /* standing: the device's own, which is never destroyed */
  uint64_t used, most_used, threshold;
  int reuse[3];
  uint8_t access[EMU_MAX_DEVICES];
  struct CUmemPoolHandle_st *next;
};

bool emu_pool_lives(CUmemoryPool pool);
CUmemoryPool emu_new_pool(unsigned physical, int handle_types);
void emu_delete_pool(CUmemoryPool pool);
/* Takes from and gives back to a pool's count. */
void emu_pool_count(CUmemoryPool pool, int64_t bytes);
/* Whether devices other than its own may reach the pool's memory. */
bool emu_pool_is_shared(CUmemoryPool pool);

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
