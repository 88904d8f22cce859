/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The emulated machine: devices, what copies between them occupy, and which may reach which. Read
   from the file that TOPOSEAT_EMULATED_MACHINE names (written by toposeat.emulation). */
#ifndef TOPOSEAT_EMULATOR_MACHINE_H
#define TOPOSEAT_EMULATOR_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* What the driver says that it is. */
enum { EMU_CUDA_VERSION = 13000 };

enum {
  EMU_MAX_DEVICES = 128,
  EMU_MAX_CHANNELS = 4096,
  EMU_MAX_PATH = 64,
  EMU_MAX_PAIRS = EMU_MAX_DEVICES * EMU_MAX_DEVICES,
  EMU_MAX_LANES = 18, /* NVLinks of a device */
};

/* One direction of a link, or both together: serves one chunk after the other. */
struct emu_channel {
  double bytes_per_ns;
};

/* What one way of moving bytes occupies. `cap` is a limit, 0 without one, that all copies of the
   same ordered pair of devices share; a device and itself are a pair. `both` is one that both
   directions of a pair share. */
struct emu_path {
  int64_t latency_ns;
  double cap_bytes_per_ns, both_bytes_per_ns;
  uint32_t pair;
  uint32_t count;
  uint16_t channel[EMU_MAX_PATH];
};

/* NVLinks of a device that lead to no other one. */
struct emu_port {
  bool to_switch; /* else to a CPU */
  uint8_t lanes;
  char pci[16];
};

struct emu_device {
  char pci[16];
  char uuid[48]; /* GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx */
  char name[64];
  uint64_t memory_bytes;
  int capability;                  /* 37 for 3.7 */
  int pcie_generation, pcie_width; /* 0: nobody knows */
  double copy_bytes_per_ns;        /* within the device */
  struct emu_path to_host, from_host;
  struct emu_port port[EMU_MAX_LANES];
  unsigned ports;
};

/* A way between two devices: direct, or by host memory, then in two stages. */
struct emu_way {
  bool peer;
  struct emu_path direct;               /* used with peer access */
  struct emu_path stage_up, stage_down; /* used without */
};

struct emu_machine {
  char name[64];
  uint64_t digest; /* of the file's text */
  int64_t ipc_open_ns;
  unsigned devices, channels;
  struct emu_device device[EMU_MAX_DEVICES];
  struct emu_channel channel[EMU_MAX_CHANNELS];
  struct emu_way *way; /* devices x devices, row = source */
  uint8_t *ancestor;   /* devices x devices: NVML's common ancestor */
  uint8_t *nvlinks;    /* devices x devices: lanes between them */
};

/* The machine, read once; NULL with one line on stderr if there is none. */
const struct emu_machine *emu_machine(void);

/* The number of an ordered pair. */
static inline uint32_t emu_pair(const struct emu_machine *machine, unsigned from, unsigned to) {
  return from * machine->devices + to;
}

/* Whether NVLinks join two devices, directly or by a switch. */
bool emu_nvlinked(const struct emu_machine *machine, unsigned a, unsigned b);

/* The way from one physical device to another. */
const struct emu_way *emu_way(const struct emu_machine *machine, unsigned from, unsigned to);

#endif
