/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tps_messages_init(struct tps_messages *messages) {
  *messages = (struct tps_messages){.speaker = "toposeat-exec", .speaks = true};
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

static void keep(struct tps_messages *messages, const char *name, const char *message) {
  tps_text_add(&messages->lines, "%s\t", name);
  tps_text_add_escaped(&messages->lines, message);
  tps_text_add(&messages->lines, "\n");
}

enum { MESSAGE_SIZE = 1024 };

/* Kept for the report under one name, and said under another. */
static void tell(struct tps_messages *messages, const char *name, const char *level,
                 const char *instead, const char *format, va_list arguments) {
  char message[MESSAGE_SIZE];
  vsnprintf(message, sizeof message, format, arguments);
  keep(messages, name, message);
  size_t count = messages->waiting_count++;
  messages->waiting = tps_grow(messages->waiting, count, sizeof *messages->waiting);
  messages->waiting[count] =
      (struct tps_line){.level = level, .instead = instead, .text = tps_copy_string(message)};
}

void tps_warn(struct tps_messages *messages, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  messages->warnings++;
  tell(messages, "warning", "warning", NULL, format, arguments);
  va_end(arguments);
}

void tps_refuse(struct tps_messages *messages, const char *instead, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  messages->warnings++;
  messages->refusals++;
  tell(messages, "refusal", "warning", instead, format, arguments);
  va_end(arguments);
}

void tps_leave_out(struct tps_messages *messages, const char *what, const char *format, ...) {
  char name[32];
  va_list arguments;
  va_start(arguments, format);
  messages->warnings++;
  snprintf(name, sizeof name, "left_out_%s", what);
  tell(messages, name, "warning", NULL, format, arguments);
  va_end(arguments);
}

void tps_note(struct tps_messages *messages, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tell(messages, "note", "note", NULL, format, arguments);
  va_end(arguments);
}

void tps_messages_say(struct tps_messages *messages, bool is_started) {
  for (size_t i = 0; i < messages->waiting_count; i++) {
    struct tps_line *line = &messages->waiting[i];
    bool is_mine = messages->speaks || strcmp(line->level, "note") != 0;
    if (is_mine && !messages->silent) {
      struct tps_text text;
      tps_text_init(&text);
      const char *instead = is_started && line->instead != NULL ? line->instead : "";
      tps_text_add(&text, "%s%s", line->text, instead);
      print(messages, line->level, text.data);
      tps_text_free(&text);
    }
    free(line->text);
  }
  free(messages->waiting);
  messages->waiting = NULL;
  messages->waiting_count = 0;
}

void tps_error(const struct tps_messages *messages, const char *format, ...) {
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  print(messages, "error", message);
}
