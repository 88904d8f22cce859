/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What home, a leader and guests answer to toposeat-exec, to a record on its way home and to ranks
   that are to be reordered. The first line of an input holds who listens and how many guests come;
   then each line is a frame, "KIND NUMBER LENGTH BYTES", with backslashes for line ends; a line
   that begins otherwise:

       -   another connection from here on
       =   a greeting that is right
       !   bytes, as they are */
#include "fuzz.h"

#include "home.h"
#include "meeting.h"
#include "placement.h"
#include "presence.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SAYINGS = 32, ROOM = 1 << 16, HEADER_BYTES = 16 };

static const char KEY[] = "0123456789abcdef", HOME[] = "9:1:/nowhere";

/* ---- what is said ---- */

static struct fuzz_saying sayings[MOST_SAYINGS];
static size_t saying_count;
static unsigned char room[ROOM];
static size_t used;

static void say(const void *bytes, size_t length) {
  if (length > ROOM - used)
    length = ROOM - used;
  memcpy(room + used, bytes, length);
  used += length;
  sayings[saying_count - 1].length += length;
}

static void say_frame(unsigned long kind, unsigned long number, unsigned long long length) {
  unsigned char header[HEADER_BYTES];
  for (int i = 0; i < 4; i++) {
    header[i] = (unsigned char)(kind >> (24 - 8 * i));
    header[4 + i] = (unsigned char)(number >> (24 - 8 * i));
  }
  for (int i = 0; i < 8; i++)
    header[8 + i] = (unsigned char)(length >> (56 - 8 * i));
  say(header, sizeof header);
}

static void new_saying(void) {
  if (saying_count < MOST_SAYINGS)
    sayings[saying_count++] = (struct fuzz_saying){.bytes = room + used};
}

/* As home greets, by the key and what was drawn (world.c). */
static void greet(void) {
  unsigned char said[4 + 2 * TPS_NONCE_BYTES] = "home", digest[TPS_DIGEST_BYTES];
  memset(said + 4, 7, sizeof said - 4);
  tps_hmac(KEY, sizeof KEY - 1, said, sizeof said, digest);
  say_frame(TPS_CHALLENGE, TPS_HOME_VERSION, TPS_NONCE_BYTES + TPS_DIGEST_BYTES);
  say(said + 4, TPS_NONCE_BYTES);
  say(digest, sizeof digest);
  say_frame(TPS_WELCOME, TPS_HOME_VERSION, 0);
}

static void say_line(char *line) {
  char *rest = line;
  if (*line == '-') {
    new_saying();
  } else if (*line == '=') {
    greet();
  } else if (*line == '!') {
    say(line + 1, strlen(line + 1));
  } else {
    unsigned long kind = strtoul(rest, &rest, 10), number = strtoul(rest, &rest, 10);
    unsigned long long length = strtoull(rest, &rest, 10);
    rest += *rest == ' ';
    for (char *at = strchr(rest, '\\'); at != NULL; at = strchr(at, '\\'))
      *at = '\n';
    say_frame(kind, number, length == 0 ? strlen(rest) : length);
    say(rest, strlen(rest));
  }
}

/* ---- who listens ---- */

static long count_seats(const struct tps_text *text, const void *context) {
  struct tps_placement placement;
  char error[512];
  (void)context;
  if (!tps_placement_read(&placement, tps_copy_string(text->data), text->length, "", error,
                          sizeof error))
    return -1;
  long count = (long)placement.seat_count;
  tps_placement_free(&placement);
  return count;
}

static void meet(size_t guests) {
  struct tps_identity identity = {.rank = 0, .local_rank = 0, .local_size = -1, .host = "here"};
  struct tps_meeting meeting;
  struct tps_text report;
  tps_text_init(&report);
  if (guests > 0)
    identity.local_size = (long)guests + 1;
  tps_meeting_join(&meeting, HOME, NULL, &identity, count_seats, NULL);
  tps_meeting_decide(&meeting, 0, true, &report);
  tps_meeting_leave(&meeting);
  tps_text_free(&report);
}

static void reorder(size_t guests, const char *local_size) {
  const struct tpr_world world = {.rank = 0, .size = (int)guests + 1, .spawned = false};
  char why[192];
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", local_size, 1);
  setenv("TOPOSEAT_HOME", HOME, 1);
  tpr__all_present(&world, why, sizeof why);
}

static void listen_as(char who, size_t guests) {
  setenv("TOPOSEAT_HOME_KEY", KEY, 1);
  switch (who) {
  case 'l':
  case 'm': /* a member: who leads says what this input says */
    meet(guests);
    break;
  case 'r':
    reorder(guests, "1");
    break;
  case 'n':
  case 'f': {
    char size[16];
    snprintf(size, sizeof size, "%zu", guests + 1);
    reorder(guests, size);
    break;
  }
  default:
    tps_home_deliver(HOME, "rank-0-1.probe", "abc", 3, 1000);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = calloc(size + 1, 1), *rest = NULL;
  if (text == NULL)
    return 0;
  memcpy(text, data, size);
  saying_count = used = 0;
  new_saying();
  const char *first = strtok_r(text, "\n", &rest);
  char who = first == NULL ? ' ' : first[0];
  size_t guests = first == NULL ? 0 : strtoul(first + 1, NULL, 10) % 16;
  for (char *line = strtok_r(NULL, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
    say_line(line);
  fuzz_world_begin(sayings, saying_count, guests, who == 'm' || who == 'f');
  listen_as(who, guests);
  fuzz_world_end();
  free(text);
  return 0;
}
