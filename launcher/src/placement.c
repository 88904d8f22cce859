/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "placement.h"

#include "cpu_list.h"
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COLUMNS = 9, MAX_NODES = 1024, MAX_NUMBER = 999999999 };
static const off_t MAX_FILE_BYTES = (off_t)256 << 20;
static const char SCHEMA_LINE[] = "# toposeat/placement/1";
static const char *const COLUMN_NAMES[COLUMNS] = {"rank",  "host", "local_rank", "pci", "uuid",
                                                  "index", "cpus", "memnode",    "nic"};

struct parser {
  struct tps_placement *placement;
  const char *path;
  size_t line;
  bool has_columns;
  bool is_part; /* what home sends to one node: the file has all ranks, one line each, from 0 on */
  char *error;
  size_t error_size;
};

static bool fail(struct parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(struct parser *parser, const char *format, ...) {
  int used = snprintf(parser->error, parser->error_size, "%s:%zu: ", parser->path, parser->line);
  size_t at = used < 0 ? 0 : (size_t)used;
  if (at < parser->error_size) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(parser->error + at, parser->error_size - at, format, arguments);
    va_end(arguments);
  }
  return false;
}

/* ---- the file ---- */

static char *read_all(int file, size_t size, size_t *length) {
  char *buffer = tps_allocate(size + 1, 1);
  size_t at = 0;
  while (at < size) {
    ssize_t got = read(file, buffer + at, size - at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0) {
      free(buffer);
      return NULL;
    }
    if (got == 0)
      break;
    at += (size_t)got;
  }
  buffer[at] = '\0';
  *length = at;
  return buffer;
}

/* Why `file` cannot be a placement, NULL if it can. */
static const char *refuse_file(int file, const struct stat *status) {
  if (file < 0)
    return strerror(errno);
  if (!S_ISREG(status->st_mode))
    return "not a regular file";
  return status->st_size > MAX_FILE_BYTES ? "too large to be a placement" : NULL;
}

char *tps_placement_text(const char *path, size_t *length, char *error, size_t error_size) {
  struct stat status = {0};
  int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); /* a pipe waits for nobody */
  if (file >= 0 && fstat(file, &status) != 0) {
    close(file);
    file = -1;
  }
  const char *cause = refuse_file(file, &status);
  char *buffer = cause == NULL ? read_all(file, (size_t)status.st_size, length) : NULL;
  if (buffer == NULL)
    snprintf(error, error_size, "%s: %s", path, cause != NULL ? cause : strerror(errno));
  if (file >= 0)
    close(file);
  return buffer;
}

/* ---- words ---- */

static bool is_word(const char *text, const char *extra, size_t limit) {
  size_t length = strlen(text);
  if (length == 0 || length > limit)
    return false;
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)text[i]) && strchr(extra, text[i]) == NULL)
      return false;
  return true;
}

static bool is_missing(const char *text) { return strcmp(text, "-") == 0; }

static bool is_host(const char *text) {
  return strcmp(text, "*") == 0 || (is_word(text, "_.-", 255) && !is_missing(text));
}

static bool read_number(struct parser *parser, const char *text, const char *what,
                        unsigned long limit, unsigned long *number) {
  if (tps_parse_number(text, limit, number))
    return true;
  return fail(parser, "%s must be a number up to %lu, not '%.40s'", what, limit, text);
}

static bool read_word(struct parser *parser, char *text, const char *what, const char *extra,
                      size_t limit, const char **word) {
  *word = NULL;
  if (is_missing(text))
    return true;
  if (!is_word(text, extra, limit))
    return fail(parser, "%s is wrong: '%.60s'", what, text);
  *word = text;
  return true;
}

/* Brings "dddd:bb:dd.f" to the one spelling, in place; other spellings are refused, because the
   writer knows only this one and so does everybody who compares. */
