/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "hmac.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK_BYTES = 64, ROUNDS = 64 };

/* FIPS 180-4, section 4.2.2: the first 32 bits of the fractions of the cube roots of the first
   64 primes. */
static const uint32_t CONSTANTS[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

struct sha256 {
  uint32_t state[8];
  unsigned char block[BLOCK_BYTES];
  size_t filled; /* bytes in `block` */
  uint64_t total;
};

static uint32_t rotate(uint32_t value, int by) { return value >> by | value << (32 - by); }

static void compress(uint32_t state[8], const unsigned char *block) {
  uint32_t words[ROUNDS], v[8];
  for (size_t i = 0; i < 16; i++)
    words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
  for (int i = 16; i < ROUNDS; i++) {
    uint32_t early = words[i - 15], late = words[i - 2];
    words[i] = words[i - 16] + (rotate(early, 7) ^ rotate(early, 18) ^ early >> 3) + words[i - 7] +
               (rotate(late, 17) ^ rotate(late, 19) ^ late >> 10);
  }
  memcpy(v, state, sizeof v);
  for (int i = 0; i < ROUNDS; i++) {
    uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    uint32_t first = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) + choice +
                     CONSTANTS[i] + words[i];
    uint32_t second = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) + majority;
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += first;
    v[0] = first + second;
  }
  for (int i = 0; i < 8; i++)
    state[i] += v[i];
}

static void begin(struct sha256 *sum) {
  *sum = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                   0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static void add(struct sha256 *sum, const void *bytes, size_t length) {
  const unsigned char *at = bytes;
  sum->total += length;
  for (; length > 0; length--) {
    sum->block[sum->filled++] = *at++;
    if (sum->filled == BLOCK_BYTES) {
      compress(sum->state, sum->block);
      sum->filled = 0;
    }
  }
}

static void end(struct sha256 *sum, unsigned char digest[TPS_DIGEST_BYTES]) {
  static const unsigned char padding[BLOCK_BYTES] = {0x80};
  unsigned char bits[8];
  uint64_t total = sum->total * 8;
  for (int i = 7; i >= 0; i--, total >>= 8)
    bits[i] = (unsigned char)(total & 0xff);
  size_t before = BLOCK_BYTES - sizeof bits;
  add(sum, padding,
      sum->filled < before ? before - sum->filled : before + BLOCK_BYTES - sum->filled);
  add(sum, bits, sizeof bits);
  for (int i = 0; i < TPS_DIGEST_BYTES; i++)
    digest[i] = (unsigned char)(sum->state[i / 4] >> (24 - 8 * (i % 4)) & 0xff);
}

void tps_hmac(const void *key, size_t key_length, const void *message, size_t length,
              unsigned char digest[TPS_DIGEST_BYTES]) {
  unsigned char inner[BLOCK_BYTES] = {0}, outer[BLOCK_BYTES];
  struct sha256 sum;
  if (key_length > BLOCK_BYTES) {
    begin(&sum);
    add(&sum, key, key_length);
    end(&sum, inner);
  } else if (key_length > 0) {
    memcpy(inner, key, key_length);
  }
  for (int i = 0; i < BLOCK_BYTES; i++) {
    outer[i] = inner[i] ^ 0x5c;
    inner[i] ^= 0x36;
  }
  begin(&sum);
  add(&sum, inner, sizeof inner);
  add(&sum, message, length);
  end(&sum, digest);
  begin(&sum);
  add(&sum, outer, sizeof outer);
  add(&sum, digest, TPS_DIGEST_BYTES);
  end(&sum, digest);
}

bool tps_same_digest(const unsigned char first[TPS_DIGEST_BYTES],
                     const unsigned char second[TPS_DIGEST_BYTES]) {
  unsigned difference = 0;
  for (int i = 0; i < TPS_DIGEST_BYTES; i++)
    difference |= (unsigned)(first[i] ^ second[i]);
  return difference == 0;
}
