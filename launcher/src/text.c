/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say_so_and_stop(void) {
  static const char message[] = "toposeat-exec: error: out of memory\n";
  ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
  (void)written;
  _exit(1);
}

void (*tps_out_of_memory)(void) = say_so_and_stop;

static void *never_null(void *memory) {
  if (memory == NULL)
    tps_out_of_memory();
  return memory;
}

void *tps_allocate(size_t count, size_t size) {
  return never_null(calloc(count ? count : 1, size ? size : 1));
}

void *tps_grow(void *items, size_t count, size_t size) {
  if ((count & (count - 1)) != 0)
    return items;
  void *grown = tps_allocate(count == 0 ? 1 : count * 2, size);
  if (count > 0)
    memcpy(grown, items, count * size);
  free(items);
  return grown;
}

char *tps_copy_string(const char *value) {
  size_t size = strlen(value) + 1;
  return memcpy(tps_allocate(size, 1), value, size);
}

void tps_text_init(struct tps_text *text) {
  text->capacity = 64;
  text->length = 0;
  text->data = tps_allocate(text->capacity, 1);
}

void tps_text_free(struct tps_text *text) {
  free(text->data);
  text->data = NULL;
  text->length = text->capacity = 0;
}

static void reserve(struct tps_text *text, size_t extra) {
  size_t needed = text->length + extra + 1;
  if (needed <= text->capacity)
    return;
  while (text->capacity < needed)
    text->capacity *= 2;
  text->data = never_null(realloc(text->data, text->capacity));
}

void tps_text_add(struct tps_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length > 0) {
    reserve(text, (size_t)length);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
}

/* Length of the UTF-8 character of two bytes or more that `text` begins with; 0: none, or one of
   the control characters U+0080 to U+009F, which steer a terminal as well. */
static int wide_length(const unsigned char *text) {
  int length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
  if (text[0] < 0xc2 || text[0] > 0xf4 || (text[0] == 0xc2 && text[1] < 0xa0))
    return 0;
  for (int i = 1; i < length; i++)
    if ((text[i] & 0xc0) != 0x80)
      return 0;
  return length;
}

void tps_text_add_escaped(struct tps_text *text, const char *value) {
  const unsigned char *at = (const unsigned char *)value;
  while (*at) {
    int length = *at >= 0x20 && *at < 0x7f ? 1 : wide_length(at);
    if (*at == '\\')
      tps_text_add(text, "\\\\");
    else if (length == 0)
      tps_text_add(text, "\\x%02x", *at);
    else
      tps_text_add(text, "%.*s", length, (const char *)at);
    at += length == 0 ? 1 : length;
  }
}

bool tps_parse_number(const char *text, unsigned long limit, unsigned long *number) {
  if (text == NULL || *text == '\0')
    return false;
  unsigned long value = 0;
  for (const char *at = text; *at; at++) {
    if (*at < '0' || *at > '9')
      return false;
    unsigned long digit = (unsigned long)(*at - '0');
    if (value > limit / 10 || value * 10 > limit - digit)
      return false;
    value = value * 10 + digit;
  }
  *number = value;
  return true;
}

const char *tps_getenv(const char *name) {
  const char *value = getenv(name);
  return value != NULL && *value != '\0' ? value : NULL;
}

char *tps_trim(char *text) {
  while (*text == ' ' || *text == '\t')
    text++;
  size_t length = strlen(text);
  while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
    text[--length] = '\0';
  return text;
}
