/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Changes to the environment, collected first and applied last: a launcher that gives up half-way
   leaves the environment as it was, and --dry-run can show them. */
#ifndef TOPOSEAT_LAUNCHER_ENVIRONMENT_H
#define TOPOSEAT_LAUNCHER_ENVIRONMENT_H

#include "text.h"

struct tps_variable {
  char *name;
  char *value; /* NULL: is to be unset */
};

struct tps_environment {
  struct tps_variable *changes;
  size_t count;
};

void tps_environment_set(struct tps_environment *environment, const char *name, const char *value);

/* Does nothing where the variable is not set. */
void tps_environment_unset(struct tps_environment *environment, const char *name);

/* The value the program will see, NULL if none. */
const char *tps_environment_get(const struct tps_environment *environment, const char *name);

void tps_environment_apply(const struct tps_environment *environment);

#endif
