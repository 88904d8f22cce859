/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "visible.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* An index; -1 if the entry is none. The driver reads digits and ignores what follows them. */
static long index_of(const char *entry, size_t length) {
  if (length == 0 || entry[0] < '0' || entry[0] > '9')
    return -1;
  char *end = NULL;
  errno = 0;
  const long value = strtol(entry, &end, 10);
  return errno ? -1 : value;
}

/* A device whose UUID begins with the entry; -1 if none or several do. */
static long uuid_match(const char *entry, size_t length, const char *const *uuid, unsigned count) {
  long found = -1;
  if (length < 5 || strncasecmp(entry, "GPU-", 4) != 0)
    return -1;
  for (unsigned i = 0; i < count; ++i) {
    if (strncasecmp(uuid[i], entry, length) != 0)
      continue;
    if (found >= 0)
      return -1;
    found = (long)i;
  }
  return found;
}

int emu_select(const char *list, const char *const *uuid, unsigned count, unsigned *selected) {
  int chosen = 0;
  const char *at = list;
  for (;;) {
    at += strspn(at, " \t");
    const size_t length = strcspn(at, ", \t");
    const char *comma = strchr(at, ',');
    const char *next = comma ? comma + 1 : NULL;
    long which = uuid_match(at, length, uuid, count);
    if (which < 0)
      which = index_of(at, length);
    if (which < 0 || which >= (long)count)
      return chosen;
    for (int i = 0; i < chosen; ++i)
      if (selected[i] == (unsigned)which)
        return -1;
    selected[chosen++] = (unsigned)which;
    if (!next)
      return chosen;
    at = next;
  }
}

bool emu_is_hidden(const struct emu_machine *machine, unsigned physical) {
  const char *list = getenv("TOPOSEAT_EMULATED_HIDDEN");
  while (list && *list && physical < machine->devices) {
    char *end = NULL;
    if (strtoul(list, &end, 10) == physical && end != list)
      return true;
    if (end == list || *end != ',')
      return false;
    list = end + 1;
  }
  return false;
}

/* PCI order is the order of the file. The default order, fastest first, is the same on a node of
   one model but for ties, which real drivers also break by bus id. */
void emu_visible_devices(const struct emu_machine *machine, struct emu_visible *visible) {
  const char *uuid[EMU_MAX_DEVICES];
  unsigned usable[EMU_MAX_DEVICES];
  unsigned count = 0;
  for (unsigned i = 0; i < machine->devices; ++i) {
    if (emu_is_hidden(machine, i))
      continue;
    uuid[count] = machine->device[i].uuid;
    usable[count++] = i;
  }
  const char *list = getenv("CUDA_VISIBLE_DEVICES");
  unsigned selected[EMU_MAX_DEVICES];
  const int chosen = list ? emu_select(list, uuid, count, selected) : (int)count;
  visible->repeated = chosen < 0;
  visible->count = chosen < 0 ? 0 : (unsigned)chosen;
  for (unsigned i = 0; i < visible->count; ++i)
    visible->physical[i] = usable[list ? selected[i] : i];
}
