/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "home.h"

#include "trust.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
  HEADER_BYTES = 16,
  SHORT_BYTES = 2048,
  MAX_ADDRESS = 128,
  MAX_PATIENCE_S = 3600,
  PATIENCE_MS = 8000,
  /* An address that drops packets must not use up the time of those behind it. */
  ADDRESS_MS = 1500,
};

#define KEY_VARIABLE "TOPOSEAT_HOME_KEY"

long tps_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the key ---- */

static char remembered_key[4 * TPS_DIGEST_BYTES];

void tps_home_remember_key(void) {
  const char *key = getenv(KEY_VARIABLE);
  if (key != NULL && strlen(key) < sizeof remembered_key)
    strcpy(remembered_key, key);
}

static const char *job_key(void) {
  const char *key = getenv(KEY_VARIABLE);
  if (key == NULL)
    key = remembered_key;
  return *key == '\0' ? NULL : key;
}

/* ---- bytes and frames ---- */

static bool wait_for(int peer, short events, long deadline_ms) {
  for (;;) {
    long left = deadline_ms - tps_now_ms();
    if (left <= 0)
      return false;
    struct pollfd one = {.fd = peer, .events = events};
    int ready = poll(&one, 1, left > 60000 ? 60000 : (int)left);
    if (ready > 0)
      return true;
    if (ready < 0 && errno != EINTR)
      return false;
  }
}

static bool is_worth_waiting(void) {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool tps_send_bytes(int peer, const void *bytes, size_t length, long deadline_ms) {
  const char *at = bytes;
  while (length > 0) {
    ssize_t sent = send(peer, at, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      at += sent;
      length -= (size_t)sent;
    } else if (sent == 0 || !is_worth_waiting() || !wait_for(peer, POLLOUT, deadline_ms)) {
      return false;
    }
  }
  return true;
}

bool tps_receive_bytes(int peer, void *bytes, size_t length, long deadline_ms) {
  char *at = bytes;
  while (length > 0) {
    ssize_t got = recv(peer, at, length, MSG_DONTWAIT);
    if (got > 0) {
      at += got;
      length -= (size_t)got;
    } else if (got == 0 || !is_worth_waiting() || !wait_for(peer, POLLIN, deadline_ms)) {
      return false;
    }
  }
  return true;
}

static void put(unsigned char *at, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; i--, value >>= 8)
    at[i] = (unsigned char)(value & 0xff);
}

static uint64_t get(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++)
    value = value << 8 | at[i];
  return value;
}

static void put_header(unsigned char *at, uint32_t kind, uint32_t number, uint64_t length) {
  put(at, kind, 4);
  put(at + 4, number, 4);
  put(at + 8, length, 8);
}

/* What is short goes at once with its header: every packet wakes the other side up. */
bool tps_send_frame(int peer, uint32_t kind, uint32_t number, const void *bytes, size_t length,
                    long deadline_ms) {
  unsigned char frame[HEADER_BYTES + SHORT_BYTES];
  put_header(frame, kind, number, length);
  size_t with_header = length <= SHORT_BYTES ? length : 0;
  if (with_header > 0)
    memcpy(frame + HEADER_BYTES, bytes, with_header);
  return tps_send_bytes(peer, frame, HEADER_BYTES + with_header, deadline_ms) &&
         (with_header == length || tps_send_bytes(peer, bytes, length, deadline_ms));
}

bool tps_receive_header(int peer, struct tps_frame *frame, long deadline_ms) {
  unsigned char header[HEADER_BYTES];
  if (!tps_receive_bytes(peer, header, sizeof header, deadline_ms))
    return false;
  frame->kind = (uint32_t)get(header, 4);
  frame->number = (uint32_t)get(header + 4, 4);
  frame->length = get(header + 8, 8);
  return true;
}

/* ---- connections ---- */

struct home_words {
  uint16_t port;
  long patience_ms;
  const char *addresses;
};

/* What became of an attempt to reach home at one address. */
enum outcome { AT_HOME, NOT_HOME, UNREACHED, BUSY };

/* Splits PORT:SECONDS:ADDRESSES; false if `words` is something else. */
static bool split(const char *words, struct home_words *home) {
  char *end;
  unsigned long port = strtoul(words, &end, 10);
  if (end == words || *end != ':' || port > UINT16_MAX)
    return false;
  const char *seconds = end + 1;
  long patience = strtol(seconds, &end, 10);
  if (end == seconds || *end != ':' || patience < 1 || patience > MAX_PATIENCE_S)
    return false;
  *home = (struct home_words){
      .port = (uint16_t)port, .patience_ms = patience * 1000, .addresses = end + 1};
  return true;
}

long tps_home_patience_ms(const char *words) {
  struct home_words home;
  return split(words, &home) ? home.patience_ms : PATIENCE_MS;
}

