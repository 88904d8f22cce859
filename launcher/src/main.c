/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* toposeat-exec: gives a rank its seat, then becomes the program.

   Order of events: read the command line, plan all changes, show them for --dry-run, apply them,
   write the report, stop here if --strict finds fault, exec. Anything unexpected is said and the
   program is started all the same, because a job that runs unplaced beats a job that does not run;
   but where all ranks can agree (--home), a job is seated whole or not started.
 */
#include "carry.h"
#include "message.h"
#include "options.h"
#include "plan.h"
#include "preload.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef TOPOSEAT_VERSION
#define TOPOSEAT_VERSION "unknown"
#endif

enum { EXIT_USAGE = 2, EXIT_REFUSED = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* Lets the kernel end this process with its parent, however that ends. */
static void end_with(unsigned long parent) {
  if (parent == 0)
    return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if ((unsigned long)getppid() != parent) /* it has ended before */
    raise(SIGTERM);
}

static void limit_open_files(unsigned long number) {
  struct rlimit limit;
  if (number == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = number;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/* Becomes the program; returns only if that failed, with the exit code. */
static int become(char **program, const struct tps_messages *messages) {
  execvp(program[0], program);
  int cause = errno;
  tps_error(messages, "cannot start %s: %s", program[0], strerror(cause));
  return cause == ENOENT || cause == ENOTDIR ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

static int stop_strictly(const struct tps_messages *messages) {
  tps_error(messages, "not started: --strict and %zu warning%s above", messages->warnings,
            messages->warnings == 1 ? "" : "s");
  return TPS_EXIT_NOT_AS_PLACED;
}

/* The end of the part before the first colon; the rest begins behind it. NULL without a colon. */
static const char *split_run(const char *words, char *run, size_t size) {
  const char *colon = strchr(words, ':');
  if (colon == NULL || (size_t)(colon - words) >= size)
    return NULL;
  snprintf(run, size, "%.*s", (int)(colon - words), words);
  return colon + 1;
}

/* Leaves word of the rank's host, which is missed only where the rank leaves no record; names the
   folder of the records anew where it is this node's own. */
static void note_start(const char *words, struct tps_identity *identity,
                       struct tps_messages *messages) {
  char run[128];
  char own[PATH_MAX];
  const char *folder = split_run(words, run, sizeof run);
  if (identity->launcher == NULL)
    tps_identity_detect(identity, NULL, messages);
  if (folder == NULL)
    return;
  if (!tps_is_folder_of_run(folder, run)) {
    if (!tps_node_folder(run, true, own, sizeof own)) {
      tps_warn(messages, "no folder for the records of this node: %s", strerror(errno));
      return;
    }
    folder = own;
    setenv("TOPOSEAT_PROFILE_DIR", own, 1);
  }
  if (identity->rank >= 0)
    tps_note_start(folder, identity->rank); /* a full disk is said by the rank itself */
}

/* With `at_once` even if processes of the run live here. The exit code. */
static int collect(const char *words, bool at_once, const struct tps_messages *messages) {
  char run[128];
  char folder[PATH_MAX];
  const char *home = split_run(words, run, sizeof run);
  if (home == NULL || !tps_node_folder(run, false, folder, sizeof folder))
    return 0; /* nothing was left here */
  if (!at_once && !tps_all_left(folder))
    return 0;
  enum tps_carried carried = tps_carry_home(folder, home, at_once);
  if (carried == TPS_UNREACHED)
    tps_error(messages, "cannot send %s home (TOPOSEAT_PORTS=FROM-TO names ports that are open)",
              folder);
  if (carried == TPS_NOT_KEPT)
    tps_error(messages, "%s stays on this node: it was not kept at home", folder);
  return carried == TPS_CARRIED ? 0 : 1;
}

/* Whether the rank is started, and with what exit code it ends otherwise. */
static bool decide(struct tps_plan *plan, const struct tps_options *options,
                   struct tps_messages *messages, int *code) {
  *code = EXIT_REFUSED;
  if (plan->meeting != NULL && !tps_plan_may_start(plan, options, messages))
    return false;
  if (options->report_folder != NULL)
    tps_plan_report(plan, options, messages);
  *code = TPS_EXIT_NOT_AS_PLACED;
  return !options->strict || messages->warnings == 0;
}

static int seat_and_start(const struct tps_options *options, struct tps_messages *messages) {
  struct tps_plan plan;
  int code = TPS_EXIT_NOT_AS_PLACED;
  tps_plan_make(&plan, options, messages);
  bool starts = !options->strict || messages->warnings == 0;
  if (options->dry_run) {
    tps_plan_print(&plan, options);
    code = starts ? 0 : TPS_EXIT_NOT_AS_PLACED;
  } else {
    tps_plan_apply(&plan, messages);
    starts = decide(&plan, options, messages, &code);
  }
  if (starts && !options->dry_run && options->records != NULL)
    note_start(options->records, &plan.identity, messages);
  tps_messages_say(messages, starts);
  if (!starts && code == TPS_EXIT_NOT_AS_PLACED)
    return stop_strictly(messages);
  if (!starts || options->dry_run)
    return code;
  end_with(options->parent);
  limit_open_files(options->open_files);
  tps_preload_chain(options->program, plan.preloaded);
  return become(options->program, messages);
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
  if (options.collect != NULL)
    return collect(options.collect, true, &messages);
  if (options.leave != NULL)
    return collect(options.leave, false, &messages);
  return seat_and_start(&options, &messages);
}
