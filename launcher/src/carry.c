/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "carry.h"

#include "home.h"
#include "trust.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_RUN = 64, BOOT_DIGITS = 8, NAME_BYTES = 64, PATIENCE_MS = 30000 };
/* A firewall that drops packets must hold up no start, and no job that has ended but for its
   records. */
enum { TELLING_MS = 500, UNREACHED_MS = 3500 };
#define RECORD ".tpsrec"
#define TORCH_RECORD ".tpstorch"
#define STARTED ".host"
#define LEFT ".left"
#define SENDING ".sending"
#define TOLD ".told"
#define GIVEN_UP ".given-up"
#define SAID ".said"

/* ---- folders ---- */

static bool is_run(const char *run) {
  size_t length = strspn(run, "0123456789abcdef");
  return length > 0 && length <= MAX_RUN && run[length] == '\0';
}

static bool join(char *path, size_t size, const char *folder, const char *name) {
  int length = snprintf(path, size, "%s/%s", folder, name);
  bool fits = length >= 0 && (size_t)length < size;
  if (!fits)
    errno = ENAMETOOLONG;
  return fits;
}

/* Another user may have made both names here first. */
bool tps_is_folder_of_run(const char *folder, const char *run) {
  char name[MAX_RUN + 8];
  if (!is_run(run))
    return false;
  snprintf(name, sizeof name, ".run-%s", run);
  int own = tps_own_folder(folder);
  int mark = own < 0 ? -1 : tps_own_file(own, name);
  if (mark >= 0)
    close(mark);
  if (own >= 0)
    close(own);
  return mark >= 0;
}

/* As `_boot` in model/job_folder.py. */
static void read_boot(char boot[BOOT_DIGITS + 1]) {
  memset(boot, '0', BOOT_DIGITS);
  boot[BOOT_DIGITS] = '\0';
  char text[BOOT_DIGITS];
  int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return;
  if (read(file, text, sizeof text) == (ssize_t)sizeof text)
    memcpy(boot, text, sizeof text);
  close(file);
}

/* Launch lines show the run to all users of a node, who could take a name that is made of it before
   its owners do. Nobody can guess one that is made with the job's key. */
static void name_of_run(const char *run, char name[MAX_RUN + 1]) {
  unsigned char digest[TPS_DIGEST_BYTES];
  snprintf(name, MAX_RUN + 1, "%s", run);
  if (tps_home_secret("records", run, digest))
    for (size_t i = 0; i < 16; i++)
      snprintf(name + 2 * i, 3, "%02x", digest[i]);
}

bool tps_node_folder(const char *run, bool make, char *folder, size_t size) {
  const char *places[] = {"/dev/shm", getenv("TMPDIR"), "/tmp"};
  char boot[BOOT_DIGITS + 1];
  char name[BOOT_DIGITS + MAX_RUN + 32];
  if (!is_run(run)) {
    errno = EINVAL;
    return false;
  }
  char own_name[MAX_RUN + 1];
  name_of_run(run, own_name);
  read_boot(boot);
  snprintf(name, sizeof name, "toposeat-records-%s-%s", boot, own_name);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (places[i] == NULL || !tps_is_safe_place(places[i]) || !join(folder, size, places[i], name))
      continue;
    if (make && mkdir(folder, 0700) != 0 && errno != EEXIST)
      continue;
    int own = tps_own_folder(folder);
    if (own >= 0) {
      close(own);
      return true;
    }
  }
  return false;
}

/* ---- what lies in a folder ---- */

struct entry {
  char name[NAME_BYTES];
  long rank;
  long pid;
  size_t rest_at; /* where the name goes on after the process */
};

struct listing {
  struct entry *entries;
  size_t count;
};

static const char *rest_of(const struct entry *entry) { return entry->name + entry->rest_at; }

static bool is_kind(const struct entry *entry, const char *suffix) {
  return strcmp(rest_of(entry), suffix) == 0;
}

/* Reads a number of a file's name and moves on behind it. */
static bool take_number(const char **at, long *number) {
  char *end;
  if (**at < '0' || **at > '9')
    return false;
  *number = strtol(*at, &end, 10);
  *at = end;
  return *number <= INT_MAX;
}

