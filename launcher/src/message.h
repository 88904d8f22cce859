/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the launcher tells the user: on stderr, one line each, and kept for the rank's report. */
#ifndef TOPOSEAT_LAUNCHER_MESSAGE_H
#define TOPOSEAT_LAUNCHER_MESSAGE_H

#include "text.h"

struct tps_messages {
  const char *speaker;   /* in front of every line: "toposeat-exec" */
  char rank[32];         /* "rank 3: ", or empty while the rank is not known */
  bool speaks;           /* prints notices: one rank of each node does */
  bool silent;           /* prints nothing but errors: home says it once for the job */
  size_t warnings;       /* --strict stops the program if there are any; refusals count */
  size_t refusals;       /* the rank cannot be seated as placed */
  struct tps_text lines; /* so far, one per line: "refusal", "warning", "left_out_" and
                            what, or "note"; a tab, the text */
};

void tps_messages_init(struct tps_messages *messages);

/* Something is not as it was asked for. Printed by every rank concerned. */
void tps_warn(struct tps_messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The rank cannot be seated as placed. `instead`, or NULL, is what happens where nobody stops the
   job for it: it is printed behind the cause, and not kept. */
void tps_refuse(struct tps_messages *messages, const char *instead, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Part of the seat is not here, and the rank goes without it: `what` is "cpus", "memory", "nic" or
   "peers" (the other devices of the list).
   Printed and counted as a warning. */
void tps_leave_out(struct tps_messages *messages, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints what was kept while they were silent, as if it had not been. */
void tps_messages_speak(struct tps_messages *messages);

/* Worth knowing and the same for all ranks of a node: printed by one of them. */
void tps_note(struct tps_messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An error line, not kept. */
void tps_error(const struct tps_messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