void tps_home_describe(const char *words, char *text, size_t size) {
  struct home_words home;
  if (job_key() == NULL)
    snprintf(text, size, "cannot be asked: the launcher did not hand on " KEY_VARIABLE);
  else if (!split(words, &home))
    snprintf(text, size, "cannot be asked: its address is damaged");
  else
    snprintf(text, size, "did not answer at %.300s, port %u, within %ld s", home.addresses,
             (unsigned)home.port, home.patience_ms / 1000);
}

/* ---- the greeting ---- */

struct greeting {
  unsigned char who[4]; /* "home" or "node": no side can send the other's proof back */
  unsigned char client[TPS_NONCE_BYTES];
  unsigned char home[TPS_NONCE_BYTES];
};

static bool prove(const struct greeting *greeting, const char *who,
                  unsigned char digest[TPS_DIGEST_BYTES]) {
  const char *key = job_key();
  if (key == NULL)
    return false;
  struct greeting said = *greeting;
  memcpy(said.who, who, sizeof said.who);
  tps_hmac(key, strlen(key), &said, sizeof said, digest);
  return true;
}

bool tps_home_secret(const char *what, const char *text, unsigned char digest[TPS_DIGEST_BYTES]) {
  const char *key = job_key();
  if (key == NULL)
    return false;
  tps_hmac(key, strlen(key), what, strlen(what), digest);
  tps_hmac(digest, TPS_DIGEST_BYTES, text, strlen(text), digest);
  return true;
}

/* Other services may listen at an address that is not home's, and strangers at home's port. */
static enum outcome greet(int peer, long deadline_ms) {
  struct greeting greeting;
  struct tps_frame answer;
  unsigned char told[TPS_NONCE_BYTES + TPS_DIGEST_BYTES], proof[TPS_DIGEST_BYTES];
  if (getrandom(greeting.client, sizeof greeting.client, 0) != (ssize_t)sizeof greeting.client)
    return NOT_HOME;
  if (!tps_send_frame(peer, TPS_HELLO, TPS_HOME_VERSION, greeting.client, sizeof greeting.client,
                      deadline_ms) ||
      !tps_receive_header(peer, &answer, deadline_ms))
    return BUSY;
  if (answer.kind != TPS_CHALLENGE || answer.number != TPS_HOME_VERSION ||
      answer.length != sizeof told)
    return NOT_HOME;
  if (!tps_receive_bytes(peer, told, sizeof told, deadline_ms))
    return BUSY;
  memcpy(greeting.home, told, sizeof greeting.home);
  if (!prove(&greeting, "home", proof) || !tps_same_digest(proof, told + sizeof greeting.home) ||
      !prove(&greeting, "node", proof))
    return NOT_HOME;
  if (!tps_send_frame(peer, TPS_PROOF, 0, proof, sizeof proof, deadline_ms) ||
      !tps_receive_header(peer, &answer, deadline_ms))
    return BUSY;
  return answer.kind == TPS_WELCOME && answer.length == 0 ? AT_HOME : NOT_HOME;
}

/* ---- addresses ---- */

union address {
  struct sockaddr any;
  struct sockaddr_in four;
  struct sockaddr_in6 six;
  struct sockaddr_un here;
};

/* The size of the address that `text` names, 0 if it names none. */
static socklen_t read_address(const char *text, uint16_t port, union address *address) {
  memset(address, 0, sizeof *address);
  if (*text == '/') {
    if (strlen(text) >= sizeof address->here.sun_path)
      return 0;
    address->here.sun_family = AF_UNIX;
    strcpy(address->here.sun_path, text);
    return sizeof address->here;
  }
  if (inet_pton(AF_INET6, text, &address->six.sin6_addr) == 1) {
    address->six.sin6_family = AF_INET6;
    address->six.sin6_port = htons(port);
    return sizeof address->six;
  }
  if (inet_pton(AF_INET, text, &address->four.sin_addr) != 1)
    return 0;
  address->four.sin_family = AF_INET;
  address->four.sin_port = htons(port);
  return sizeof address->four;
}

/* Whoever holds a socket of this node is a process of this user, or it is not home. */
static bool may_be_home(int peer, const union address *address) {
  return address->any.sa_family != AF_UNIX || tps_peer_is_mine(peer);
}

/* A connection, -1 with why there is none. */
static int connect_to(const char *text, uint16_t port, long deadline_ms, enum outcome *outcome) {
  union address address;
  socklen_t size = read_address(text, port, &address);
  *outcome = NOT_HOME;
  if (size == 0)
    return -1;
  int peer = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (peer < 0)
    return -1;
  int cause = connect(peer, &address.any, size) == 0 ? 0 : errno;
  if (cause == EINPROGRESS) {
    socklen_t length = sizeof cause;
    if (!wait_for(peer, POLLOUT, deadline_ms))
      cause = ETIMEDOUT;
    else if (getsockopt(peer, SOL_SOCKET, SO_ERROR, &cause, &length) != 0)
      cause = errno;
  }
  if (cause == 0 && may_be_home(peer, &address))
    return peer;
  if (cause == ETIMEDOUT)
    *outcome = UNREACHED;
  if (cause == EAGAIN) /* its queue is full */
    *outcome = BUSY;
  close(peer);
  return -1;
}

