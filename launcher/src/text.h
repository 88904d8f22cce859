/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Growable strings and strict number parsing. */
#ifndef TOPOSEAT_LAUNCHER_TEXT_H
#define TOPOSEAT_LAUNCHER_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A growing string; `data` is never NULL after tps_text_init. */
struct tps_text {
  char *data;
  size_t length;
  size_t capacity;
};

void tps_text_init(struct tps_text *text);
void tps_text_free(struct tps_text *text);
void tps_text_add(struct tps_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds `value` with control characters and backslashes escaped, so that it stays on one line. */
void tps_text_add_escaped(struct tps_text *text, const char *value);

/* Called when there is no memory; must not return. At first it says so and ends the process, for a
   launcher that cannot get a few bytes has nothing better to do. */
extern void (*tps_out_of_memory)(void);

/* Memory that is never NULL. */
void *tps_allocate(size_t count, size_t size);
/* Room for one more behind `count` items: they are moved where their number is a power of two. */
void *tps_grow(void *items, size_t count, size_t size);
char *tps_copy_string(const char *value);

/* Cuts blanks and tabs off both ends, in place; returns where the rest begins. */
char *tps_trim(char *text);

/* Reads a whole string of ASCII digits not larger than `limit`. */
bool tps_parse_number(const char *text, unsigned long limit, unsigned long *number);

/* Whether a variable is set and not empty; its value or NULL. */
const char *tps_getenv(const char *name);

#endif
