/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "log.h"

#include <stdlib.h>
#include <string.h>

void tps__list(struct tps_object *object) {
  struct tps_link *link = object->link;
  if (object->is_listed)
    return;
  object->is_listed = true;
  object->older = link->newest;
  if (link->newest != NULL)
    link->newest->newer = object;
  else
    link->oldest = object;
  link->newest = object;
}

void tps__unlist(struct tps_object *object) {
  struct tps_link *link = object->link;
  if (!object->is_listed)
    return;
  object->is_listed = false;
  *(object->older != NULL ? &object->older->newer : &link->oldest) = object->newer;
  *(object->newer != NULL ? &object->newer->older : &link->newest) = object->older;
  while (object->entries != NULL) {
    struct tps_entry *entry = object->entries;
    object->entries = entry->next;
    free(entry);
  }
}

void tps__log(void *argument, uint32_t key) {
  struct tps_object *object = argument;
  const struct tps_text *batch = &object->link->batch;
  const unsigned char *message = batch->data + object->link->head;
  struct tps_head head;
  memcpy(&head, message, sizeof head);
  size_t length = batch->length - object->link->head - sizeof head;
  tps__list(object);
  struct tps_entry **at = &object->entries, *old = NULL;
  while (*at != NULL)
    if ((*at)->call == head.call && (*at)->key == key) {
      old = *at;
      *at = old->next;
    } else {
      at = &(*at)->next;
    }
  struct tps_entry *entry = old != NULL && old->length == length ? old : NULL;
  if (entry == NULL) {
    free(old);
    entry = malloc(sizeof *entry + length);
    if (entry == NULL)
      abort();
  }
  *entry = (struct tps_entry){.object = object,
                              .number = ++object->link->entries,
                              .call = head.call,
                              .key = key,
                              .length = length};
  memcpy(entry->words, message + sizeof head, length);
  *at = entry;
}