static bool read_pci(struct parser *parser, char *text, const char **pci) {
  *pci = NULL;
  if (is_missing(text))
    return true;
  static const char pattern[] = "xxxx:xx:xx.o";
  bool fits = strlen(text) == sizeof pattern - 1;
  for (size_t i = 0; fits && pattern[i]; i++) {
    unsigned char byte = (unsigned char)text[i];
    if (pattern[i] == 'x')
      fits = isxdigit(byte);
    else if (pattern[i] == 'o')
      fits = byte >= '0' && byte <= '7';
    else
      fits = byte == (unsigned char)pattern[i];
    text[i] = (char)tolower(byte);
  }
  if (!fits)
    return fail(parser, "not a PCI bus id (dddd:bb:dd.f): '%.40s'", text);
  *pci = text;
  return true;
}

static bool read_uuid(struct parser *parser, char *text, const char **uuid) {
  return read_word(parser, text, "uuid", "_./-", 128, uuid);
}

/* ---- '#' lines ---- */

static bool read_vendor(struct parser *parser, const char *name) {
  static const char *const names[] = {"unknown", "nvidia", "amd", "intel"};
  for (int i = 0; i < 4; i++) {
    if (strcmp(name, names[i]) == 0) {
      parser->placement->vendor = (enum tps_vendor)i;
      return true;
    }
  }
  return fail(parser, "unknown vendor '%.40s'", name);
}

/* INDEX=PCI=UUID */
static bool read_device(struct parser *parser, char *entry, struct tps_device *device) {
  char *pci = strchr(entry, '=');
  char *uuid = pci == NULL ? NULL : strchr(pci + 1, '=');
  if (uuid == NULL)
    return fail(parser, "not a device (INDEX=PCI=UUID): '%.60s'", entry);
  *pci++ = '\0';
  *uuid++ = '\0';
  return read_number(parser, entry, "device index", MAX_NUMBER, &device->index) &&
         read_pci(parser, pci, &device->pci) && read_uuid(parser, uuid, &device->uuid);
}

static bool read_device_list(struct parser *parser, struct tps_host *host, char *list) {
  size_t capacity = 1;
  for (const char *at = list; *at; at++)
    capacity += *at == ',';
  host->devices = tps_allocate(capacity, sizeof *host->devices);
  while (*list != '\0') {
    char *comma = strchr(list, ',');
    if (comma != NULL)
      *comma = '\0';
    struct tps_device device = {0};
    if (!read_device(parser, tps_trim(list), &device))
      return false;
    for (size_t i = 0; i < host->device_count; i++)
      if (host->devices[i].index == device.index)
        return fail(parser, "device index %lu appears twice", device.index);
    host->devices[host->device_count++] = device;
    if (comma == NULL)
      break;
    list = comma + 1;
  }
  return true;
}

static bool read_devices(struct parser *parser, const char *name, char *list) {
  struct tps_placement *placement = parser->placement;
  if (!is_host(name))
    return fail(parser, "not a host name: '%.60s'", name);
  size_t count = placement->host_count;
  placement->hosts = tps_grow(placement->hosts, count, sizeof *placement->hosts);
  struct tps_host *host = &placement->hosts[placement->host_count++];
  *host = (struct tps_host){.name = name};
  return read_device_list(parser, host, list);
}

/* "# part: RANKS": the lines are those of one node of a job of so many. */
static bool read_part(struct parser *parser, const char *value) {
  unsigned long ranks;
  if (!read_number(parser, value, "part", MAX_NUMBER, &ranks))
    return false;
  parser->is_part = true;
  parser->placement->ranks = ranks;
  return true;
}

static bool read_metadata(struct parser *parser, char *line) {
  char *colon = strchr(line, ':');
  if (colon == NULL)
    return true; /* a remark */
  *colon = '\0';
  char *key = tps_trim(line + 1);
  char *value = tps_trim(colon + 1);
  if (strcmp(key, "vendor") == 0)
    return read_vendor(parser, value);
  if (strncmp(key, "devices ", 8) == 0)
    return read_devices(parser, tps_trim(key + 8), value);
  if (strcmp(key, "costs") == 0)
    parser->placement->costs = value;
  if (strcmp(key, "part") == 0)
    return read_part(parser, value);
  return true;
}