static bool parse(struct entry *entry, const char *name) {
  static const char begin[] = "rank-";
  if (strlen(name) >= NAME_BYTES || strncmp(name, begin, sizeof begin - 1) != 0)
    return false;
  const char *at = name + sizeof begin - 1;
  if (!take_number(&at, &entry->rank) || *at != '-')
    return false;
  at += 1;
  if (!take_number(&at, &entry->pid))
    return false;
  memcpy(entry->name, name, strlen(name) + 1);
  entry->rest_at = (size_t)(at - name);
  return true;
}

static bool list_folder(struct listing *listing, const char *folder) {
  *listing = (struct listing){0};
  int own = tps_own_folder(folder);
  DIR *directory = own < 0 ? NULL : fdopendir(own);
  if (directory == NULL) {
    if (own >= 0)
      close(own);
    return false;
  }
  size_t room = 0;
  for (struct dirent *found; (found = readdir(directory)) != NULL;) {
    struct entry entry = {0};
    if (!parse(&entry, found->d_name))
      continue;
    if (listing->count == room) {
      room = room == 0 ? 64 : room * 2;
      struct entry *grown = realloc(listing->entries, room * sizeof *grown);
      if (grown == NULL)
        break;
      listing->entries = grown;
    }
    listing->entries[listing->count++] = entry;
  }
  closedir(directory);
  return true;
}

static bool has_left(const struct listing *listing, const struct entry *one) {
  for (size_t i = 0; i < listing->count; i++) {
    const struct entry *entry = &listing->entries[i];
    if (entry->rank == one->rank && entry->pid == one->pid && is_kind(entry, LEFT))
      return true;
  }
  return false;
}

static bool is_alive(long pid) { return kill((pid_t)pid, 0) == 0 || errno != ESRCH; }

/* Whether anything is there of this rank, or of the process that was started as it, beside the note
   of its start: where an MPI does not know the launcher, each process is rank 0 of a world. */
static bool has_begun(const struct listing *listing, const struct entry *start) {
  for (size_t i = 0; i < listing->count; i++) {
    const struct entry *entry = &listing->entries[i];
    if ((entry->rank == start->rank || entry->pid == start->pid) && !is_kind(entry, STARTED))
      return true;
  }
  return false;
}

static bool has_torch_record(const struct listing *listing) {
  for (size_t i = 0; i < listing->count; i++)
    if (is_kind(&listing->entries[i], TORCH_RECORD))
      return true;
  return false;
}

/* Whether more may be counted: the process lives and has not left. A rank may be a script at its
   start, and another process later; what starts ranks of PyTorch, which begin together, has another
   number than these. */
static bool is_busy(const struct listing *listing, const struct entry *entry) {
  if (is_kind(entry, STARTED))
    return !has_begun(listing, entry) && !has_torch_record(listing) && is_alive(entry->pid);
  return (is_kind(entry, RECORD) || is_kind(entry, TORCH_RECORD)) && !has_left(listing, entry) &&
         is_alive(entry->pid);
}

/* ---- marks ---- */

/* The handle of a new file in an own folder, for writing; -1: errno tells why. */
static int make_mark(const char *folder, const char *name) {
  int own = tps_own_folder(folder);
  if (own < 0)
    return -1;
  int mark = tps_make_mark(own, name);
  int reason = errno;
  close(own);
  errno = reason;
  return mark;
}

/* A mark that is there already is this process's: one program may become another. */
static bool write_mark(const char *folder, long rank, const char *suffix, const char *text) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "rank-%ld-%ld%s", rank, (long)getpid(), suffix);
  int file = make_mark(folder, name);
  if (file < 0)
    return errno == EEXIST;
  size_t length = strlen(text);
  bool written = length == 0 || write(file, text, length) == (ssize_t)length;
  return close(file) == 0 && written;
}

/* Of all processes of the node, one is. */
static bool is_first(const char *folder, const char *name) {
  int file = make_mark(folder, name);
  if (file >= 0)
    close(file);
  return file >= 0;
}

static void forget_first(const char *folder, const char *name) {
  char path[PATH_MAX];
  if (join(path, sizeof path, folder, name))
    unlink(path);
}

bool tps_may_say(const char *folder) {
  int file = make_mark(folder, SAID);
  if (file < 0)
    return errno != EEXIST; /* no room for the mark either */
  close(file);
  return true;
}

bool tps_note_start(const char *folder, long rank) {
  char host[HOST_NAME_MAX + 1] = "";
  if (gethostname(host, sizeof host - 1) != 0)
    return false;
  return write_mark(folder, rank, STARTED, host);
}

