/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The messages that made an object, kept to make it again; sending is locked. */
#ifndef TOPOSEAT_VIRTUAL_LOG_H
#define TOPOSEAT_VIRTUAL_LOG_H

#include "object.h"

struct tps_entry {
  struct tps_entry *next;
  struct tps_object *object;
  uint64_t number;    /* in the order of the wire, whichever thread sent it */
  uint32_t call, key; /* a later one of both replaces it */
  bool is_there;      /* in the new home */
  size_t length;
  unsigned char words[];
};
void tps__list(struct tps_object *object);
void tps__unlist(struct tps_object *object); /* and forget how it was made */
/* Keeps the message that is being written. */
void tps__log(void *object, uint32_t key);

#endif
