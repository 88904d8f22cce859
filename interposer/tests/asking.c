/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library whose lookups depend on who makes them: both names are in its own scope alone. */
#include <dlfcn.h>
#include <stddef.h>

int asked_for(void);
void *ask_default(void);
void *ask_next(void);

int asked_for(void) { return 1; }

void *ask_default(void) {
  void *found = dlsym(RTLD_DEFAULT, "asked_for");
  return found; /* not a jump: the caller must be this function */
}

void *ask_next(void) {
  void *found = dlsym(RTLD_NEXT, "asked_for");
  return found;
}
