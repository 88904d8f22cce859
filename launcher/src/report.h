/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A rank's own account of what it got: lines "key<TAB>value" in a file of its own. */
#ifndef TOPOSEAT_LAUNCHER_REPORT_H
#define TOPOSEAT_LAUNCHER_REPORT_H

#include "text.h"

struct tps_report {
  struct tps_text text;
};

/* `schema` is the first line: "# toposeat/report/1". */
void tps_report_init(struct tps_report *report, const char *schema);
void tps_report_free(struct tps_report *report);
void tps_report_add(struct tps_report *report, const char *key, const char *value);
void tps_report_add_number(struct tps_report *report, const char *key, long value);

/* Adds what this process has now: pid, host, cpus, memory_policy. */
void tps_report_add_process(struct tps_report *report);

/* Writes folder/name, whole or not at all; false with errno. */
bool tps_report_write(const struct tps_report *report, const char *folder, const char *name);

#endif
