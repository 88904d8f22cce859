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

void tps_warn(struct tps_messages *messages, const char *format, ...) {
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  messages->warnings++;
  keep(messages, "warning", message);
  if (!messages->silent)
    print(messages, "warning", message);
}

void tps_refuse(struct tps_messages *messages, const char *instead, const char *format, ...) {
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  messages->warnings++;
  messages->refusals++;
  keep(messages, "refusal", message);
  if (messages->silent)
    return;
  struct tps_text line;
  tps_text_init(&line);
  tps_text_add(&line, "%s%s", message, instead == NULL ? "" : instead);
  print(messages, "warning", line.data);
  tps_text_free(&line);
}

void tps_leave_out(struct tps_messages *messages, const char *what, const char *format, ...) {
  char message[MESSAGE_SIZE], level[32];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  messages->warnings++;
  snprintf(level, sizeof level, "left_out_%s", what);
  keep(messages, level, message);
  if (!messages->silent)
    print(messages, "warning", message);
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
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  keep(messages, "note", message);
  if (messages->speaks && !messages->silent)
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
