/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "borrow.h"

#include "trust.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEVICE_PARTS = 4, MOST_DEVICES = 1 << 16 };
static const char DEFAULT_VENDORS[] = "/etc/OpenCL/vendors";

/* ---- the rank's seat ---- */

/* The numbers of the devices of a seat; the row's host is `chosen`, and of all hosts NULL. */
static const char *seat_at(char *seats, const struct tps_identity *chosen, long number) {
  char *rows;
  for (char *row = strtok_r(seats, " ", &rows); row != NULL; row = strtok_r(NULL, " ", &rows)) {
    char *equals = strchr(row, '=');
    if (equals == NULL)
      return NULL;
    *equals = '\0';
    if (chosen != NULL && (strcmp(row, "*") == 0 || !tps_identity_is_host(chosen, row)))
      continue;
    char *own;
    for (char *seat = strtok_r(equals + 1, ";", &own); seat != NULL;
         seat = strtok_r(NULL, ";", &own))
      if (number-- == 0)
        return seat;
  }
  return NULL;
}

static char *find_seat(const char *seats, const struct tps_identity *identity) {
  const struct {
    const struct tps_identity *host;
    long number;
  } ways[] = {{identity, identity->local_rank},
              {NULL, identity->rank},
              /* without a launcher there is one seat */
              {NULL, identity->rank < 0 && identity->local_rank < 0 ? 0 : -1}};
  char *found = NULL;
  for (size_t i = 0; found == NULL && i < sizeof ways / sizeof *ways; i++) {
    if (ways[i].number < 0)
      continue;
    char *copy = tps_copy_string(seats);
    const char *seat = seat_at(copy, ways[i].host, ways[i].number);
    found = seat == NULL ? NULL : tps_copy_string(seat);
    free(copy);
  }
  return found;
}

/* ---- its devices ---- */

/* Cuts the device of this number out of the list, and that at its commas. */
static bool take_device(char *devices, unsigned long number, char *parts[DEVICE_PARTS]) {
  char *rest;
  char *device = strtok_r(devices, " ", &rest);
  while (device != NULL && number-- > 0)
    device = strtok_r(NULL, " ", &rest);
  for (int i = 0; i < DEVICE_PARTS; i++) {
    if (device == NULL)
      return false;
    parts[i] = strsep(&device, ",");
  }
  return device == NULL;
}

static bool add_device(struct tps_text *words, char *devices, unsigned long number,
                       const struct tps_identity *identity, struct tps_messages *messages) {
  char *parts[DEVICE_PARTS];
  if (!take_device(devices, number, parts))
    return false;
  const char *host = parts[0], *socket = parts[1], *address = parts[2], *index = parts[3];
  const char *gap = words->length > 0 ? " " : "";
  if (tps_identity_is_host(identity, host) && *socket != '\0' && access(socket, W_OK) == 0)
    tps_text_add(words, "%sunix:%s#%s", gap, socket, index);
  else if (*address != '\0')
    tps_text_add(words, "%stcp:%s#%s", gap, address, index);
  else
    tps_warn(messages,
             "the borrowed device %s of %.200s cannot be reached: it is lent on that node only",
             index, host);
  return true;
}

/* False: the words are damaged. */
static bool add_devices(struct tps_text *words, const char *devices, char *seat,
                        const struct tps_identity *identity, struct tps_messages *messages) {
  char *rest;
  for (char *word = strtok_r(seat, "+", &rest); word != NULL; word = strtok_r(NULL, "+", &rest)) {
    unsigned long number;
    char *copy = tps_copy_string(devices);
    bool is_whole = tps_parse_number(word, MOST_DEVICES, &number) &&
                    add_device(words, copy, number, identity, messages);
    free(copy);
    if (!is_whole)
      return false;
  }
  return true;
}

/* ---- where the loader looks ---- */

static bool write_vendor(int folder, const char *library) {
  int file = tps_make_mark(folder, "toposeat.icd");
  if (file < 0)
    return false;
  bool written = dprintf(file, "%s\n", library) > 0;
  return close(file) == 0 && written;
}

