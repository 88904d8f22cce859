/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "report.h"

#include "cpu_list.h"
#include "memory_policy.h"
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

void tps_report_init(struct tps_report *report, const char *schema) {
  tps_text_init(&report->text);
  tps_text_add(&report->text, "%s\n", schema);
}

void tps_report_free(struct tps_report *report) { tps_text_free(&report->text); }

void tps_report_add(struct tps_report *report, const char *key, const char *value) {
  tps_text_add(&report->text, "%s\t", key);
  tps_text_add_escaped(&report->text, value);
  tps_text_add(&report->text, "\n");
}

void tps_report_add_number(struct tps_report *report, const char *key, long value) {
  tps_text_add(&report->text, "%s\t%ld\n", key, value);
}

void tps_report_add_process(struct tps_report *report) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) == 0)
    tps_report_add(report, "host", host);
  tps_report_add_number(report, "pid", (long)getpid());
  struct tps_text value;
  tps_text_init(&value);
  struct tps_cpus cpus;
  if (tps_cpus_read_affinity(&cpus)) {
    tps_cpus_format(&cpus, &value);
    tps_report_add(report, "cpus", value.data);
  }
  tps_text_free(&value);
  tps_text_init(&value);
  if (tps_memory_policy_read(&value))
    tps_report_add(report, "memory_policy", value.data);
  tps_text_free(&value);
}

static bool write_all(int file, const char *data, size_t length) {
  while (length > 0) {
    ssize_t written = write(file, data, length);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return false;
    data += written;
    length -= (size_t)written;
  }
  return true;
}

/* A write beyond RLIMIT_FSIZE would raise SIGXFSZ, which ends the rank. */
static bool is_file_size_allowed(size_t length) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      length <= limit.rlim_cur)
    return true;
  errno = EFBIG;
  return false;
}

/* No fsync: the reader is the parent of this very run, not a machine after a power failure. */
bool tps_report_write(const struct tps_report *report, const char *folder, const char *name) {
  if (!is_file_size_allowed(report->text.length))
    return false;
  struct tps_text temporary, path;
  tps_text_init(&temporary);
  tps_text_init(&path);
  tps_text_add(&temporary, "%s/.%s.%ld", folder, name, (long)getpid());
  tps_text_add(&path, "%s/%s", folder, name);
  int file = tps_make_mark(AT_FDCWD, temporary.data);
  bool written = file >= 0 && write_all(file, report->text.data, report->text.length);
  if (file >= 0)
    written = close(file) == 0 && written;
  written = written && rename(temporary.data, path.data) == 0;
  if (file >= 0 && !written) {
    int cause = errno;
    unlink(temporary.data);
    errno = cause;
  }
  tps_text_free(&temporary);
  tps_text_free(&path);
  return written;
}
