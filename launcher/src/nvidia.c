/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* CUDA_VISIBLE_DEVICES: integers in PCI bus order with CUDA_DEVICE_ORDER=PCI_BUS_ID, because MPICH
   reads the list with atoi; UUIDs where the inherited list has them, for MIG, under MPS, or on
   request.

   What the driver counts is what this process can open. A container or a device cgroup shows fewer
   devices than the node has, and then numbers start at the first of those. */
#include "system_tree.h"
#include "vendors.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { MAX_GPUS = 1024 };

struct hardware {
  struct {
    char pci[16];
    char uuid[64];  /* empty: not told */
  } gpus[MAX_GPUS]; /* in PCI bus order */
  size_t count;
  bool known;      /* the driver's directory was there */
  bool same_model; /* all are of one known model */
};

/* The value behind "NAME:" in a driver information file, "" if it is not there. */
static void read_field(FILE *file, const char *name, char *value, size_t size) {
  char line[256];
  value[0] = '\0';
  if (fseek(file, 0, SEEK_SET) != 0)
    return;
  while (fgets(line, sizeof line, file) != NULL) {
    size_t length = strlen(name);
    if (strncmp(line, name, length) != 0 || line[length] != ':')
      continue;
    const char *start = line + length + 1;
    start += strspn(start, " \t");
    snprintf(value, size, "%.*s", (int)strcspn(start, "\n"), start);
    return;
  }
}

/* access() asks the device cgroup too (the kernel checks it with the file's permissions) and does
   not wake the GPU up as open() would. */
static bool is_reachable(const char *minor) {
  struct tps_text path;
  tps_text_init(&path);
  tps_system_path(&path, "/dev/nvidia");
  tps_text_add(&path, "%s", minor);
  bool reachable = minor[0] == '\0' || access(path.data, R_OK | W_OK) == 0;
  tps_text_free(&path);
  return reachable;
}

static void add_gpu(struct hardware *hardware, const char *folder, const char *pci, char *model) {
  struct tps_text path;
  tps_text_init(&path);
  tps_text_add(&path, "%s/%s/information", folder, pci);
  FILE *file = fopen(path.data, "re");
  tps_text_free(&path);
  char minor[16] = "", name[128] = "", uuid[64] = "";
  if (file != NULL) {
    read_field(file, "Device Minor", minor, sizeof minor);
    read_field(file, "Model", name, sizeof name);
    read_field(file, "GPU UUID", uuid, sizeof uuid);
    fclose(file);
  }
  if (!is_reachable(minor))
    return;
  if (hardware->count == 0)
    snprintf(model, 128, "%s", name);
  hardware->same_model =
      name[0] != '\0' && strcmp(model, name) == 0 && (hardware->count == 0 || hardware->same_model);
  snprintf(hardware->gpus[hardware->count].pci, sizeof hardware->gpus[0].pci, "%s", pci);
  memcpy(hardware->gpus[hardware->count].uuid, uuid, sizeof uuid);
  hardware->count++;
}

static int compare_pci(const void *first, const void *second) { return strcasecmp(first, second); }

static void read_hardware(struct hardware *hardware) {
  struct tps_text folder;
  tps_text_init(&folder);
  tps_system_path(&folder, "/proc/driver/nvidia/gpus");
  DIR *entries = opendir(folder.data);
  hardware->count = 0;
  hardware->known = entries != NULL;
  hardware->same_model = false;
  char model[128] = "";
  if (entries != NULL) {
    struct dirent *entry;
    while ((entry = readdir(entries)) != NULL && hardware->count < MAX_GPUS)
      if (entry->d_name[0] != '.' && strlen(entry->d_name) == strlen("0000:00:00.0"))
        add_gpu(hardware, folder.data, entry->d_name, model);
    closedir(entries);
  }
  tps_text_free(&folder);
  qsort(hardware->gpus, hardware->count, sizeof hardware->gpus[0], compare_pci);
}

static long position_of(const struct hardware *hardware, const char *pci) {
  for (size_t i = 0; i < hardware->count; i++)
    if (strcasecmp(hardware->gpus[i].pci, pci) == 0)
      return (long)i;
  return -1;
}

static bool is_mig(const struct tps_device *device) {
  return device->uuid != NULL && strncasecmp(device->uuid, "MIG-", 4) == 0;
}

/* Numbers by PCI bus id among the placement's devices; by index where an id is missing. */
static void number_by_placement(struct tps_view *view) {
  for (size_t i = 0; i < view->count; i++)
    if (view->devices[i].pci == NULL)
      return;
  for (size_t i = 0; i < view->count; i++) {
    view->numbers[i] = 0;
    for (size_t k = 0; k < view->count; k++)
      view->numbers[i] += strcmp(view->devices[k].pci, view->devices[i].pci) < 0;
  }
}

