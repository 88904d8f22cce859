/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tps_messages_init(struct tps_messages *messages) {
  messages->speaker = "toposeat-exec";
  messages->rank[0] = '\0';
  messages->speaks = true;
  messages->silent = false;
  messages->warnings = messages->refusals = 0;
  tps_text_init(&messages->lines);
}

/* One write per line, so that lines of many ranks do not mix. Control characters of a hostile file
   do not reach the terminal. */
static void print(const struct tps_messages *messages, const char *level, const char *message) {
  struct tps_text line;
  tps_text_init(&line);
  tps_text_add(&line, "%s: %s: %s", messages->speaker, level, messages->rank);
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

/* Kept for the report under one name, and said under another unless `says` is false; `instead` is
   only said. */
static void tell(struct tps_messages *messages, const char *kept, const char *level, bool says,
                 const char *instead, const char *format, va_list arguments) {
  char message[MESSAGE_SIZE];
  vsnprintf(message, sizeof message, format, arguments);
  keep(messages, kept, message);
  if (!says)
    return;
  struct tps_text line;
  tps_text_init(&line);
  tps_text_add(&line, "%s%s", message, instead == NULL ? "" : instead);
  print(messages, level, line.data);
  tps_text_free(&line);
}

void tps_warn(struct tps_messages *messages, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  messages->warnings++;
  tell(messages, "warning", "warning", !messages->silent, NULL, format, arguments);
  va_end(arguments);
}

void tps_refuse(struct tps_messages *messages, const char *instead, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  messages->warnings++;
  messages->refusals++;
  tell(messages, "refusal", "warning", !messages->silent, instead, format, arguments);
  va_end(arguments);
}

void tps_leave_out(struct tps_messages *messages, const char *what, const char *format, ...) {
  char kept[32];
  va_list arguments;
  va_start(arguments, format);
  messages->warnings++;
  snprintf(kept, sizeof kept, "left_out_%s", what);
  tell(messages, kept, "warning", !messages->silent, NULL, format, arguments);
  va_end(arguments);
}

void tps_messages_speak(struct tps_messages *messages) {
  messages->silent = false;
  char *copy = tps_copy_string(messages->lines.data);
  for (char *line = copy, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = '\0';
    char *text = strchr(line, '\t');
    if (text == NULL)
      continue;
    *text++ = '\0';
    if (strcmp(line, "note") != 0)
      print(messages, "warning", text);
    else if (messages->speaks)
      print(messages, "note", text);
  }
  free(copy);
}

void tps_note(struct tps_messages *messages, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tell(messages, "note", "note", messages->speaks && !messages->silent, NULL, format, arguments);
  va_end(arguments);
}

void tps_error(const struct tps_messages *messages, const char *format, ...) {
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  print(messages, "error", message);
}