bool tps_leave(const char *folder, long rank) {
  return write_mark(folder, rank, LEFT, "") && tps_all_left(folder);
}

bool tps_all_left(const char *folder) {
  struct listing listing;
  if (!list_folder(&listing, folder))
    return false;
  bool busy = false;
  for (size_t i = 0; !busy && i < listing.count; i++)
    busy = is_busy(&listing, &listing.entries[i]);
  free(listing.entries);
  if (busy)
    return false;
  return is_first(folder, SENDING); /* two may leave at once, and see each other gone */
}

/* ---- the bundle ---- */

struct extent {
  uint64_t offset;
  uint64_t length;
};

struct part { /* one file */
  const struct entry *entry;
  int file;
  uint64_t size;
  struct extent *extents;
  size_t extent_count;
};

static bool add_extent(struct part *part, off_t begin, off_t end) {
  struct extent *grown = realloc(part->extents, (part->extent_count + 1) * sizeof *grown);
  if (grown == NULL)
    return false;
  part->extents = grown;
  part->extents[part->extent_count++] =
      (struct extent){.offset = (uint64_t)begin, .length = (uint64_t)(end - begin)};
  return true;
}

/* Where the file has data: records are sparse, at 10^5 ranks some hundred MiB with a few KiB in
   them. */
static bool find_extents(struct part *part) {
  struct stat status;
  if (fstat(part->file, &status) != 0 || !S_ISREG(status.st_mode))
    return false;
  part->size = (uint64_t)status.st_size;
  for (off_t at = 0; at < status.st_size;) {
    off_t begin = lseek(part->file, at, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) /* no more */
      break;
    off_t end = begin < 0 ? -1 : lseek(part->file, begin, SEEK_HOLE);
    if (begin < 0 || end <= begin) { /* a file system that knows no holes */
      begin = at;
      end = status.st_size;
    }
    if (end > status.st_size)
      end = status.st_size;
    if (!add_extent(part, begin, end))
      return false;
    at = end;
  }
  return true;
}

static uint64_t length_of(const struct part *part) {
  uint64_t length = NAME_BYTES + 16;
  for (size_t i = 0; i < part->extent_count; i++)
    length += 16 + part->extents[i].length;
  return length;
}

static void put(unsigned char *at, uint64_t value) {
  for (int i = 7; i >= 0; i--, value >>= 8)
    at[i] = (unsigned char)(value & 0xff);
}

static bool send_numbers(int peer, uint64_t first, uint64_t second) {
  unsigned char numbers[16];
  put(numbers, first);
  put(numbers + 8, second);
  return tps_send_bytes(peer, numbers, sizeof numbers, tps_now_ms() + PATIENCE_MS);
}

/* A file that was cut meanwhile is filled up with zeros: the length was announced. */
static bool send_extent(int peer, int file, const struct extent *extent) {
  static const size_t room = 1 << 18;
  char *buffer = malloc(room);
  bool sent = buffer != NULL && send_numbers(peer, extent->offset, extent->length);
  for (uint64_t done = 0; sent && done < extent->length;) {
    uint64_t left = extent->length - done;
    size_t wanted = left < room ? (size_t)left : room;
    ssize_t got = pread(file, buffer, wanted, (off_t)(extent->offset + done));
    if (got <= 0) {
      memset(buffer, 0, wanted);
      got = (ssize_t)wanted;
    }
    sent = tps_send_bytes(peer, buffer, (size_t)got, tps_now_ms() + PATIENCE_MS);
    done += (uint64_t)got;
  }
  free(buffer);
  return sent;
}

static bool send_part(int peer, const struct part *part) {
  char name[NAME_BYTES] = "";
  memcpy(name, part->entry->name, strlen(part->entry->name));
  bool sent = tps_send_bytes(peer, name, sizeof name, tps_now_ms() + PATIENCE_MS) &&
              send_numbers(peer, part->size, part->extent_count);
  for (size_t i = 0; sent && i < part->extent_count; i++)
    sent = send_extent(peer, part->file, &part->extents[i]);
  return sent;
}

/* A file is open while its extents are known, and no longer than it takes: a node can have more
   files than a process may open. So each is opened twice, and must be as long the second time. */
static bool open_part(struct part *part, const char *folder) {
  int own = tps_own_folder(folder);
  part->file = own < 0 ? -1 : tps_own_file(own, part->entry->name);
  if (own >= 0)
    close(own);
  return part->file >= 0;
}

