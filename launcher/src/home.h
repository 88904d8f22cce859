/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The way home: a connection to the process that started the job (src/toposeat/launch/home.py).

   Nodes need share no folder for it, only a network, as launchers do. Used by toposeat-exec, by the
   rank probe and by the interposer, so it needs nothing but the C library, writes nothing to any
   stream, raises no SIGPIPE, and never waits longer than it is told.

   --home and TOPOSEAT_HOME hold PORT:SECONDS:ADDRESS,ADDRESS,... with numeric addresses, the most
   useful first, and how long to wait for an answer; an address that begins with '/' is a socket of
   this node. They are no secret. The job's key is: TOPOSEAT_HOME_KEY holds it, which launchers hand
   to ranks in their environment, where other users cannot read it.

   Both sides send frames: a header of three numbers in network byte order,

       kind (32 bits)   number (32 bits)   length (64 bits)

   and `length` bytes. A connection begins with a greeting in which each side proves that it holds
   the key, by an HMAC over what both have drawn at random; a connection that says anything else
   first, or nothing for a while, is closed. Then, in any order:

   | frame     | from   | number               | bytes                                             |
   |-----------|--------|----------------------|---------------------------------------------------|
   | HELLO     | client | version of all this  | 32 random bytes                                   |
   | CHALLENGE | home   | version              | 32 random bytes, HMAC("home", client's, home's)   |
   | PROOF     | client | 0                    | HMAC("node", client's, home's)                    |
   | WELCOME   | home   | version              |                                                   |
   | SEATS     | client | 0                    | asks, once, for the seats of this node: its names,|
   |           |        |                      | one a line                                        |
   | PLACEMENT | home   | 1 there is one, 0    | the lines of the placement file that are of it    |
   | SEATED    | client | rank                 | its seat report: it can have its seat, and waits  |
   | UNSEATED  | client | rank, or UNKNOWN     | its seat report, with the cause                   |
   | GO, STOP  | home   | 0                    | to all that wait, once every rank was heard or    |
   |           |        |                      | one cannot be seated: start, or end without       |
   | BUNDLE    | client | length of the name   | a file name, and the file's content               |
   | KEPT      | home   | 1 kept, 0 refused    | answers a BUNDLE, once the file is whole          |
   | PRESENT   | client | rank                 | the size of its MPI_COMM_WORLD, a blank, and what |
   |           |        |                      | tells that from others: the rank can be reordered,|
   |           |        |                      | and waits. Answered by GO once all ranks can, else|
   |           |        |                      | by STOP, whose number tells one of those that wait|
   |           |        |                      | how many ranks were not heard, or UNKNOWN         |

   One connection may speak for many ranks. The ranks of a node speak through one of them, see
   meeting.h, whose local frames are numbered from 64. Home takes the next frame of a connection
   when its answer to the last has been sent. */
#ifndef TOPOSEAT_LAUNCHER_HOME_H
#define TOPOSEAT_LAUNCHER_HOME_H

#include "hmac.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TPS_HOME_VERSION = 2, TPS_MAX_BUNDLE_NAME = 128, TPS_NONCE_BYTES = 32 };
static const uint32_t TPS_RANK_UNKNOWN = UINT32_MAX;

enum tps_frame_kind {
  TPS_HELLO = 1,
  TPS_WELCOME,
  TPS_SEATS,
  TPS_PLACEMENT,
  TPS_SEATED,
  TPS_UNSEATED,
  TPS_GO,
  TPS_STOP,
  TPS_BUNDLE,
  TPS_KEPT,
  TPS_CHALLENGE,
  TPS_PROOF,
  TPS_PRESENT,
};

struct tps_frame {
  uint32_t kind;
  uint32_t number;
  uint64_t length;
};

/* Milliseconds of a clock that never goes back. All deadlines are in these. */
long tps_now_ms(void);

/* Each returns whether all of it was done before the deadline; `peer` is non-blocking. */
bool tps_send_bytes(int peer, const void *bytes, size_t length, long deadline_ms);
bool tps_receive_bytes(int peer, void *bytes, size_t length, long deadline_ms);
bool tps_send_frame(int peer, uint32_t kind, uint32_t number, const void *bytes, size_t length,
                    long deadline_ms);
bool tps_receive_header(int peer, struct tps_frame *frame, long deadline_ms);

/* How long home asks its nodes to wait for it, which grows with the job. */
long tps_home_patience_ms(const char *words);

/* For people: where home is and how long was waited for it, or what was missing to look for it. */
void tps_home_describe(const char *words, char *text, size_t size);

/* Keeps the job's key for a program that empties its environment. */
void tps_home_remember_key(void);

/* A digest that only processes with the job's key can tell, of two texts. False: no key. */
bool tps_home_secret(const char *what, const char *text, unsigned char digest[TPS_DIGEST_BYTES]);

/* Connects to the first address that answers; -1 if none does in time. With `address`, writes the
   words for that address alone there. The caller closes the connection. */
int tps_home_connect(const char *words, char *address, size_t address_size, long deadline_ms);

/* A file in parts: open, tps_send_bytes for `length` bytes in all, close. `name` is at most
   TPS_MAX_BUNDLE_NAME letters, digits, '.', '_' and '-'. Open returns -1 on failure, after
   `unreached_ms` where no packet comes back: only a home that is reached may be busy until the
   deadline. Close says whether home has kept it. */
int tps_bundle_open(const char *words, const char *name, uint64_t length, long deadline_ms,
                    long unreached_ms);
bool tps_bundle_close(int peer, long deadline_ms);

/* A file that lies in memory, at once; the deadline is `patience_ms` from now. */
bool tps_home_deliver(const char *words, const char *name, const void *bytes, size_t length,
                      long patience_ms, long unreached_ms);

#endif
