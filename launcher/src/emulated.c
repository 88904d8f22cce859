/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "emulated.h"

#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_TEXT = 4 << 20 };

bool tps_is_emulated(void) { return tps_getenv("TOPOSEAT_EMULATED_MACHINE") != NULL; }

/* A line is `device NUMBER PCI UUID ...`. */
static bool is_of_line(char *line, const struct tps_device *device) {
  char *rest = NULL;
  const char *word = strtok_r(line, " ", &rest);
  if (word == NULL || strcmp(word, "device") != 0 || strtok_r(NULL, " ", &rest) == NULL)
    return false;
  const char *pci = strtok_r(NULL, " ", &rest);
  const char *uuid = strtok_r(NULL, " ", &rest);
  return pci != NULL && uuid != NULL && device->pci != NULL && strcasecmp(pci, device->pci) == 0 &&
         (device->uuid == NULL || strcasecmp(uuid, device->uuid) == 0);
}

/* The devices in the machine file of this node or, before the stand-in has made it, what the
   environment carries; NULL where there is neither. */
static char *machine_text(void) {
  struct tps_text text;
  tps_text_init(&text);
  const char *path = tps_getenv("TOPOSEAT_EMULATED_MACHINE");
  FILE *file = path == NULL ? NULL : fopen(path, "re");
  char line[512];
  while (file != NULL && text.length < MOST_TEXT && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, "device ", 7) == 0) /* of each pair of devices there is a line, too */
      tps_text_add(&text, "%s", line);
  if (file != NULL)
    fclose(file);
  const char *carried = tps_getenv("TOPOSEAT_EMULATED_TEXT");
  if (text.length == 0 && carried != NULL)
    tps_text_add(&text, "%s", carried);
  if (text.length > 0)
    return text.data;
  tps_text_free(&text);
  return NULL;
}

bool tps_emulated_has(const struct tps_device *device) {
  char *text = machine_text();
  if (text == NULL)
    return true;
  char *rest = NULL;
  bool found = false;
  for (char *line = strtok_r(text, ";\n", &rest); line != NULL && !found;
       line = strtok_r(NULL, ";\n", &rest))
    found = is_of_line(line, device);
  free(text);
  return found;
}
