/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What both ends read of each other: never more than is there; and who may speak at all. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

static int failures;

static void expect(bool is_so, const char *what) {
  if (!is_so) {
    fprintf(stderr, "failed: %s\n", what);
    failures++;
  }
}

static void test_words(void) {
  struct tps_text out = {0};
  size_t sizes[] = {7, 8, 9}, length = 0;
  tps_put(&out, 5);
  tps_put_bytes(&out, "abc", 3);
  tps_put_words(&out, sizes, 3);
  tps_put_words(&out, NULL, 3);
  struct tps_cursor in = {out.data, out.data + out.length, false};
  expect(tps_take(&in) == 5, "a word comes back");
  const unsigned char *bytes = tps_take_bytes(&in, &length);
  expect(length == 3 && memcmp(bytes, "abc", 3) == 0, "bytes come back");
  expect(tps_take(&in) == 3 && tps_take(&in) == 7 && tps_take(&in) == 8 && tps_take(&in) == 9,
         "a list comes back");
  expect(tps_take(&in) == 0 && !in.bad && in.at == in.end, "no list is an empty one");
  expect(tps_take(&in) == 0 && in.bad, "behind the end there is nothing");
  free(out.data);
}

/* Every way to cut a message short, and every length it may claim. */
static void test_bounds(void) {
  struct tps_text out = {0};
  tps_put_bytes(&out, "abcdefghi", 9);
  for (size_t kept = 0; kept < out.length; kept++) {
    unsigned char *copy = malloc(kept == 0 ? 1 : kept);
    if (copy == NULL)
      abort();
    memcpy(copy, out.data, kept);
    struct tps_cursor in = {copy, copy + kept, false};
    size_t length = 0;
    (void)tps_take_bytes(&in, &length);
    bool has_all = kept >= 8 + 9;
    expect(in.bad == !has_all && length == (has_all ? 9U : 0U), "a cut message has no bytes");
    expect(in.at <= in.end, "reading ends where the message does");
    free(copy);
  }
  static const uint64_t claims[] = {10, 17, UINT64_MAX, UINT64_MAX - 7, 1ULL << 63};
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
    memcpy(out.data, &claims[i], sizeof *claims);
    struct tps_cursor in = {out.data, out.data + 8 + 9, false};
    size_t length = 1;
    (void)tps_take_bytes(&in, &length);
    expect(in.bad && length == 0, "a length that lies is found");
  }
  free(out.data);
}

struct end {
  int socket;
  unsigned char key[TPS_KEY_BYTES];
  bool is_client;
  const char *wrong;
};

static void *greet(void *argument) {
  struct end *end = argument;
  end->wrong = tps_greet(end->socket, end->key, end->is_client);
  close(end->socket);
  return NULL;
}

/* Both ends at once; true: both took the other for what it is. */
static bool meet(struct end *one, struct end *other) {
  int ends[2];
  pthread_t thread;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
    abort();
  one->socket = ends[0];
  other->socket = ends[1];
  if (pthread_create(&thread, NULL, greet, other) != 0)
    abort();
  greet(one);
  pthread_join(thread, NULL);
  return one->wrong == NULL && other->wrong == NULL;
}

static void test_greeting(void) {
  struct end client = {.key = {1}, .is_client = true}, proxy = {.key = {1}},
             stranger = {.key = {2}};
  struct end twin = {.key = {1}, .is_client = true};
  expect(meet(&client, &proxy), "one key is one key");
  expect(!meet(&client, &stranger) && client.wrong != NULL && stranger.wrong != NULL,
         "another key is refused on both sides");
  expect(!meet(&client, &twin), "two clients do not take each other for a proxy");
}

/* Who says the first half and then nothing is not waited for. */
static void test_silence(void) {
  int ends[2];
  unsigned char key[TPS_KEY_BYTES] = {1}, half[16] = {0};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 ||
      write(ends[1], half, sizeof half) != sizeof half)
    abort();
  expect(tps_greet(ends[0], key, false) != NULL, "silence is refused");
  close(ends[0]);
  close(ends[1]);
}

static void test_key(void) {
  unsigned char key[TPS_KEY_BYTES];
  char text[2 * TPS_KEY_BYTES + 2];
  memset(text, 'a', sizeof text);
  text[sizeof text - 2] = '\0';
  expect(tps_read_key(text, key) && key[0] == 0xaa && key[TPS_KEY_BYTES - 1] == 0xaa,
         "a key is read");
  text[3] = 'g';
  expect(!tps_read_key(text, key), "a key is of hex digits");
  text[3] = '\0';
  expect(!tps_read_key(text, key), "a key is whole");
}

int main(void) {
  test_words();
  test_bounds();
  test_greeting();
  test_silence();
  test_key();
  return failures == 0 ? 0 : 1;
}
