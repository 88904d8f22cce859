/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "machine.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "carried.h"
#include "say.h"

struct reader {
  struct emu_machine *machine;
  char *words; /* what strtok_r has left of the line */
  const char *fault;
  bool ended;
};

static const char *word(struct reader *reader) {
  const char *found = strtok_r(NULL, " \t\r\n", &reader->words);
  if (!found && !reader->fault)
    reader->fault = "the line is too short";
  return found ? found : "";
}

static double number(struct reader *reader, double least, double most) {
  const char *text = word(reader);
  char *end = NULL;
  errno = 0;
  const double value = strtod(text, &end);
  if (end == text || *end || errno || isnan(value) || value < least || value > most) {
    if (!reader->fault)
      reader->fault = "a number is damaged or out of range";
    return least;
  }
  return value;
}

static unsigned whole(struct reader *reader, unsigned most) {
  const double value = number(reader, 0, most);
  if (floor(value) < value && !reader->fault)
    reader->fault = "a whole number is expected";
  return (unsigned)value;
}

static unsigned device_number(struct reader *reader) {
  const unsigned most = reader->machine->devices ? reader->machine->devices - 1 : 0;
  return whole(reader, most);
}

static void copy_word(struct reader *reader, char *to, size_t size) {
  const char *text = word(reader);
  if (strlen(text) >= size && !reader->fault)
    reader->fault = "a word is too long";
  (void)snprintf(to, size, "%s", text);
}

/* Bytes per second in the file, bytes per nanosecond here. */
static double rate(struct reader *reader, double least) {
  return number(reader, least, 1e18) * 1e-9;
}

static void read_path(struct reader *reader, struct emu_path *path) {
  path->latency_ns = (int64_t)number(reader, 0, 1e12);
  path->cap_bytes_per_ns = rate(reader, 0);
  path->count = whole(reader, EMU_MAX_PATH);
  for (uint32_t i = 0; i < path->count; ++i)
    path->channel[i] = (uint16_t)whole(reader, reader->machine->channels - 1);
}

static uint32_t pair_number(struct reader *reader) {
  const unsigned from = device_number(reader);
  return emu_pair(reader->machine, from, device_number(reader));
}

/* A limit of what two devices exchange with each other. */
static void read_both(struct reader *reader) {
  struct emu_machine *machine = reader->machine;
  const unsigned from = device_number(reader);
  const unsigned to = device_number(reader);
  const double bytes_per_ns = rate(reader, 1);
  machine->way[emu_pair(machine, from, to)].direct.both_bytes_per_ns = bytes_per_ns;
  machine->way[emu_pair(machine, to, from)].direct.both_bytes_per_ns = bytes_per_ns;
}

enum stage { DIRECT, UP, DOWN };

static void read_way(struct reader *reader, enum stage stage) {
  const uint32_t pair = pair_number(reader);
  struct emu_way *way = &reader->machine->way[pair];
  struct emu_path *path = &way->direct;
  if (stage != DIRECT)
    path = stage == UP ? &way->stage_up : &way->stage_down;
  read_path(reader, path);
  path->pair = pair;
}

static uint8_t *pair_here(struct reader *reader, uint8_t *table) {
  return &table[pair_number(reader)];
}

static void read_sizes(struct reader *reader) {
  struct emu_machine *machine = reader->machine;
  if (machine->devices) {
    reader->fault = "a second \"sizes\" line";
    return;
  }
  machine->channels = whole(reader, EMU_MAX_CHANNELS);
  const unsigned devices = whole(reader, EMU_MAX_DEVICES);
  const size_t pairs = (size_t)devices * devices;
  machine->way = calloc(pairs + 1, sizeof *machine->way);
  machine->ancestor = calloc(pairs + 1, 1);
  machine->nvlinks = calloc(pairs + 1, 1);
  if (!devices || !machine->channels || !machine->way || !machine->ancestor || !machine->nvlinks) {
    if (!reader->fault)
      reader->fault = "no devices, no channels or no memory";
    return;
  }
  machine->devices = devices;
}

static void read_device(struct reader *reader) {
  struct emu_device *device = &reader->machine->device[device_number(reader)];
  copy_word(reader, device->pci, sizeof device->pci);
  copy_word(reader, device->uuid, sizeof device->uuid);
  device->capability = (int)whole(reader, 1000);
  device->pcie_generation = (int)whole(reader, 99);
  device->pcie_width = (int)whole(reader, 99);
  device->memory_bytes = (uint64_t)number(reader, 0, 1e15);
  device->copy_bytes_per_ns = rate(reader, 1);
  copy_word(reader, device->name, sizeof device->name);
  for (char *at = device->name; *at; ++at) /* blanks are written as underscores */
    if (*at == '_')
      *at = ' ';
}

static void read_port(struct reader *reader, bool to_switch) {
  struct emu_device *device = &reader->machine->device[device_number(reader)];
  if (device->ports == EMU_MAX_LANES) {
    reader->fault = "a device has too many ports";
    return;
  }
  struct emu_port *port = &device->port[device->ports++];
  port->to_switch = to_switch;
  port->lanes = (uint8_t)whole(reader, EMU_MAX_LANES);
  copy_word(reader, port->pci, sizeof port->pci);
}

static void read_channel(struct reader *reader) {
  const unsigned which = whole(reader, reader->machine->channels - 1);
  reader->machine->channel[which].bytes_per_ns = rate(reader, 1);
}

