/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Symbols of libraries that were loaded outside of the global scope. The paths are collected first:
 * the loader holds a lock while it lists libraries, and opening one then would wait for ever for
 * another thread that is just opening one.
 */
#include "loaded.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <string.h>

#define MAX_LIBRARIES 8

struct listing {
  const char *const *prefixes;
  int count;
  char paths[MAX_LIBRARIES][PATH_MAX];
};

static bool is_wanted(const struct listing *listing, const char *path) {
  const char *slash = strrchr(path, '/');
  const char *base = slash != NULL ? slash + 1 : path;
  for (const char *const *prefix = listing->prefixes; *prefix != NULL; ++prefix)
    if (strncmp(base, *prefix, strlen(*prefix)) == 0)
      return true;
  return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *argument) {
  struct listing *listing = argument;
  (void)size;
  size_t length = info->dlpi_name != NULL ? strlen(info->dlpi_name) : PATH_MAX;
  if (length >= PATH_MAX || !is_wanted(listing, info->dlpi_name))
    return 0;
  memcpy(listing->paths[listing->count], info->dlpi_name, length + 1);
  listing->count += 1;
  return listing->count == MAX_LIBRARIES;
}

void *tps__library_with(const char *const *prefixes, const char *symbol) {
  struct listing listing = {.prefixes = prefixes};
  dl_iterate_phdr(visit, &listing);
  for (int i = 0; i < listing.count; ++i) {
    void *library = dlopen(listing.paths[i], RTLD_NOLOAD | RTLD_LAZY);
    if (library != NULL && dlsym(library, symbol) != NULL)
      return library; /* kept open on purpose: it stays loaded anyway */
    if (library != NULL)
      dlclose(library);
  }
  return NULL;
}

bool tps__library_is_loaded(const char *prefix) {
  const char *const prefixes[] = {prefix, NULL};
  struct listing listing = {.prefixes = prefixes};
  dl_iterate_phdr(visit, &listing);
  return listing.count > 0;
}

static int note_count(struct dl_phdr_info *info, size_t size, void *argument) {
  (void)size;
  *(unsigned long long *)argument = info->dlpi_adds;
  return 1;
}

unsigned long long tps__libraries_loaded(void) {
  unsigned long long count = 0;
  dl_iterate_phdr(note_count, &count);
  return count;
}
