/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What travels between a client and its proxy: messages of a head and 64-bit words in the byte
   order of the machine, which the greeting compares. Bytes are their number, then the bytes, filled
   up to whole words. The number of a call is its slot in the table of calls.

   The client chooses the ids of all objects, so that nothing has to wait for one. A message with a
   ticket is answered by exactly one reply with that ticket. A command that was given an event's id
   is answered by DONE, when it ended, and a read's bytes come before as DATA.

   A message without a ticket that the proxy refuses marks what it is about, and the program hears
   of it from the commands that use that:
   - An object that could not be made, or a kernel's argument until that index is set again: a
     command that uses it is refused with the same code.
   - A refused command is told as FAILED, then as DONE if it has an event. Its queue is marked,
     once, until clFinish, clWaitForEvents, a blocking call or pfn_notify has returned it,
     whichever is first; its event stays marked.
   - A command that waits for the event of a refused one was not refused: it ends with -14, which is
     told as DONE and marks no queue, as a user event that failed does.
   - A user event that could not be set marks all queues. A release is never refused. */
#ifndef TOPOSEAT_VIRTUAL_WIRE_H
#define TOPOSEAT_VIRTUAL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TPS_PROTOCOL "toposeat-cl 4 le64"

enum {
  TPS_FRAME = 256 << 10,  /* bytes of a bulk message: what others wait for at most */
  TPS_CHUNK = 1 << 20,    /* bytes of one real read or write of a buffer */
  TPS_LONGEST = 64 << 20, /* of a message */
  TPS_WORD = 8,
};

/* Messages that are no calls. */
enum tps_message {
  TPS_DEVICES =
      256,     /* to the proxy: -; reply: host, then for each device the bytes that other clients
                  hold of it, facts (name, bytes) */
  TPS_PING,    /* to the proxy, with as many bytes as it likes; reply: as many bytes as asked */
  TPS_UPLOAD,  /* to the proxy: upload, total, offset; then raw bytes */
  TPS_REPLY,   /* to the client: code; what belongs to the call */
  TPS_DONE,    /* to the client: event, status, 4 times of the device in ns */
  TPS_DATA,    /* to the client: event, offset; then raw bytes */
  TPS_FAILED,  /* to the client: queue (0: all), code, event or 0: a message was refused */
  TPS_PRINTED, /* to the client: raw bytes that a kernel printed */
  /* A client moves to a device of another proxy. */
  TPS_MOVE,    /* to the old proxy, which asks its clients: device, end points, device there; reply:
                  how many have moved, why each other has not. To the client: the same */
  TPS_MOVED,   /* to the old proxy: enum tps_outcome, why not */
  TPS_ALIAS,   /* to the new one: id that the client has for a device, its index here */
  TPS_OFFER,   /* to the new one: -; reply: end points for the old one, a key */
  TPS_ACCEPT,  /* to the new one: -; reply once the old one has given all */
  TPS_CONTENT, /* from the old one to the new: as in GIVE, but where a piece of a buffer begins, not
                  its size; raw bytes */
  TPS_DRY,     /* to the old one: -; reply once all commands before it have ended and are told */
  TPS_GIVE, /* to the old one: end points, key, how many; then queue, memory, is an image, region */
};

enum tps_form { TPS_NUMBER, TPS_LOCAL, TPS_OBJECT }; /* of a kernel's argument */
enum tps_outcome { TPS_IS_MOVED, TPS_IS_REFUSED, TPS_IS_ELSEWHERE };

struct tps_head {
  uint32_t length; /* of what follows the head */
  uint32_t call;   /* enum tps_call or enum tps_message */
  uint64_t ticket; /* 0: no reply is wanted */
};

/* ---- Writing: a buffer that grows; short of memory, the process ends, as it does nowhere else. */

struct tps_text {
  unsigned char *data;
  size_t length, capacity;
};

void *tps_room(struct tps_text *out, size_t length); /* at the end; the caller fills it */
static inline void tps_put(struct tps_text *out, uint64_t word) {
  if (out->capacity - out->length < sizeof word)
    tps_room(out, 0);
  __builtin_memcpy(out->data + out->length, &word, sizeof word);
  out->length += sizeof word;
}
void tps_put_bytes(struct tps_text *out, const void *bytes, size_t length);
/* `count` words, or none where `words` is NULL. */
void tps_put_words(struct tps_text *out, const size_t *words, size_t count);

/* ---- Reading: once something is missing, all that follows is 0 and `bad` stays. */

struct tps_cursor {
  const unsigned char *at, *end;
  bool bad;
};

uint64_t tps_take(struct tps_cursor *in);
/* Where the bytes are; they end where the message does. */
const unsigned char *tps_take_bytes(struct tps_cursor *in, size_t *length);

/* ---- A socket */

/* No delay, and a dead peer is found within 30 s. */
void tps_tune_socket(int socket);
/* All of it, from memory that is not copied. -1: the peer is gone. */
int tps_send_all(int socket, struct iovec *parts, int count);
int tps_receive_all(int socket, void *data, size_t length);

/* What arrives, with few calls of the system. */
struct tps_inflow {
  int socket;
  unsigned char *data;
  size_t at, filled;
};
enum { TPS_INFLOW = 64 << 10 };
/* The bytes go to where they belong at once. `is_idle`, if any, is called before it waits. */
int tps_inflow_read(struct tps_inflow *in, void *data, size_t length, void (*is_idle)(void *),
                    void *context);

/* ---- Greeting: both prove by HMAC-SHA256 that they hold the key, then compare the version. Who is
   silent for 5 s is refused. NULL, or what is wrong, of which `tps_no_answer` may be so only now.
 */

enum { TPS_KEY_BYTES = 32 };
extern const char tps_no_answer[];
const char *tps_greet(int socket, const unsigned char key[TPS_KEY_BYTES], bool is_client);
/* Connected to "unix:PATH", "unix:@NAME" or "tcp:ADDRESS:PORT", greeted and tuned. Where a crowd is at the door, the proxy hangs up on who has waited
   longest: it is tried again for 5 s. -1: `wrong` is as above, or NULL where errno says why. */
int tps_reach(const char *endpoint, const unsigned char key[TPS_KEY_BYTES], const char **wrong);
uint64_t tps_now_ns(void); /* of the clock that only goes on */
/* 64 hex digits. */
bool tps_read_key(const char *text, unsigned char key[TPS_KEY_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