/* Numbers by PCI bus id among the devices that this process can reach. */
static void number_by_hardware(struct tps_view *view, const struct hardware *hardware) {
  view->enumerated = hardware->count;
  for (size_t i = 0; i < view->count; i++) {
    const char *pci = view->devices[i].pci;
    if (pci != NULL)
      view->numbers[i] = position_of(hardware, pci);
    else if (i >= hardware->count)
      view->numbers[i] = -1;
    view->visible[i] = view->numbers[i] >= 0;
  }
}

static size_t count_visible(const struct tps_view *view) {
  size_t count = 0;
  for (size_t i = 0; i < view->count; i++)
    count += view->visible[i];
  return count;
}

/* Integers without CUDA_DEVICE_ORDER count by speed, which is not PCI order in mixed nodes. */
static void doubt_integers(const struct tps_visibility *visibility, const struct tps_view *view,
                           const struct hardware *hardware) {
  const char *order = tps_environment_get(visibility->environment, "CUDA_DEVICE_ORDER");
  bool certain = order != NULL && strcmp(order, "PCI_BUS_ID") == 0;
  size_t visible = count_visible(view); /* none or all: no order is needed to tell which */
  if (certain || view->uuids_inherited || hardware->same_model || visible == 0 ||
      visible == view->enumerated)
    return;
  tps_warn(visibility->messages,
           "CUDA_VISIBLE_DEVICES=%.60s was taken to be in PCI bus order, but "
           "CUDA_DEVICE_ORDER=PCI_BUS_ID is not set",
           tps_environment_get(visibility->environment, "CUDA_VISIBLE_DEVICES"));
}

static bool wants_uuids(const struct tps_visibility *visibility, const struct tps_view *view,
                        bool mig) {
  if (visibility->ids != TPS_IDS_AUTO && !mig)
    return visibility->ids == TPS_IDS_UUID;
  bool mps = tps_environment_get(visibility->environment, "CUDA_MPS_PIPE_DIRECTORY") != NULL;
  for (size_t i = 0; mps && i < view->count; i++)
    mps = view->devices[i].uuid != NULL; /* the MPS server renumbers; without UUIDs so be it */
  return mig || view->uuids_inherited || mps;
}

static bool set_variables(struct tps_visibility *visibility, const struct tps_view *view,
                          const size_t *order, size_t count, bool uuids) {
  struct tps_text list;
  tps_text_init(&list);
  bool known = tps_view_format(view, order, count, uuids, &list);
  if (known) {
    tps_environment_set(visibility->environment, "CUDA_VISIBLE_DEVICES", list.data);
    tps_environment_set(visibility->environment, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  } else {
    tps_text_add(&visibility->cause,
                 "the placement does not tell the UUIDs that CUDA_VISIBLE_DEVICES needs here");
  }
  tps_text_free(&list);
  return known;
}

/* UUIDs that a placement of another source lacks; nvidia-smi writes "N/A" and question marks for
   GPUs that it may not ask. */
static void add_uuids(struct tps_view *view, const struct hardware *hardware) {
  view->uuids = tps_allocate(view->count, sizeof *view->uuids);
  for (size_t i = 0; i < view->count; i++) {
    struct tps_device *device = &view->devices[i];
    if (device->uuid != NULL || device->pci == NULL || view->numbers[i] < 0)
      continue;
    const char *told = hardware->gpus[view->numbers[i]].uuid;
    if (strncmp(told, "GPU-", 4) != 0 || strchr(told, '?') != NULL)
      continue;
    memcpy(view->uuids[i], told, sizeof view->uuids[i]);
    device->uuid = view->uuids[i];
  }
}

bool tps_nvidia_view(struct tps_visibility *visibility, struct tps_view *view) {
  struct hardware *hardware = tps_allocate(1, sizeof *hardware);
  read_hardware(hardware);
  if (hardware->known) {
    number_by_hardware(view, hardware);
    add_uuids(view, hardware);
  } else {
    number_by_placement(view);
  }
  const char *inherited = tps_environment_get(visibility->environment, "CUDA_VISIBLE_DEVICES");
  bool usable = inherited == NULL || tps_view_narrow(view, "CUDA_VISIBLE_DEVICES", inherited, true,
                                                     visibility->messages);
  if (usable && inherited != NULL)
    doubt_integers(visibility, view, hardware);
  free(hardware);
  return usable;
}

bool tps_nvidia_plan(struct tps_visibility *visibility, struct tps_view *view) {
  bool mig = false;
  for (size_t i = 0; i < view->count; i++)
    mig |= is_mig(&view->devices[i]);
  if (mig && visibility->mode != TPS_MASK) {
    tps_note(visibility->messages, "a process sees one MIG device only: visibility is mask");
    visibility->mode = TPS_MASK;
  }
  size_t count = 0;
  size_t *order = tps_device_order(visibility, view, &count);
  bool planned = order != NULL &&
                 set_variables(visibility, view, order, count, wants_uuids(visibility, view, mig));
  free(order);
  return planned;
}
