/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Libraries the dynamic loader is to load first. */
#ifndef TOPOSEAT_LAUNCHER_PRELOAD_H
#define TOPOSEAT_LAUNCHER_PRELOAD_H

#include "environment.h"
#include "message.h"

/* Puts `library` in front of LD_PRELOAD; warns and does nothing where that cannot work. How many it
   has added: one or none. */
size_t tps_preload_add(struct tps_environment *environment, const char *library,
                       struct tps_messages *messages);

/* Where `program` is an `env` that sets LD_PRELOAD anew, it sets the first `count` of what this
   process has there in front of it as well. */
void tps_preload_chain(char **program, size_t count);

/* Path of the rank probe that belongs to this program, NULL if it is not there.
   The caller frees it. */
char *tps_preload_find_probe(void);

#endif
