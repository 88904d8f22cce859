/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "system_tree.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void tps_system_path(struct tps_text *text, const char *path) {
  const char *root = tps_getenv("TOPOSEAT_SYSROOT");
  tps_text_add(text, "%s%s", root == NULL ? "" : root, path);
}

bool tps_system_exists(const char *path) {
  struct tps_text whole;
  tps_text_init(&whole);
  tps_system_path(&whole, path);
  bool exists = access(whole.data, F_OK) == 0;
  tps_text_free(&whole);
  return exists;
}

bool tps_system_read(const char *path, char *line, size_t size) {
  struct tps_text whole;
  tps_text_init(&whole);
  tps_system_path(&whole, path);
  int file = open(whole.data, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  tps_text_free(&whole);
  if (file < 0)
    return false;
  ssize_t length = read(file, line, size - 1);
  close(file);
  if (length < 0)
    return false;
  line[length] = '\0';
  line[strcspn(line, "\n")] = '\0';
  return true;
}
