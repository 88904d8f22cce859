/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
  char text[16];
  snprintf(text, (size_t)count, "%s", words[0]);
  strcpy(text + count, words[count - 1]);
  return (int)strlen(text);
}