/* ---- the table ---- */

/* Splits at tabs; the number of cells, which may be more than COLUMNS. */
static size_t split(char *line, char *cells[COLUMNS]) {
  size_t count = 0;
  for (char *cell = line; cell != NULL; count++) {
    char *tab = strchr(cell, '\t');
    if (tab != NULL)
      *tab = '\0';
    if (count < COLUMNS)
      cells[count] = tps_trim(cell);
    cell = tab == NULL ? NULL : tab + 1;
  }
  return count;
}

static bool check_columns(struct parser *parser, char *line) {
  char *cells[COLUMNS];
  size_t count = split(line, cells);
  for (size_t i = 0; i < COLUMNS; i++)
    if (count != COLUMNS || strcmp(cells[i], COLUMN_NAMES[i]) != 0)
      return fail(parser, "expected the column names, found '%.40s'", line);
  parser->has_columns = true;
  return true;
}

static bool read_cpus(struct parser *parser, char *text, const char **cpus) {
  *cpus = NULL;
  if (is_missing(text))
    return true;
  if (!tps_cpus_parse(NULL, text))
    return fail(parser, "not a CPU list: '%.60s'", text);
  *cpus = text;
  return true;
}

static bool read_memory_node(struct parser *parser, const char *text, long *node) {
  *node = -1;
  if (is_missing(text))
    return true;
  unsigned long number;
  if (!read_number(parser, text, "memnode", MAX_NODES - 1, &number))
    return false;
  *node = (long)number;
  return true;
}

static bool check_rank(struct parser *parser, unsigned long rank) {
  const struct tps_placement *placement = parser->placement;
  size_t count = placement->seat_count;
  if (!parser->is_part)
    return rank == count ||
           fail(parser, "expected the line of rank %zu, found rank %lu", count, rank);
  bool rises = count == 0 || rank > placement->seats[count - 1].rank;
  return (rises && rank < placement->ranks) ||
         fail(parser, "rank %lu is not one of the next", rank);
}

static bool read_seat(struct parser *parser, char *line) {
  struct tps_placement *placement = parser->placement;
  char *cells[COLUMNS];
  size_t count = split(line, cells);
  if (count != COLUMNS)
    return fail(parser, "expected %d tab-separated columns, found %zu", COLUMNS, count);
  unsigned long rank;
  if (!read_number(parser, cells[0], "rank", MAX_NUMBER, &rank))
    return false;
  if (!check_rank(parser, rank))
    return false;
  if (!is_host(cells[1]))
    return fail(parser, "host is missing or wrong: '%.60s'", cells[1]);
  struct tps_seat seat = {.rank = rank, .host = cells[1]};
  if (!read_number(parser, cells[2], "local_rank", MAX_NUMBER, &seat.local_rank) ||
      !read_pci(parser, cells[3], &seat.device.pci) ||
      !read_uuid(parser, cells[4], &seat.device.uuid) ||
      !read_number(parser, cells[5], "index", MAX_NUMBER, &seat.device.index) ||
      !read_cpus(parser, cells[6], &seat.cpus) ||
      !read_memory_node(parser, cells[7], &seat.memory_node) ||
      !read_word(parser, cells[8], "nic", "_.:-", 64, &seat.nic))
    return false;
  placement->seats = tps_grow(placement->seats, placement->seat_count, sizeof *placement->seats);
  placement->seats[placement->seat_count++] = seat;
  return true;
}

static bool read_line(struct parser *parser, char *line) {
  size_t length = strlen(line);
  if (length > 0 && line[length - 1] == '\r')
    line[length - 1] = '\0';
  if (parser->line == 1) {
    if (strcmp(line, SCHEMA_LINE) != 0)
      return fail(parser, "expected '%s', found '%.40s'", SCHEMA_LINE, line);
    return true;
  }
  if (*line == '#')
    return read_metadata(parser, line);
  if (line[strspn(line, " \t")] == '\0')
    return true;
  return parser->has_columns ? read_seat(parser, line) : check_columns(parser, line);
}