/* The node's own vendors beside ours. */
static void link_vendors(int folder, const struct tps_environment *environment) {
  const char *vendors = tps_environment_get(environment, "OCL_ICD_VENDORS");
  struct stat status;
  if (vendors == NULL || stat(vendors, &status) != 0 || !S_ISDIR(status.st_mode))
    vendors = tps_environment_get(environment, "OPENCL_VENDOR_PATH");
  if (vendors == NULL || *vendors == '\0')
    vendors = DEFAULT_VENDORS;
  DIR *listing = opendir(vendors);
  for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;) {
    const char *dot = strrchr(entry->d_name, '.');
    if (dot == NULL || strcmp(dot, ".icd") != 0 || strcmp(entry->d_name, "toposeat.icd") == 0)
      continue;
    struct tps_text target;
    tps_text_init(&target);
    tps_text_add(&target, "%s/%s", vendors, entry->d_name);
    (void)!symlinkat(target.data, folder, entry->d_name); /* without it that vendor is not seen */
    tps_text_free(&target);
  }
  if (listing != NULL)
    closedir(listing);
}

/* A folder in the job's own, which goes with it. */
static bool make_vendors(const struct tps_environment *environment,
                         const struct tps_options *options, char *path, size_t size) {
  int job = tps_own_folder(options->vendors);
  if (job < 0)
    return false;
  char name[64];
  snprintf(name, sizeof name, "vendors-%ld", (long)getpid());
  int length = snprintf(path, size, "%s/%s", options->vendors, name);
  bool made = length > 0 && (size_t)length < size && mkdirat(job, name, 0700) == 0;
  int own = made ? tps_own_folder(path) : -1;
  made = own >= 0 && write_vendor(own, options->borrow);
  if (made)
    link_vendors(own, environment);
  int cause = errno;
  if (own >= 0)
    close(own);
  close(job);
  errno = cause;
  return made;
}

static void plan_loader(struct tps_environment *environment, const struct tps_options *options,
                        struct tps_messages *messages) {
  char folder[PATH_MAX];
  const char *vendors = options->borrow; /* a library is a vendor without a folder */
  if (options->vendors != NULL) {
    if (make_vendors(environment, options, folder, sizeof folder))
      vendors = folder;
    else
      tps_warn(messages, "the node's own OpenCL devices are not shown: %.200s: %s",
               options->vendors, strerror(errno));
  }
  tps_environment_set(environment, "OCL_ICD_VENDORS", vendors);
  tps_environment_set(environment, "OPENCL_VENDOR_PATH", vendors);
  if (vendors == options->borrow) /* Khronos' loader takes libraries by this name only */
    tps_environment_set(environment, "OCL_ICD_FILENAMES", vendors);
  else
    tps_environment_unset(environment, "OCL_ICD_FILENAMES");
}

void tps_borrow_plan(struct tps_environment *environment, const struct tps_identity *identity,
                     const struct tps_options *options, struct tps_messages *messages) {
  plan_loader(environment, options, messages);
  char number[32];
  snprintf(number, sizeof number, "%ld", identity->rank < 0 ? 0 : identity->rank);
  tps_environment_set(environment, "TOPOSEAT_RANK", number);
  tps_environment_unset(environment, "TOPOSEAT_CL_DEVICES");
  tps_environment_unset(environment, "TOPOSEAT_BORROW");
  const char *told = getenv("TOPOSEAT_BORROW");
  char *devices = tps_copy_string(told == NULL ? "" : told);
  char *bar = strchr(devices, '|');
  if (bar == NULL) {
    tps_warn(messages, "no borrowed device: the launcher did not hand TOPOSEAT_BORROW on");
  } else {
    *bar = '\0';
    struct tps_text words;
    tps_text_init(&words);
    char *seat = find_seat(bar + 1, identity);
    if (seat == NULL)
      tps_warn(messages, "no borrowed device: there are more ranks than were known before");
    else if (!add_devices(&words, devices, seat, identity, messages))
      tps_warn(messages, "no borrowed device: TOPOSEAT_BORROW is damaged");
    else if (words.length > 0)
      tps_environment_set(environment, "TOPOSEAT_CL_DEVICES", words.data);
    free(seat);
    tps_text_free(&words);
  }
  free(devices);
}
