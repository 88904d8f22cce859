/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* HMAC-SHA256 (RFC 2104, FIPS 180-4): how the processes of a job prove to each other that they hold
   the job's key, without showing it. It is compiled into other people's programs, so it is small
   and needs nothing (docs/adr/0035). */
#ifndef TOPOSEAT_LAUNCHER_HMAC_H
#define TOPOSEAT_LAUNCHER_HMAC_H

#include <stdbool.h>
#include <stddef.h>

enum { TPS_DIGEST_BYTES = 32 };

/* Of `length` bytes at `message`, by a key of any length. */
void tps_hmac(const void *key, size_t key_length, const void *message, size_t length,
              unsigned char digest[TPS_DIGEST_BYTES]);

/* Compares in a time that does not tell where they differ. */
bool tps_same_digest(const unsigned char first[TPS_DIGEST_BYTES],
                     const unsigned char second[TPS_DIGEST_BYTES]);

#endif
