/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "environment.h"

#include <stdlib.h>
#include <string.h>

static struct tps_variable *find(const struct tps_environment *environment, const char *name) {
  for (size_t i = 0; i < environment->count; i++)
    if (strcmp(environment->changes[i].name, name) == 0)
      return &environment->changes[i];
  return NULL;
}

static void change(struct tps_environment *environment, const char *name, const char *value) {
  struct tps_variable *variable = find(environment, name);
  if (variable == NULL) {
    environment->changes =
        tps_grow(environment->changes, environment->count, sizeof *environment->changes);
    variable = &environment->changes[environment->count++];
    variable->name = tps_copy_string(name);
  } else {
    free(variable->value);
  }
  variable->value = value == NULL ? NULL : tps_copy_string(value);
}

void tps_environment_set(struct tps_environment *environment, const char *name, const char *value) {
  change(environment, name, value);
}

void tps_environment_unset(struct tps_environment *environment, const char *name) {
  if (find(environment, name) != NULL || getenv(name) != NULL)
    change(environment, name, NULL);
}

const char *tps_environment_get(const struct tps_environment *environment, const char *name) {
  const struct tps_variable *variable = find(environment, name);
  return variable != NULL ? variable->value : getenv(name);
}

void tps_environment_apply(const struct tps_environment *environment) {
  for (size_t i = 0; i < environment->count; i++) {
    const struct tps_variable *variable = &environment->changes[i];
    if (variable->value != NULL)
      setenv(variable->name, variable->value, 1);
    else
      unsetenv(variable->name);
  }
}
