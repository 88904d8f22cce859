/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "options.h"

#include "text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const char tps_help_text[] =
    "usage: toposeat-exec [-m PLACEMENT] [options] [--] PROGRAM [ARGUMENT]...\n"
    "\n"
    "Gives this rank the device, CPUs, memory node and NIC of its line in PLACEMENT and becomes\n"
    "PROGRAM. Write it after any launcher: mpirun -n 8 toposeat-exec -m app.place ./app\n"
    "\n"
    "  -m, --placement FILE        what 'toposeat map -o FILE' wrote; without it only -E and\n"
    "                              --preload are applied\n"
    "      --visibility MODE       permute (default): every rank of a node sees the same list, "
    "device\n"
    "                              of local rank i at position i; mask: only its own device; "
    "rotate:\n"
    "                              its own first; cpu-only: device variables stay as they are\n"
    "      --ids FORM              auto (default), integer or uuid: how NVIDIA and AMD devices "
    "are\n"
    "                              named in the list\n"
    "      --memory-policy POLICY  preferred (default), bind or none\n"
    "      --local-rank-env NAME   read the local rank from this variable\n"
    "      --elastic               in a world of other nodes than PLACEMENT's, take the seat of "
    "the "
    "local\n"
    "                              rank on this host (torchrun)\n"
    "      --report DIR            write what this rank really got into a file of DIR\n"
    "      --probe LIB             libtoposeat_probe.so, if not beside this program\n"
    "      --preload LIB           put LIB in front of LD_PRELOAD; may be repeated\n"
    "      --home WORDS            wait until every rank of the job is known to have its seat: "
    "what\n"
    "                              'toposeat run' adds for jobs of several nodes\n"
    "      --records RUN:DIR       note in DIR, or in this node's own folder if it is not that of "
    "the run,\n"
    "                              that this rank was started ('toposeat profile')\n"
    "      --collect RUN:HOME      start nothing; send home what ranks of the run left on this "
    "node\n"
    "      --leave RUN:HOME        the same, once no process of the run lives on this node\n"
    "      --borrow LIB            point the OpenCL loader to LIB, and to the lent devices of this "
    "rank\n"
    "                              in TOPOSEAT_BORROW ('toposeat borrow')\n"
    "      --local-too DIR         with --borrow, also to this node's own devices, by a folder in "
    "DIR\n"
    "      --end-with PID          PROGRAM gets SIGTERM when this parent process ends\n"
    "      --open-files N          PROGRAM may open so many files\n"
    "  -E KEY=VALUE                set a variable for PROGRAM; may be repeated\n"
    "      --strict                start nothing if anything is not as placed\n"
    "      --dry-run               print what would be done, start nothing\n"
    "  -h, --help    --version\n"
    "\n"
    "Exit code: that of PROGRAM; 127 it does not exist, 126 it cannot be started, 2 wrong usage,\n"
    "125 not started because a rank of the job cannot be seated (--home), 98 stopped by "
    "--strict.\n";

const char *tps_mode_name(enum tps_mode mode) {
  static const char *const names[] = {"permute", "mask", "rotate", "cpu-only"};
  return names[mode];
}

/* The position of `value` in `names`, -1 if it is not there. */
static int position_of(const char *value, const char *const *names, int count) {
  for (int i = 0; i < count; i++)
    if (strcmp(value, names[i]) == 0)
      return i;
  return -1;
}

static bool set_choice(const char *option, const char *value, const char *const *names, int count,
                       int *choice, char *error, size_t error_size) {
  *choice = position_of(value, names, count);
  if (*choice >= 0)
    return true;
  struct tps_text expected;
  tps_text_init(&expected);
  for (int i = 0; i < count; i++)
    tps_text_add(&expected, "%s%s", i == 0 ? "" : i == count - 1 ? " or " : ", ", names[i]);
  snprintf(error, error_size, "%s must be %s, not '%s'", option, expected.data, value);
  tps_text_free(&expected);
  return false;
}

static bool set_mode(struct tps_options *options, const char *value, char *error, size_t size) {
  static const char *const names[] = {"permute", "mask", "rotate", "cpu-only"};
  int choice;
  if (!set_choice("--visibility", value, names, 4, &choice, error, size))
    return false;
  options->mode = (enum tps_mode)choice;
  return true;
}

static bool set_ids(struct tps_options *options, const char *value, char *error, size_t size) {
  static const char *const names[] = {"auto", "integer", "uuid"};
  int choice;
  if (!set_choice("--ids", value, names, 3, &choice, error, size))
    return false;
  options->ids = (enum tps_ids)choice;
  return true;
}

static bool set_memory(struct tps_options *options, const char *value, char *error, size_t size) {
  static const char *const names[] = {"preferred", "bind", "none"};
  int choice;
  if (!set_choice("--memory-policy", value, names, 3, &choice, error, size))
    return false;
  options->memory = (enum tps_memory)choice;
  return true;
}

static bool set_parent(struct tps_options *options, const char *value, char *error, size_t size) {
  if (tps_parse_number(value, INT_MAX, &options->parent))
    return true;
  snprintf(error, size, "--end-with must be a process id, not '%s'", value);
  return false;
}