/* Tries every address once; UNREACHED or BUSY if one of them may answer later. */
static enum outcome try_addresses(const struct home_words *home, char address[MAX_ADDRESS],
                                  long patience_ms, long deadline_ms, int *peer) {
  enum outcome best = NOT_HOME;
  for (const char *next = home->addresses; *next != '\0';) {
    size_t length = strcspn(next, ",");
    long now = tps_now_ms();
    long until = deadline_ms - now > patience_ms ? now + patience_ms : deadline_ms;
    enum outcome outcome;
    snprintf(address, MAX_ADDRESS, "%.*s", (int)(length < MAX_ADDRESS ? length : 0), next);
    *peer = connect_to(address, home->port, until, &outcome);
    if (*peer >= 0)
      outcome = greet(*peer, until);
    if (outcome == AT_HOME)
      return AT_HOME;
    if (*peer >= 0)
      close(*peer);
    if (outcome > best)
      best = outcome;
    next += length + (next[length] == ',');
  }
  *peer = -1;
  return best;
}

/* As tps_home_connect; after `unreached_ms` only as long as some address was reached before, each
   having been tried once. */
static int connect_home(const char *words, char *address, size_t address_size, long deadline_ms,
                        long unreached_ms) {
  struct home_words home;
  char one[MAX_ADDRESS];
  int peer = -1;
  enum outcome outcome = BUSY;
  bool reached = false;
  long give_up_ms = tps_now_ms() + unreached_ms, until_ms = deadline_ms;
  if (!split(words, &home) || job_key() == NULL)
    return -1;
  /* Home greets late while hundreds of nodes send to it, and drops who waits for its greeting
     where others crowd in: each time it is given longer, and asked again. */
  long pause_ms = 10;
  for (long patience_ms = unreached_ms < ADDRESS_MS ? unreached_ms : ADDRESS_MS;
       outcome >= UNREACHED && tps_now_ms() < until_ms;
       patience_ms *= 2, pause_ms = pause_ms < 320 ? pause_ms * 2 : pause_ms) {
    outcome = try_addresses(&home, one, patience_ms, until_ms, &peer);
    reached |= outcome == BUSY;
    until_ms = reached || give_up_ms > deadline_ms ? deadline_ms : give_up_ms;
    if (outcome >= UNREACHED)
      poll(NULL, 0, (int)pause_ms);
  }
  if (outcome == AT_HOME && address != NULL)
    snprintf(address, address_size, "%u:%ld:%s", (unsigned)home.port, home.patience_ms / 1000, one);
  return peer;
}

int tps_home_connect(const char *words, char *address, size_t address_size, long deadline_ms) {
  return connect_home(words, address, address_size, deadline_ms, deadline_ms - tps_now_ms());
}

/* ---- bundles ---- */

int tps_bundle_open(const char *words, const char *name, uint64_t length, long deadline_ms,
                    long unreached_ms) {
  size_t name_length = strlen(name);
  int peer = name_length <= TPS_MAX_BUNDLE_NAME
                 ? connect_home(words, NULL, 0, deadline_ms, unreached_ms)
                 : -1;
  if (peer < 0)
    return -1;
  unsigned char begin[HEADER_BYTES + TPS_MAX_BUNDLE_NAME + 1];
  put_header(begin, TPS_BUNDLE, (uint32_t)name_length, name_length + length);
  snprintf((char *)begin + HEADER_BYTES, TPS_MAX_BUNDLE_NAME + 1, "%s", name);
  if (tps_send_bytes(peer, begin, HEADER_BYTES + name_length, deadline_ms))
    return peer;
  close(peer);
  return -1;
}

bool tps_bundle_close(int peer, long deadline_ms) {
  struct tps_frame answer;
  bool kept = tps_receive_header(peer, &answer, deadline_ms) && answer.kind == TPS_KEPT &&
              answer.number == 1;
  close(peer);
  return kept;
}

bool tps_home_deliver(const char *words, const char *name, const void *bytes, size_t length,
                      long patience_ms, long unreached_ms) {
  long deadline_ms = tps_now_ms() + patience_ms;
  int peer = tps_bundle_open(words, name, length, deadline_ms, unreached_ms);
  if (peer < 0)
    return false;
  if (tps_send_bytes(peer, bytes, length, deadline_ms))
    return tps_bundle_close(peer, deadline_ms);
  close(peer);
  return false;
}
