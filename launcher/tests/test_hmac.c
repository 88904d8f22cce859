/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Against the published cases of RFC 4231 with SHA-256. */
#include "hmac.h"

#include <stdio.h>
#include <string.h>

struct example {
  size_t key_length, length; /* of so many times the byte, or of the text */
  const char *key, *text;
  const char *digest;
};

static const char LONG_TEXT[] =
    "This is a test using a larger than block-size key and a larger than block-size data. The key "
    "needs to be hashed before being used by the HMAC algorithm.";

static const struct example EXAMPLES[] = {
    {20, 0, "\x0b", "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
    {0, 0, "Jefe", "what do ya want for nothing?",
     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
    {20, 50, "\xaa", "\xdd", "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
    {131, 0, "\xaa", "Test Using Larger Than Block-Size Key - Hash Key First",
     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    {131, 0, "\xaa", LONG_TEXT, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
};

static size_t spread(unsigned char *at, const char *text, size_t times) {
  size_t length = times > 0 ? times : strlen(text);
  for (size_t i = 0; i < length; i++)
    at[i] = (unsigned char)text[times > 0 ? 0 : i];
  return length;
}

int main(void) {
  int wrong = 0;
  for (size_t i = 0; i < sizeof EXAMPLES / sizeof *EXAMPLES; i++) {
    unsigned char key[256], text[256], digest[TPS_DIGEST_BYTES];
    char shown[2 * TPS_DIGEST_BYTES + 1];
    size_t key_length = spread(key, EXAMPLES[i].key, EXAMPLES[i].key_length);
    size_t length = spread(text, EXAMPLES[i].text, EXAMPLES[i].length);
    tps_hmac(key, key_length, text, length, digest);
    for (size_t k = 0; k < TPS_DIGEST_BYTES; k++)
      snprintf(shown + 2 * k, 3, "%02x", digest[k]);
    if (strcmp(shown, EXAMPLES[i].digest) != 0) {
      printf("case %zu: %s, expected %s\n", i, shown, EXAMPLES[i].digest);
      wrong++;
    }
  }
  return wrong > 0;
}