static bool set_open_files(struct tps_options *options, const char *value, char *error,
                           size_t size) {
  if (tps_parse_number(value, INT_MAX, &options->open_files) && options->open_files > 0)
    return true;
  snprintf(error, size, "--open-files must be a number, not '%s'", value);
  return false;
}

static bool add_assignment(struct tps_options *options, const char *value, char *error,
                           size_t error_size) {
  const char *equals = strchr(value, '=');
  if (equals == NULL || equals == value) {
    snprintf(error, error_size, "-E needs KEY=VALUE, not '%s'", value);
    return false;
  }
  options->assignments[options->assignment_count++] = value;
  return true;
}

static bool add_preload(struct tps_options *options, const char *value, char *error, size_t size) {
  if (*value == '\0') {
    snprintf(error, size, "--preload needs a value");
    return false;
  }
  options->preloads[options->preload_count++] = value;
  return true;
}

/* Sets one option that takes a value; `name` is spelled out. */
static bool set_value(struct tps_options *options, const char *name, const char *value, char *error,
                      size_t error_size) {
  const struct {
    const char *name;
    const char **target;
  } plain[] = {{"--placement", &options->placement},
               {"--report", &options->report_folder},
               {"--probe", &options->probe},
               {"--records", &options->records},
               {"--collect", &options->collect},
               {"--leave", &options->leave},
               {"--borrow", &options->borrow},
               {"--local-too", &options->vendors},
               {"--local-rank-env", &options->local_rank_env},
               {"--home", &options->home}};
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
    if (strcmp(name, plain[i].name) == 0) {
      if (*value == '\0') {
        snprintf(error, error_size, "%s needs a value", name);
        return false;
      }
      *plain[i].target = value;
      return true;
    }
  }
  if (strcmp(name, "--preload") == 0)
    return add_preload(options, value, error, error_size);
  if (strcmp(name, "--visibility") == 0)
    return set_mode(options, value, error, error_size);
  if (strcmp(name, "--ids") == 0)
    return set_ids(options, value, error, error_size);
  if (strcmp(name, "--memory-policy") == 0)
    return set_memory(options, value, error, error_size);
  if (strcmp(name, "--end-with") == 0)
    return set_parent(options, value, error, error_size);
  if (strcmp(name, "--open-files") == 0)
    return set_open_files(options, value, error, error_size);
  return add_assignment(options, value, error, error_size); /* -E */
}

/* The full name of an option with a value that `argument` starts, NULL if it starts none.
   `value` is what is attached to it, else NULL. */
static const char *valued_option(const char *argument, const char **value) {
  static const char *const names[] = {
      "--placement", "--visibility",     "--ids",      "--memory-policy", "--report",  "--probe",
      "--preload",   "--local-rank-env", "--end-with", "--home",          "--records", "--collect",
      "--leave",     "--open-files",     "--borrow",   "--local-too"};
  *value = NULL;
  if (strncmp(argument, "-m", 2) == 0 || strncmp(argument, "-E", 2) == 0) {
    if (argument[2] != '\0')
      *value = argument + 2;
    return argument[1] == 'm' ? "--placement" : "-E";
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t length = strlen(names[i]);
    if (strncmp(argument, names[i], length) != 0)
      continue;
    if (argument[length] == '=')
      *value = argument + length + 1;
    if (argument[length] == '\0' || argument[length] == '=')
      return names[i];
  }
  return NULL;
}

enum tps_parsed tps_options_parse(struct tps_options *options, int argc, char **argv, char *error,
                                  size_t error_size) {
  memset(options, 0, sizeof *options);
  options->assignments = (const char **)tps_allocate((size_t)argc, sizeof *options->assignments);
  options->preloads = (const char **)tps_allocate((size_t)argc, sizeof *options->preloads);
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; at++) {
    const char *argument = argv[at];
    if (strcmp(argument, "--") == 0) {
      at++;
      break;
    }
    if (strcmp(argument, "-h") == 0 || strcmp(argument, "--help") == 0)
      return TPS_PARSED_HELP;
    if (strcmp(argument, "--version") == 0)
      return TPS_PARSED_VERSION;
    if (strcmp(argument, "--strict") == 0) {
      options->strict = true;
      continue;
    }
    if (strcmp(argument, "--elastic") == 0) {
      options->elastic = true;
      continue;
    }
    if (strcmp(argument, "--dry-run") == 0) {
      options->dry_run = true;
      continue;
    }
    const char *value;
    const char *name = valued_option(argument, &value);
    if (name == NULL) {
      snprintf(error, error_size, "unknown option '%s'", argument);
      return TPS_PARSED_ERROR;
    }
    if (value == NULL && at + 1 >= argc) {
      snprintf(error, error_size, "%s needs a value", name);
      return TPS_PARSED_ERROR;
    }
    if (value == NULL)
      value = argv[++at];
    if (!set_value(options, name, value, error, error_size))
      return TPS_PARSED_ERROR;
  }
  options->program = argv + at;
  if (at >= argc && options->collect == NULL && options->leave == NULL) {
    snprintf(error, error_size, "no program to start");
    return TPS_PARSED_ERROR;
  }
  return TPS_PARSED_RUN;
}
