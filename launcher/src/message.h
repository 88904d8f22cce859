/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the launcher tells the user: on stderr, one line each, and kept for the rank's report. */
#ifndef TOPOSEAT_LAUNCHER_MESSAGE_H
#define TOPOSEAT_LAUNCHER_MESSAGE_H

#include "text.h"

struct tps_messages {
  char rank[32];         /* "rank 3: ", or empty while the rank is not known */
  bool speaks;           /* prints notices: one rank of each node does */
  size_t warnings;       /* --strict stops the program if there are any */
  struct tps_text lines; /* so far, one per line: "warning<TAB>..." or "note<TAB>..." */
};

void tps_messages_init(struct tps_messages *messages);

/* Something is not as it was asked for. Printed by every rank concerned. */
void tps_warn(struct tps_messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Worth knowing and the same for all ranks of a node: printed by one of them. */
void tps_note(struct tps_messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An error line, not kept. */
void tps_error(const struct tps_messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