static void read_line(struct reader *reader, const char *what) {
  struct emu_machine *machine = reader->machine;
  if (strcmp(what, "name") == 0)
    copy_word(reader, machine->name, sizeof machine->name);
  else if (strcmp(what, "ipc-open-ns") == 0)
    machine->ipc_open_ns = (int64_t)number(reader, 0, 1e10);
  else if (strcmp(what, "sizes") == 0)
    read_sizes(reader);
  else if (strcmp(what, "processor") == 0)
    reader->words = NULL; /* `toposeat discover` reads it */
  else if (!machine->devices)
    reader->fault = "\"sizes\" must come first";
  else if (strcmp(what, "channel") == 0)
    read_channel(reader);
  else if (strcmp(what, "device") == 0)
    read_device(reader);
  else if (strcmp(what, "to-host") == 0)
    read_path(reader, &machine->device[device_number(reader)].to_host);
  else if (strcmp(what, "from-host") == 0)
    read_path(reader, &machine->device[device_number(reader)].from_host);
  else if (strcmp(what, "direct") == 0)
    read_way(reader, DIRECT);
  else if (strcmp(what, "stage-up") == 0)
    read_way(reader, UP);
  else if (strcmp(what, "stage-down") == 0)
    read_way(reader, DOWN);
  else if (strcmp(what, "both") == 0)
    read_both(reader);
  else if (strcmp(what, "peer") == 0)
    machine->way[pair_number(reader)].peer = true;
  else if (strcmp(what, "ancestor") == 0) {
    uint8_t *entry = pair_here(reader, machine->ancestor);
    *entry = (uint8_t)whole(reader, 255);
  } else if (strcmp(what, "nvlink") == 0) {
    uint8_t *entry = pair_here(reader, machine->nvlinks);
    *entry = (uint8_t)whole(reader, EMU_MAX_LANES);
  } else if (strcmp(what, "switch-port") == 0)
    read_port(reader, true);
  else if (strcmp(what, "cpu-port") == 0)
    read_port(reader, false);
  else if (strcmp(what, "end") == 0)
    reader->ended = true;
  else
    reader->fault = "an unknown word begins the line";
}

/* Whether every channel has a rate, every device a bus id, every pair a way. */
static const char *what_is_missing(const struct emu_machine *machine) {
  for (unsigned i = 0; i < machine->channels; ++i)
    if (!(machine->channel[i].bytes_per_ns > 0))
      return "a channel has no rate";
  for (unsigned i = 0; i < machine->devices; ++i) {
    if (!machine->device[i].pci[0])
      return "a device is not described";
    for (unsigned j = 0; j < machine->devices; ++j)
      if (i != j && !machine->way[(size_t)i * machine->devices + j].direct.count)
        return "a pair of devices has no route";
  }
  return NULL;
}

static uint64_t digest_of(uint64_t digest, const char *text) {
  for (; *text; ++text) /* FNV-1a */
    digest = (digest ^ (unsigned char)*text) * 1099511628211U;
  return digest;
}

static bool read_file(FILE *file, const char *path, struct emu_machine *machine) {
  struct reader reader = {.machine = machine};
  char *line = NULL;
  size_t size = 0;
  unsigned count = 0;
  machine->digest = 14695981039346656037U;
  while (!reader.fault && !reader.ended && getline(&line, &size, file) > 0) {
    ++count;
    machine->digest = digest_of(machine->digest, line);
    if (count == 1) {
      if (strcmp(line, "toposeat-emulated-machine 1\n") != 0)
        reader.fault = "this is not a machine file of version 1";
      continue;
    }
    const char *what = strtok_r(line, " \t\r\n", &reader.words);
    if (what && *what != '#')
      read_line(&reader, what);
  }
  free(line);
  if (!reader.fault && !reader.ended)
    reader.fault = "the file is truncated: its last line must be \"end\"";
  if (!reader.fault)
    reader.fault = what_is_missing(machine);
  if (reader.fault)
    emu_say("%s:%u: %s", path, count, reader.fault);
  return !reader.fault;
}

static struct emu_machine *the_machine;

static void read_once(void) {
  const char *path = getenv("TOPOSEAT_EMULATED_MACHINE");
  if (!path || !*path) {
    emu_say("TOPOSEAT_EMULATED_MACHINE is not the path of a machine file: no device");
    return;
  }
  emu_unpack_machine(path);
  FILE *file = fopen(path, "re");
  if (!file) {
    emu_say("%s: cannot open: no device", path);
    return;
  }
  struct emu_machine *machine = calloc(1, sizeof *machine);
  if (machine && read_file(file, path, machine))
    the_machine = machine;
  else if (machine) {
    free(machine->way);
    free(machine->ancestor);
    free(machine->nvlinks);
    free(machine);
  }
  (void)fclose(file);
}

const struct emu_machine *emu_machine(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, read_once);
  return the_machine;
}

const struct emu_way *emu_way(const struct emu_machine *machine, unsigned from, unsigned to) {
  return &machine->way[(size_t)from * machine->devices + to];
}

static bool same_switch(const struct emu_port *a, const struct emu_port *b) {
  return a->to_switch && b->to_switch && strcmp(a->pci, b->pci) == 0;
}

bool emu_nvlinked(const struct emu_machine *machine, unsigned a, unsigned b) {
  if (machine->nvlinks[emu_pair(machine, a, b)])
    return true;
  const struct emu_device *from = &machine->device[a];
  const struct emu_device *to = &machine->device[b];
  for (unsigned i = 0; a != b && i < from->ports; ++i)
    for (unsigned j = 0; j < to->ports; ++j)
      if (same_switch(&from->port[i], &to->port[j]))
        return true;
  return false;
}
