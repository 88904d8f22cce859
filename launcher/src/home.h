/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The way home: a TCP connection to the process that started the job (src/toposeat/launch/home.py).

   Nodes need share no folder for it, only a network, as launchers do. Used by toposeat-exec, by the
   rank probe and by the interposer, so it needs nothing but the C library, writes nothing to any
   stream, raises no SIGPIPE, and never waits longer than it is told.

   --home and TOPOSEAT_HOME hold PORT:TOKEN:ADDRESS,ADDRESS,... with numeric addresses, the most
   useful first. Both sides send frames: a header of three numbers in network byte order,

       kind (32 bits)   number (32 bits)   length (64 bits)

   and `length` bytes. The first frame of a client is HELLO, answered by WELCOME; a connection that
   says anything else first, or nothing for a while, is closed. Then, in any order:

   | frame     | from   | number               | bytes                                             |
   |-----------|--------|----------------------|---------------------------------------------------|
   | HELLO     | client | version of all this  | the token                                         |
   | WELCOME   | home   | version              |                                                   |
   | SEATS     | client | 0                    | asks for the placement                            |
   | PLACEMENT | home   | 1 there is one, 0    | the placement file                                |
   | SEATED    | client | rank                 | its seat report: it can have its seat, and waits  |
   | UNSEATED  | client | rank, or UNKNOWN     | its seat report, with the cause                   |
   | GO, STOP  | home   | 0                    | to all that wait, once every rank was heard or    |
   |           |        |                      | one cannot be seated: start, or end without       |
   | BUNDLE    | client | length of the name   | a file name, and the file's content               |
   | KEPT      | home   | 1 kept, 0 refused    | answers a BUNDLE, once the file is whole          |

   One connection may speak for many ranks. The ranks of a node speak through one of them, see
   meeting.h, whose local frames are numbered from 64. */
#ifndef TOPOSEAT_LAUNCHER_HOME_H
#define TOPOSEAT_LAUNCHER_HOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TPS_HOME_VERSION = 1, TPS_MAX_BUNDLE_NAME = 128 };
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

/* Connects to the first address that answers; -1 if none does in time. With `address`, writes the
   words for that address alone there. The caller closes the connection. */
int tps_home_connect(const char *words, char *address, size_t address_size, long deadline_ms);

/* A file in parts: open, tps_send_bytes for `length` bytes in all, close. `name` is at most
   TPS_MAX_BUNDLE_NAME letters, digits, '.', '_' and '-'. Open returns -1 on failure; close says
   whether home has kept it. */
int tps_bundle_open(const char *words, const char *name, uint64_t length, long deadline_ms);
bool tps_bundle_close(int peer, long deadline_ms);

/* A file that lies in memory, at once. */
bool tps_home_deliver(const char *words, const char *name, const void *bytes, size_t length,
                      int timeout_ms);

#endif
