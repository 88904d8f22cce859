/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "hmac.h"
#include "wire.h"

enum { NONCE = 32, LIMIT_S = 5 };
const char tps_no_answer[] = "it hung up, or said nothing for 5 s, or is no toposeat-clproxy";

bool tps_read_key(const char *text, unsigned char key[TPS_KEY_BYTES]) {
  static const char digits[] = "0123456789abcdef";
  if (strlen(text) != (size_t)2 * TPS_KEY_BYTES)
    return false;
  for (int i = 0; i < 2 * TPS_KEY_BYTES; i++) {
    const char *digit = strchr(digits, text[i]);
    if (digit == NULL)
      return false;
    key[i / 2] = (unsigned char)(key[i / 2] << 4 | (digit - digits));
  }
  return true;
}

static void set_limit(int socket, time_t seconds) {
  struct timeval limit = {.tv_sec = seconds};
  (void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  (void)setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static int swap(int socket, const void *mine, void *others, size_t length) {
  struct iovec part = {(void *)mine, length};
  return tps_send_all(socket, &part, 1) != 0 ? -1 : tps_receive_all(socket, others, length);
}

/* The role keeps a proof from being sent back to who made it. */
static void prove(const unsigned char *key, char role, const unsigned char nonces[2][NONCE],
                  unsigned char proof[TPS_DIGEST_BYTES]) {
  unsigned char text[1 + 2 * NONCE] = {(unsigned char)role};
  memcpy(text + 1, nonces, (size_t)2 * NONCE);
  tps_hmac(key, TPS_KEY_BYTES, text, sizeof text, proof);
}

static const char *exchange(int socket, const unsigned char *key, bool is_client) {
  unsigned char nonces[2][NONCE], mine[TPS_DIGEST_BYTES], others[TPS_DIGEST_BYTES],
      told[TPS_DIGEST_BYTES];
  unsigned char *own = nonces[is_client ? 0 : 1], *peer = nonces[is_client ? 1 : 0];
  if (getrandom(own, NONCE, 0) != NONCE)
    return "there are no random numbers";
  if (swap(socket, own, peer, NONCE) != 0)
    return tps_no_answer;
  prove(key, is_client ? 'c' : 'p', (const unsigned char (*)[NONCE])nonces, mine);
  prove(key, is_client ? 'p' : 'c', (const unsigned char (*)[NONCE])nonces, others);
  if (swap(socket, mine, told, sizeof told) != 0)
    return tps_no_answer;
  if (!tps_same_digest(others, told))
    return "the key is another one";
  char version[sizeof TPS_PROTOCOL] = "";
  if (swap(socket, TPS_PROTOCOL, version, sizeof version) != 0)
    return tps_no_answer;
  if (memcmp(version, TPS_PROTOCOL, sizeof version) != 0)
    return "it is of another version of toposeat";
  return NULL;
}

const char *tps_greet(int socket, const unsigned char key[TPS_KEY_BYTES], bool is_client) {
  set_limit(socket, LIMIT_S);
  const char *wrong = exchange(socket, key, is_client);
  set_limit(socket, 0);
  return wrong;
}
