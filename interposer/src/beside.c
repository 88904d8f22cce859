/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "beside.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "libtoposeat_"
#define MOST_TOOLS 32
#define LONGEST_NAME 128

_Thread_local int tps__tools;

void tps__no_tool(void) {}

/* The address of the object, NULL where none holds `address`. */
static const void *object_of(const void *address, Dl_info *info) {
  return address != NULL && dladdr(address, info) != 0 && info->dli_fname != NULL ? info->dli_fbase
                                                                                  : NULL;
}

static void *opened(const Dl_info *object) {
  return dlopen(object->dli_fname, RTLD_NOLOAD | RTLD_LAZY);
}

/* `toposeat_behind` of the library of ours that holds an address; NULL: none of ours does. */
static void *behind_of(const void *address) {
  Dl_info object;
  Dl_info own;
  if (object_of(address, &object) == NULL)
    return NULL;
  const char *slash = strrchr(object.dli_fname, '/');
  if (strncmp(slash != NULL ? slash + 1 : object.dli_fname, PREFIX, sizeof PREFIX - 1) != 0)
    return NULL;
  void *library = opened(&object);
  void *behind = library != NULL ? dlsym(library, "toposeat_behind") : NULL;
  return object_of(behind, &own) == object.dli_fbase ? behind : NULL;
}

void *toposeat_behind(const char *name) {
  void *(*ask)(const char *);
  void *found = dlsym(RTLD_NEXT, name);
  void *behind = behind_of(found);
  if (behind == NULL)
    return found;
  memcpy((void *)&ask, (const void *)&behind, sizeof ask);
  return ask(name);
}

bool tps__is_ours(const void *address) { return behind_of(address) != NULL; }

/* What an MPI that was loaded privately has is found from the module that calls it. */
static bool find_privately(const char *name, const char *profiled, const void *caller, void **found,
                           void **own) {
  Dl_info object;
  void *library = object_of(caller, &object) != NULL ? opened(&object) : NULL;
  if (library == NULL)
    return false;
  *found = dlsym(library, name);
  *own = dlsym(library, profiled);
  return *own != NULL && !tps__is_ours(*own) && !tps__is_ours(*found);
}

/* Where a tool is between, the next MPI_X: others of ours in front of the tool act on it as well. */
static void *find_tool(const char *name, const void *caller) {
  char profiled[LONGEST_NAME];
  Dl_info tool;
  Dl_info mpi;
  int length = snprintf(profiled, sizeof profiled, "P%s", name);
  if (length <= 0 || (size_t)length >= sizeof profiled)
    return NULL;
  void *found = toposeat_behind(name);
  void *own = toposeat_behind(profiled);
  void *next = found != NULL ? dlsym(RTLD_NEXT, name) : NULL;
  if (found == NULL && !find_privately(name, profiled, caller, &found, &own))
    return NULL;
  const void *holder = object_of(found, &tool);
  if (holder == NULL || holder == object_of(own, &mpi))
    return NULL;
  return next != NULL ? next : found;
}

tps_function *tps__beside(tps_function **known, const char *name, const void *caller) {
  tps_function *tool = __atomic_load_n(known, __ATOMIC_RELAXED);
  if (tool == NULL) {
    void *found = find_tool(name, caller);
    tool = tps__no_tool;
    if (found != NULL)
      memcpy((void *)&tool, (const void *)&found, sizeof tool);
    __atomic_store_n(known, tool, __ATOMIC_RELAXED);
  }
  return tool == tps__no_tool || tps__tools >= MOST_TOOLS ? NULL : tool;
}
