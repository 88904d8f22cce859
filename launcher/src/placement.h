/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The placement file (docs/reference: toposeat/placement/1), as
   src/toposeat/model/placement_file.py writes it and people edit it. */
#ifndef TOPOSEAT_LAUNCHER_PLACEMENT_H
#define TOPOSEAT_LAUNCHER_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>

enum tps_vendor { TPS_VENDOR_UNKNOWN, TPS_NVIDIA, TPS_AMD, TPS_INTEL };

/* Strings point into the placement's buffer and are NULL where the file has '-'. */
struct tps_device {
  unsigned long index;
  const char *pci; /* dddd:bb:dd.f, lower case */
  const char *uuid;
};

struct tps_host {
  const char *name; /* "*": any host */
  struct tps_device *devices;
  size_t device_count;
};

struct tps_seat {
  unsigned long rank;
  const char *host;
  unsigned long local_rank;
  struct tps_device device;
  const char *cpus;
  long memory_node; /* -1: none */
  const char *nic;
};

struct tps_placement {
  char *buffer;
  enum tps_vendor vendor;
  struct tps_host *hosts;
  size_t host_count;
  const char *costs;      /* how near devices of a host are, for libtoposeat_reorder.so; NULL */
  struct tps_seat *seats; /* by rank: of all ranks, or of those of this node ("# part:") */
  size_t seat_count;
  size_t ranks; /* of the job */
};

/* Reads `text`, `length` bytes and a zero, which it keeps and changes. False with one line
   "NAME:LINE: cause" in `error`; the text is freed then. */
bool tps_placement_read(struct tps_placement *placement, char *text, size_t length,
                        const char *name, char *error, size_t error_size);

/* The text of a file, `length` bytes and a zero, to be freed; NULL with "NAME: cause". */
char *tps_placement_text(const char *path, size_t *length, char *error, size_t error_size);

/* Reads a file. */
bool tps_placement_load(struct tps_placement *placement, const char *path, char *error,
                        size_t error_size);
void tps_placement_free(struct tps_placement *placement);

/* The seat of `rank`, NULL if it has none here. */
const struct tps_seat *tps_placement_seat_of(const struct tps_placement *placement, long rank);

/* The seat of `local_rank` on the host called `host` in the file, NULL if there is none. */
const struct tps_seat *tps_placement_find_local(const struct tps_placement *placement,
                                                const char *host, unsigned long local_rank);

/* Number of seats on `host`. */
size_t tps_placement_count_on(const struct tps_placement *placement, const char *host);

/* All devices of `host`, in index order: its first '# devices' line (the Python reader refuses a
   second one, which would cost a comparison of all hosts with all here), else that of '*', else the
   devices of its seats. The caller frees them; there is at least one. */
struct tps_device *tps_placement_devices_on(const struct tps_placement *placement, const char *host,
                                            size_t *count);

#endif
