/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "borrow.h"

#include "meeting.h"
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

struct seat {
  const char *host;
  char *devices; /* their numbers */
};

struct seats {
  struct seat *all; /* in the order of ranks */
  size_t count;
};

static void read_seats(struct seats *seats, char *words) {
  char *rows;
  for (char *row = strtok_r(words, " ", &rows); row != NULL; row = strtok_r(NULL, " ", &rows)) {
    char *own, *equals = strchr(row, '=');
    if (equals == NULL)
      return;
    *equals = '\0';
    for (char *one = strtok_r(equals + 1, ";", &own); one != NULL;
         one = strtok_r(NULL, ";", &own)) {
      seats->all = tps_grow(seats->all, seats->count, sizeof *seats->all);
      seats->all[seats->count++] = (struct seat){row, one};
    }
  }
}

static bool is_anywhere(const struct seat *seat) { return strcmp(seat->host, "*") == 0; }

static bool is_here(const struct seat *seat, const struct tps_identity *identity) {
  return !is_anywhere(seat) && tps_identity_is_host(identity, seat->host);
}

static size_t count_here(const struct seats *seats, const struct tps_identity *identity) {
  size_t count = 0;
  for (size_t i = 0; i < seats->count; i++)
    count += is_here(&seats->all[i], identity);
  return count;
}

/* The seat of this host with this number, of those alone that `is_left` has, if any. */
static struct seat *seat_here(const struct seats *seats, const struct tps_identity *identity,
                              const bool *is_left, long number) {
  for (size_t i = 0; i < seats->count; i++)
    if (is_here(&seats->all[i], identity) && (is_left == NULL || is_left[i]) && number-- == 0)
      return &seats->all[i];
  return NULL;
}

/* For a rank whose own seat is on another host: those that are left here are dealt in the order of
   ranks. What is left on the other hosts is for others who know it. */
static struct seat *find_left(const struct seats *seats, const struct tps_identity *identity,
                              const struct tps_meeting *meeting) {
  bool *is_left = tps_allocate(seats->count, sizeof *is_left);
  long before = 0;
  for (size_t i = 0; i < seats->count; i++)
    is_left[i] = true;
  for (size_t i = 0; i < meeting->neighbour_count; i++) {
    long rank = meeting->neighbours[i].rank;
    if (rank < 0 || (size_t)rank >= seats->count)
      continue;
    is_left[rank] = false;
    const struct seat *own = &seats->all[rank];
    before += rank < identity->rank && !is_anywhere(own) && !is_here(own, identity);
  }
  struct seat *found = seat_here(seats, identity, is_left, before);
  free(is_left);
  return found;
}

/* Its own where it runs where it was expected, or where a rank cannot know who else is here: nobody
   else takes that. */
static struct seat *find_own(const struct seats *seats, const struct tps_identity *identity,
                             const char *job, struct tps_messages *messages) {
  struct seat *own = &seats->all[identity->rank];
  size_t here = count_here(seats, identity);
  if (identity->local_size < 0)
    return own;
  struct tps_meeting meeting = {.leader = -1, .listener = -1, .home = -1};
  bool may_change = here > 0 && here < seats->count;
  if (may_change) {
    tps_meeting_join(&meeting, job, NULL, identity, NULL, NULL);
    bool is_known = meeting.complete;
    struct seat *left =
        is_known && !is_here(own, identity) ? find_left(seats, identity, &meeting) : NULL;
    tps_meeting_leave(&meeting);
    if (left != NULL && !is_anywhere(own))
      return left;
  }
  if (is_anywhere(own) || is_here(own, identity))
    return own;
  tps_warn(messages, "no borrowed device: %ld ranks run on %s, where %zu were expected",
           identity->local_size, identity->host, here);
  return NULL;
}

static struct seat *find_seat(const struct seats *seats, const struct tps_identity *identity,
                              const char *job, struct tps_messages *messages) {
  struct seat *found = NULL;
  if (identity->rank >= 0 && (size_t)identity->rank < seats->count)
    return find_own(seats, identity, job, messages);
  if (identity->rank < 0 && identity->local_rank >= 0)
    found = seat_here(seats, identity, NULL, identity->local_rank);
  if (identity->rank < 0 && seats->count == 1) /* without a launcher there is one seat */
    found = &seats->all[0];
  if (found == NULL && seats->count > 0 && identity->rank < 0 && identity->local_rank < 0)
    tps_warn(messages, "no borrowed device: no variable of a launcher tells the rank");
  else if (found == NULL)
    tps_warn(messages, "no borrowed device: there are more ranks than were known before");
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
  char *seat_words = strchr(devices, '|');
  if (seat_words == NULL) {
    tps_warn(messages, "no borrowed device: the launcher did not hand TOPOSEAT_BORROW on");
  } else {
    *seat_words++ = '\0';
    seat_words[strcspn(seat_words, "|")] = '\0'; /* behind it is what tells this job from others */
    struct seats seats = {0};
    struct tps_text words, job;
    tps_text_init(&words);
    tps_text_init(&job);
    tps_text_add(&job, "borrow %s ", told);
    (void)tps_identity_job(&job);
    read_seats(&seats, seat_words);
    struct seat *seat = find_seat(&seats, identity, job.data, messages);
    if (seat != NULL && !add_devices(&words, devices, seat->devices, identity, messages))
      tps_warn(messages, "no borrowed device: TOPOSEAT_BORROW is damaged");
    else if (words.length > 0)
      tps_environment_set(environment, "TOPOSEAT_CL_DEVICES", words.data);
    free(seats.all);
    tps_text_free(&words);
    tps_text_free(&job);
  }
  free(devices);
}