static void bundle_name(char *name, size_t size) {
  char host[HOST_NAME_MAX + 1] = "";
  if (gethostname(host, sizeof host - 1) != 0)
    host[0] = '\0';
  for (char *at = host; *at != '\0'; at++)
    if (strspn(at, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-") == 0)
      *at = '_';
  snprintf(name, size, "node-%.64s-%ld-%ld" TPS_BUNDLE_SUFFIX, host, (long)getpid(), tps_now_ms());
}

static enum tps_carried send_parts(struct part *parts, size_t count, const char *folder,
                                   const char *words, long patience_ms, long unreached_ms) {
  uint64_t length = 0;
  for (size_t i = 0; i < count; i++)
    length += length_of(&parts[i]);
  char name[TPS_MAX_BUNDLE_NAME];
  bundle_name(name, sizeof name);
  int peer = tps_bundle_open(words, name, length, tps_now_ms() + patience_ms, unreached_ms);
  if (peer < 0)
    return TPS_UNREACHED;
  bool sent = true;
  for (size_t i = 0; sent && i < count; i++) {
    sent = open_part(&parts[i], folder) && send_part(peer, &parts[i]);
    if (parts[i].file >= 0)
      close(parts[i].file);
  }
  if (!sent)
    close(peer);
  return sent && tps_bundle_close(peer, tps_now_ms() + patience_ms) ? TPS_CARRIED : TPS_NOT_KEPT;
}

/* Only notes of starts where a rank waits for it. */
static enum tps_carried carry(const struct listing *listing, const char *folder, const char *words,
                              bool only_starts) {
  struct part *parts = calloc(listing->count + 1, sizeof *parts);
  size_t count = 0;
  bool sent = parts != NULL;
  for (size_t i = 0; sent && i < listing->count; i++) {
    struct part *part = &parts[count];
    part->entry = &listing->entries[i];
    bool wanted = only_starts ? is_kind(part->entry, STARTED) : !is_kind(part->entry, LEFT);
    if (!wanted || !open_part(part, folder)) /* or gone already */
      continue;
    sent = find_extents(part);
    close(part->file);
    part->file = -1;
    count += 1;
  }
  long patience_ms = only_starts ? tps_home_patience_ms(words) : PATIENCE_MS;
  enum tps_carried carried = sent ? TPS_CARRIED : TPS_NOT_KEPT;
  if (sent && count > 0)
    carried = send_parts(parts, count, folder, words, patience_ms,
                         only_starts ? TELLING_MS : UNREACHED_MS);
  for (size_t i = 0; parts != NULL && i < count; i++)
    free(parts[i].extents);
  free(parts);
  return carried;
}

static void remove_entries(const struct listing *listing, const char *folder, bool all) {
  char path[PATH_MAX];
  for (size_t i = 0; i < listing->count; i++) {
    const struct entry *entry = &listing->entries[i];
    /* Who has not left may live on where this process cannot see it: in another container. */
    bool record = strstr(rest_of(entry), RECORD) != NULL || is_kind(entry, TORCH_RECORD);
    bool kept = !all && record && !has_left(listing, entry);
    if (!kept && join(path, sizeof path, folder, entry->name))
      unlink(path);
  }
  forget_first(folder, TOLD);
  forget_first(folder, SENDING);
  forget_first(folder, GIVEN_UP);
  forget_first(folder, SAID);
  rmdir(folder); /* stays if there is still something in it */
}

/* A node that has not reached home once may have many programs yet, none of which waits again. */
enum tps_carried tps_carry_home(const char *folder, const char *words, bool all) {
  struct listing listing;
  char path[PATH_MAX];
  if (!list_folder(&listing, folder))
    return TPS_NOT_KEPT;
  enum tps_carried carried = TPS_GIVEN_UP;
  if (all || !join(path, sizeof path, folder, GIVEN_UP) || access(path, F_OK) != 0)
    carried = carry(&listing, folder, words, false);
  if (carried == TPS_UNREACHED)
    is_first(folder, GIVEN_UP);
  if (carried == TPS_CARRIED)
    remove_entries(&listing, folder, all);
  else
    forget_first(folder, SENDING);
  free(listing.entries);
  return carried;
}

void tps_tell_starts(const char *folder, const char *words) {
  struct listing listing;
  if (!is_first(folder, TOLD) || !list_folder(&listing, folder))
    return;
  carry(&listing, folder, words, true);
  free(listing.entries);
}
