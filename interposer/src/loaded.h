/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Libraries of this process, in the global scope or not. */
#ifndef TOPOSEAT_LOADED_H
#define TOPOSEAT_LOADED_H

#include <stdbool.h>

/* A handle of the first loaded library with such a name and symbol, or NULL. `prefixes` of file
 * names, NULL at the end. Finds libraries outside of the global scope. */
void *tps__library_with(const char *const *prefixes, const char *symbol);
/* Whether a library is loaded whose file name begins so. */
bool tps__library_is_loaded(const char *prefix);
/* How many libraries this process has ever loaded: cheap, unlike looking for one. */
unsigned long long tps__libraries_loaded(void);

#endif
