/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages between a client of a lent device and its proxy as lines of text, so that what damages a
   line damages a message: "CALL TICKET ITEM ITEM ...". A call is its place in the table of calls,
   or the name of one of enum tps_message; an item is

       12, -1   a word              e2     the id of the second command in flight
       "abc     bytes with their number    *12    so many bytes, alone
       =99      what the head says of the length, whatever it is */
#ifndef TOPOSEAT_FRAMES_H
#define TOPOSEAT_FRAMES_H

#include "wire.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RAW = 8192, MOST_SAID = 1 << 18 };

static inline uint64_t frame_number(const char *text) {
  if (*text == 'e') /* as the client makes them: a slot, for the first time */
    return 1ULL << 63 | 1ULL << 24 | (strtoull(text + 1, NULL, 10) & 0xffffff);
  return *text == '-' ? (uint64_t)strtoll(text, NULL, 10) : strtoull(text, NULL, 0);
}

static inline uint32_t frame_call(const char *word) {
  static const struct {
    const char *name;
    uint32_t call;
  } NAMES[] = {{"devices", TPS_DEVICES}, {"ping", TPS_PING},       {"upload", TPS_UPLOAD},
               {"reply", TPS_REPLY},     {"done", TPS_DONE},       {"data", TPS_DATA},
               {"failed", TPS_FAILED},   {"printed", TPS_PRINTED}, {"move", TPS_MOVE},
               {"moved", TPS_MOVED},     {"alias", TPS_ALIAS},     {"offer", TPS_OFFER},
               {"give", TPS_GIVE}};
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
    if (strcmp(word, NAMES[i].name) == 0)
      return NAMES[i].call;
  return (uint32_t)frame_number(word);
}

/* Adds the frame of a line, which is changed. */
static inline void frame_of_line(struct tps_text *out, char *line) {
  char *left = NULL, *word = strtok_r(line, " ", &left);
  struct tps_head head = {0, word == NULL ? 0 : frame_call(word), 0};
  size_t begin = out->length;
  long long told = -1;
  word = strtok_r(NULL, " ", &left);
  head.ticket = word == NULL ? 0 : frame_number(word);
  memcpy(tps_room(out, sizeof head), &head, sizeof head);
  while ((word = strtok_r(NULL, " ", &left)) != NULL && out->length < MOST_SAID) {
    if (*word == '"') {
      tps_put_bytes(out, word + 1, strlen(word + 1));
    } else if (*word == '*') {
      size_t length = (size_t)frame_number(word + 1) % MOST_RAW;
      memset(tps_room(out, length), 'x', length);
    } else if (*word == '=') {
      told = (long long)frame_number(word + 1);
    } else {
      tps_put(out, frame_number(word));
    }
  }
  head.length = (uint32_t)(told >= 0 ? (size_t)told : out->length - begin - sizeof head);
  memcpy(out->data + begin, &head, sizeof head);
}

/* The frames of all lines; how many. */
static inline size_t frames_of_text(struct tps_text *out, char *text) {
  char *left = NULL;
  size_t count = 0;
  for (char *line = strtok_r(text, "\n", &left); line != NULL && out->length < MOST_SAID;
       line = strtok_r(NULL, "\n", &left)) {
    frame_of_line(out, line);
    count++;
  }
  return count;
}

#endif
