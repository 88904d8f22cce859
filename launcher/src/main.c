/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* toposeat-exec: gives a rank its seat, then becomes the program.

   Order of events: read the command line, plan all changes, stop here if --strict finds fault or
   for
   --dry-run, apply the plan, write the report, exec. Anything unexpected is said once and the
   program is started all the same, because a job that runs unplaced beats a job that does not run.
 */
#include "environment.h"
#include "message.h"
#include "options.h"
#include "preload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef TOPOSEAT_VERSION
#define TOPOSEAT_VERSION "unknown"
#endif

enum { EXIT_STRICT = 1, EXIT_USAGE = 2, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

static void plan_assignments(struct tps_environment *environment,
                             const struct tps_options *options) {
  for (size_t i = 0; i < options->assignment_count; i++) {
    char *name = tps_copy_string(options->assignments[i]);
    char *equals = strchr(name, '=');
    *equals = '\0';
    tps_environment_set(environment, name, equals + 1);
    free(name);
  }
}

/* Becomes the program; returns only if that failed, with the exit code. */
static int become(char **program, const struct tps_messages *messages) {
  execvp(program[0], program);
  int cause = errno;
  tps_error(messages, "cannot start %s: %s", program[0], strerror(cause));
  return cause == ENOENT || cause == ENOTDIR ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

int main(int argc, char **argv) {
  struct tps_messages messages;
  tps_messages_init(&messages);
  struct tps_options options;
  char error[512];
  switch (tps_options_parse(&options, argc, argv, error, sizeof error)) {
  case TPS_PARSED_HELP:
    return fputs(tps_help_text, stdout) < 0;
  case TPS_PARSED_VERSION:
    return puts("toposeat-exec " TOPOSEAT_VERSION) < 0;
  case TPS_PARSED_ERROR:
    tps_error(&messages, "%s (toposeat-exec --help lists the options)", error);
    return EXIT_USAGE;
  case TPS_PARSED_RUN:
    break;
  }
  struct tps_environment environment = {0};
  plan_assignments(&environment, &options);
  if (options.preload != NULL)
    tps_preload_add(&environment, options.preload, &messages);
  if (options.strict && messages.warnings > 0)
    return EXIT_STRICT;
  tps_environment_apply(&environment);
  return become(options.program, &messages);
}
