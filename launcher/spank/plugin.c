/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A plugin of Slurm (SPANK): srun --toposeat=FILE ./app seats every task as toposeat-exec would,
   with nothing in front of the program.

   srun only checks the words of the options. All else happens in the process of the task, as the
   user, between fork and exec: slurmstepd itself reads no file of the user, and what goes wrong
   takes no other task along. The C library's environment is slurmstepd's there, not the task's. */
#include "message.h"
#include "options.h"
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC visibility push(default) /* the rest of this library is nobody's business */
#include <slurm/spank.h>
SPANK_PLUGIN(toposeat, 1)
#pragma GCC visibility pop

enum { PLACEMENT, VISIBILITY, MEMORY_POLICY, STRICT, OPTIONS };

static int check_option(int option, const char *value, int remote);

struct spank_option spank_options[] = {
    [PLACEMENT] = {"toposeat", "FILE", "seat every task as this placement says", 1, PLACEMENT,
                   check_option},
    [VISIBILITY] = {"toposeat-visibility", "MODE",
                    "what tasks see of the GPUs: permute (default), mask, rotate or cpu-only", 1,
                    VISIBILITY, check_option},
    [MEMORY_POLICY] = {"toposeat-memory-policy", "POLICY", "preferred (default), bind or none", 1,
                       MEMORY_POLICY, check_option},
    [STRICT] = {"toposeat-strict", NULL, "start no task that is not as placed", 0, STRICT,
                check_option},
    [OPTIONS] = SPANK_OPTIONS_TABLE_END};

/* What toposeat-exec calls them. */
static char *const WORDS[OPTIONS] = {[PLACEMENT] = "--placement",
                                     [VISIBILITY] = "--visibility",
                                     [MEMORY_POLICY] = "--memory-policy",
                                     [STRICT] = "--strict"};

/* A command line of toposeat-exec. */
struct line {
  char *words[2 * OPTIONS + 3];
  int count;
};

static void begin(struct line *line) { *line = (struct line){.words = {"toposeat-exec"}, 1}; }

static void add(struct line *line, int option, char *value) {
  line->words[line->count++] = WORDS[option];
  if (spank_options[option].has_arg)
    line->words[line->count++] = value;
}

static bool parse(struct line *line, struct tps_options *options, char *error, size_t size) {
  line->words[line->count++] = "the task";
  return tps_options_parse(options, line->count, line->words, error, size) == TPS_PARSED_RUN;
}

/* Ends srun, before anything starts, where it is told something impossible. */
static int check_option(int option, const char *value, int remote) {
  if (remote || option < 0 || option >= OPTIONS)
    return 0;
  struct line line;
  struct tps_options options;
  char error[512];
  begin(&line);
  char *copy = tps_copy_string(value == NULL ? "" : value);
  add(&line, option, copy);
  bool is_right = parse(&line, &options, error, sizeof error);
  size_t length = strlen(WORDS[option]); /* errors begin with it */
  if (!is_right)
    slurm_error("--%s%s", spank_options[option].name,
                strncmp(error, WORDS[option], length) == 0 ? error + length : error);
  free((void *)options.assignments);
  free(copy);
  return is_right ? 0 : -1;
}

/* What the user asked for. */
static void read_options(spank_t spank, struct line *line) {
  begin(line);
  for (int option = 0; option < OPTIONS; option++) {
    char *value = NULL;
    if (spank_option_getopt(spank, &spank_options[option],
                            spank_options[option].has_arg ? &value : NULL) == ESPANK_SUCCESS)
      add(line, option, value);
  }
}

/* What goes wrong before a task has its plan is the same for all tasks of a node: one says it. */
static void prepare(spank_t spank, struct tps_messages *messages) {
  int task = 0;
  char host[sizeof messages->rank - 2] = "";
  tps_messages_init(messages);
  messages->speaker = "srun --toposeat";
  messages->silent = spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS && task > 0;
  if (gethostname(host, sizeof host - 1) == 0)
    snprintf(messages->rank, sizeof messages->rank, "%s: ", host);
}

/* Plans in the environment of the task, which is only read. */
static bool make_plan(spank_t spank, const struct tps_options *options, struct tps_plan *plan,
                      struct tps_messages *messages) {
  char **of_task = NULL, **own = environ;
  if (spank_get_item(spank, S_JOB_ENV, &of_task) != ESPANK_SUCCESS || of_task == NULL) {
    tps_refuse(messages, "; started without placement",
               "Slurm does not tell the task's environment");
    return false;
  }
  messages->silent = false;
  environ = of_task;
  tps_plan_make(plan, options, messages);
  environ = own;
  return true;
}

static void apply(spank_t spank, const struct tps_plan *plan, struct tps_messages *messages) {
  for (size_t i = 0; i < plan->environment.count; i++) {
    const struct tps_variable *variable = &plan->environment.changes[i];
    spank_err_t done = variable->value == NULL
                           ? spank_unsetenv(spank, variable->name)
                           : spank_setenv(spank, variable->name, variable->value, 1);
    if (done != ESPANK_SUCCESS)
      tps_warn(messages, "cannot change %s: %s", variable->name, spank_strerror(done));
  }
  tps_binding_apply(&plan->binding, messages);
}

int slurm_spank_task_init(spank_t spank, int count, char **arguments) {
  (void)count, (void)arguments; /* of plugstack.conf */
  struct line line;
  read_options(spank, &line);
  if (line.count == 1)
    return 0; /* nobody asked for this */
  struct tps_messages messages;
  prepare(spank, &messages);
  struct tps_options options;
  char error[512];
  if (!parse(&line, &options, error, sizeof error))
    tps_refuse(&messages, "; started without placement", "%s", error);
  else if (options.placement == NULL)
    tps_refuse(&messages, "; started without placement", "--toposeat=FILE is missing");
  options.local_rank_env = "SLURM_LOCALID"; /* whatever other launcher srun was called by */
  struct tps_plan plan;
  if (messages.warnings == 0 && make_plan(spank, &options, &plan, &messages))
    apply(spank, &plan, &messages);
  bool starts = !options.strict || messages.warnings == 0;
  tps_messages_say(&messages, starts);
  if (starts)
    return 0;
  if (!messages.silent)
    tps_error(&messages, "not started: --toposeat-strict and %zu warning%s above",
              messages.warnings, messages.warnings == 1 ? "" : "s");
  _exit(TPS_EXIT_NOT_AS_PLACED); /* an error of an optional plugin would not stop the task */
}
