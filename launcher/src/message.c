/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void tps_messages_init(struct tps_messages *messages) {
  messages->rank[0] = '\0';
  messages->speaks = true;
  messages->warnings = 0;
  tps_text_init(&messages->lines);
}

/* One write per line, so that lines of many ranks do not mix. Control characters of a hostile file
   do not reach the terminal. */
static void print(const struct tps_messages *messages, const char *level, const char *message) {
  struct tps_text line;
  tps_text_init(&line);
  tps_text_add(&line, "toposeat-exec: %s: %s", level, messages->rank);
  tps_text_add_escaped(&line, message);
  tps_text_add(&line, "\n");
  ssize_t written = write(STDERR_FILENO, line.data, line.length);
  (void)written; /* nobody is left to tell */
  tps_text_free(&line);
}

static void keep(struct tps_messages *messages, const char *level, const char *message) {
  tps_text_add(&messages->lines, "%s\t", level);
  tps_text_add_escaped(&messages->lines, message);
  tps_text_add(&messages->lines, "\n");
}

enum { MESSAGE_SIZE = 1024 };

void tps_warn(struct tps_messages *messages, const char *format, ...) {
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  messages->warnings++;
  keep(messages, "warning", message);
  print(messages, "warning", message);
}

void tps_note(struct tps_messages *messages, const char *format, ...) {
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  keep(messages, "note", message);
  if (messages->speaks)
    print(messages, "note", message);
}

void tps_error(const struct tps_messages *messages, const char *format, ...) {
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  print(messages, "error", message);
}
