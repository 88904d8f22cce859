/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the launcher tells the user: on stderr, one line each, and kept for the rank's report. What
   becomes of the rank is decided after most of it is known, so lines wait for `tps_messages_say`.
 */
#ifndef TOPOSEAT_LAUNCHER_MESSAGE_H
#define TOPOSEAT_LAUNCHER_MESSAGE_H

#include "text.h"

struct tps_line {
  const char *level;   /* "warning" or "note" */
  const char *instead; /* NULL, or what happens where the rank is started in spite of this */
  char *text;
};

struct tps_messages {
  const char *speaker;   /* in front of every line: "toposeat-exec" */
  char rank[32];         /* "rank 3: ", or empty while the rank is not known */
  bool speaks;           /* prints notes: one rank of each node does */
  bool silent;           /* prints nothing but errors: somebody else says it */
  size_t warnings;       /* --strict stops the program if there are any; refusals count */
  size_t refusals;       /* the rank cannot be seated as placed */
  struct tps_text lines; /* for the report, one per line: "refusal", "warning", "left_out_" and
                            what, or "note"; a tab, the text */
  struct tps_line *waiting;
  size_t waiting_count;
};

void tps_messages_init(struct tps_messages *messages);

/* Something is not as it was asked for. Said by every rank concerned. */
void tps_warn(struct tps_messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The rank cannot be seated as placed. `instead`, or NULL, is said behind the cause where the rank
   is started all the same; it stays valid. */
void tps_refuse(struct tps_messages *messages, const char *instead, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Part of the seat is not here, and the rank goes without it: `what` is "cpus", "memory", "nic" or
   "peers" (the other devices of the list). Said and counted as a warning. */
void tps_leave_out(struct tps_messages *messages, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Worth knowing and the same for all ranks of a node: said by one of them. */
void tps_note(struct tps_messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints what has waited, once it is decided whether the rank is started; nothing while silent. */
void tps_messages_say(struct tps_messages *messages, bool is_started);

/* An error line, at once; not kept. */
void tps_error(const struct tps_messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
