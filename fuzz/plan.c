/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A whole plan of toposeat-exec. Three parts with an empty line between them: the environment,
   options, each a word on its line, and the placement. */
#include "fuzz.h"

#include "plan.h"
#include "world.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_WORDS = 64 };

/* ---- a node with two devices ---- */

static void make_file(const char *root, const char *folders, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s", root);
  for (const char *at = folders; *at != '\0';) {
    size_t length = strcspn(at, "/");
    size_t end = strlen(path);
    snprintf(path + end, sizeof path - end, "/%.*s", (int)length, at);
    mkdir(path, 0700);
    at += length + (at[length] == '/');
  }
  size_t end = strlen(path);
  snprintf(path + end, sizeof path - end, "/%s", name);
  FILE *file = fopen(path, "we");
  if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
    abort();
}

static const char *node_tree(void) {
  static char root[64];
  static const char *const devices[] = {"0000:1a:00.0", "0000:3d:00.0"};
  if (root[0] != '\0')
    return root;
  strcpy(root, "/tmp/toposeat-fuzz-XXXXXX");
  if (mkdtemp(root) == NULL)
    abort();
  for (size_t i = 0; i < 2; i++) {
    char folder[128];
    snprintf(folder, sizeof folder, "sys/bus/pci/devices/%s", devices[i]);
    make_file(root, folder, "local_cpulist", "0-1\n");
    make_file(root, folder, "numa_node", "0\n");
    snprintf(folder, sizeof folder, "proc/driver/nvidia/gpus/%s", devices[i]);
    make_file(root, folder, "information", "Model: A\nGPU UUID: GPU-a\nDevice Minor: 0\n");
  }
  make_file(root, "sys/class/infiniband/mlx5_0/ports/1", "state", "4: ACTIVE\n");
  make_file(root, "sys/class/net/lo", "operstate", "unknown\n");
  return root;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status, (void)kind, (void)walk;
  return remove(path);
}

static void remove_tree(void) { nftw(node_tree(), remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* ---- an input ---- */

/* Cuts the part before the next empty line off; the rest is behind it. */
static char *next_part(char **rest) {
  char *part = *rest;
  char *end = strstr(part, "\n\n");
  if (end == NULL) {
    *rest = part + strlen(part);
    return part;
  }
  *end = '\0';
  *rest = end + 2;
  return part;
}

/* All but what leads elsewhere. */
static void set_environment(char *lines) {
  static const char *const kept[] = {"TOPOSEAT_SYSROOT", "TOPOSEAT_EMULATED_MACHINE", "ASAN_",
                                     "UBSAN_"};
  char *rest = NULL;
  clearenv();
  setenv("TOPOSEAT_SYSROOT", node_tree(), 1);
  for (char *line = strtok_r(lines, "\n", &rest); line != NULL;
       line = strtok_r(NULL, "\n", &rest)) {
    char *equals = strchr(line, '=');
    bool is_free = equals != NULL && equals != line;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
      is_free = is_free && strncmp(line, kept[i], strlen(kept[i])) != 0;
    if (!is_free)
      continue;
    *equals = '\0';
    setenv(line, equals + 1, 1);
  }
  if (getenv("TOPOSEAT_EMULATED_TEXT") != NULL)
    setenv("TOPOSEAT_EMULATED_MACHINE", "/nowhere", 1);
}

static bool read_options(struct tps_options *options, char *lines) {
  static char program[] = "./app", name[] = "toposeat-exec";
  char *words[MOST_WORDS + 3] = {name};
  char error[512] = "", *rest = NULL;
  int count = 1;
  for (char *word = strtok_r(lines, "\n", &rest); word != NULL && count < MOST_WORDS;
       word = strtok_r(NULL, "\n", &rest))
    words[count++] = word;
  words[count] = program;
  return tps_options_parse(options, count + 1, words, error, sizeof error) == TPS_PARSED_RUN;
}

static void make_plan(struct tps_options *options, char *text) {
  static char *program[] = {"./app", NULL};
  static int placement = -1;
  char path[64];
  struct tps_messages messages;
  struct tps_plan plan;
  if (placement < 0)
    placement = memfd_create("placement", MFD_CLOEXEC);
  if (ftruncate(placement, 0) != 0 || pwrite(placement, text, strlen(text), 0) < 0)
    abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", placement);
  options->placement = path;
  options->program = program;
  options->dry_run = true;
  tps_messages_init(&messages);
  messages.silent = true;
  tps_plan_make(&plan, options, &messages);
  tps_plan_print(&plan, options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool is_set_up;
  if (!is_set_up) {
    is_set_up = true;
    node_tree();
    atexit(remove_tree);
    if (freopen("/dev/null", "w", stdout) == NULL)
      abort();
  }
  char *text = calloc(size + 1, 1), *rest = text;
  if (text == NULL)
    return 0;
  memcpy(text, data, size);
  struct tps_options options;
  set_environment(next_part(&rest));
  if (read_options(&options, next_part(&rest)))
    make_plan(&options, rest);
  fuzz_world_end();
  free(text);
  return 0;
}