static bool parse(struct parser *parser, size_t length) {
  char *line = parser->placement->buffer;
  if (memchr(line, '\0', length) != NULL) {
    parser->line = 1;
    return fail(parser, "not a text file (it holds a zero byte)");
  }
  while (line != NULL) {
    char *end = strchr(line, '\n');
    if (end != NULL)
      *end = '\0';
    parser->line++;
    if (!read_line(parser, line))
      return false;
    line = end == NULL ? NULL : end + 1;
  }
  if (parser->is_part)
    return true;
  parser->placement->ranks = parser->placement->seat_count;
  return parser->placement->ranks > 0 || fail(parser, "no ranks: the file is truncated");
}

bool tps_placement_load(struct tps_placement *placement, const char *path, char *error,
                        size_t error_size) {
  *placement = (struct tps_placement){0};
  size_t length = 0;
  char *text = tps_placement_text(path, &length, error, error_size);
  return text != NULL && tps_placement_read(placement, text, length, path, error, error_size);
}

bool tps_placement_read(struct tps_placement *placement, char *text, size_t length,
                        const char *name, char *error, size_t error_size) {
  *placement = (struct tps_placement){.buffer = text};
  struct parser parser = {
      .placement = placement, .path = name, .error = error, .error_size = error_size};
  if (parse(&parser, length))
    return true;
  tps_placement_free(placement);
  return false;
}

void tps_placement_free(struct tps_placement *placement) {
  for (size_t i = 0; i < placement->host_count; i++)
    free(placement->hosts[i].devices);
  free(placement->hosts);
  free(placement->seats);
  free(placement->buffer);
  *placement = (struct tps_placement){0};
}

/* ---- questions ---- */

const struct tps_seat *tps_placement_seat_of(const struct tps_placement *placement, long rank) {
  size_t low = 0, high = placement->seat_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const struct tps_seat *seat = &placement->seats[middle];
    if ((long)seat->rank == rank)
      return seat;
    if ((long)seat->rank < rank)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

const struct tps_seat *tps_placement_find_local(const struct tps_placement *placement,
                                                const char *host, unsigned long local_rank) {
  for (size_t i = 0; i < placement->seat_count; i++) {
    const struct tps_seat *seat = &placement->seats[i];
    if (seat->local_rank == local_rank && strcmp(seat->host, host) == 0)
      return seat;
  }
  return NULL;
}

size_t tps_placement_count_on(const struct tps_placement *placement, const char *host) {
  size_t count = 0;
  for (size_t i = 0; i < placement->seat_count; i++)
    count += strcmp(placement->seats[i].host, host) == 0;
  return count;
}

static int compare_index(const void *first, const void *second) {
  const struct tps_device *a = first, *b = second;
  return (a->index > b->index) - (a->index < b->index);
}

static const struct tps_host *find_host(const struct tps_placement *placement, const char *name) {
  for (size_t i = 0; i < placement->host_count; i++)
    if (strcmp(placement->hosts[i].name, name) == 0 && placement->hosts[i].device_count > 0)
      return &placement->hosts[i];
  return NULL;
}

struct tps_device *tps_placement_devices_on(const struct tps_placement *placement, const char *host,
                                            size_t *count) {
  const struct tps_host *listed = find_host(placement, host);
  if (listed == NULL)
    listed = find_host(placement, "*");
  struct tps_device *devices;
  if (listed != NULL) {
    *count = listed->device_count;
    devices = tps_allocate(*count, sizeof *devices);
    memcpy(devices, listed->devices, *count * sizeof *devices);
  } else {
    devices = tps_allocate(tps_placement_count_on(placement, host), sizeof *devices);
    *count = 0;
    for (size_t i = 0; i < placement->seat_count; i++)
      if (strcmp(placement->seats[i].host, host) == 0)
        devices[(*count)++] = placement->seats[i].device;
  }
  qsort(devices, *count, sizeof *devices, compare_index);
  return devices;
}
