/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "plan.h"

#include "borrow.h"
#include "emulated.h"
#include "nic.h"
#include "nic_state.h"
#include "preload.h"
#include "program.h"
#include "report.h"
#include "seating.h"
#include "visibility.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- making it ---- */

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

static void tell_emulated(const struct tps_seat *seat, struct tps_messages *messages) {
  bool has_more = seat->cpus != NULL || seat->memory_node >= 0 || seat->nic != NULL;
  if (has_more && tps_getenv("TOPOSEAT_EMULATOR_QUIET") == NULL)
    tps_note(messages, "emulated GPUs: CPUs, memory nodes and NICs of the placement are those of "
                       "the emulated machine, not of this one; only its devices are applied");
}

static void plan_devices(struct tps_plan *plan, const struct tps_options *options,
                         struct tps_messages *messages) {
  struct tps_visibility visibility = {.placement = &plan->placement,
                                      .seat = plan->seat,
                                      .mode = options->mode,
                                      .ids = options->ids,
                                      .environment = &plan->environment,
                                      .messages = messages,
                                      .local_rank = plan->identity.local_rank,
                                      .must_exist = plan->meeting != NULL};
  const struct tps_seat **locals = tps_seating_locals(&plan->placement, plan->seat, plan->meeting);
  visibility.locals = locals;
  visibility.local_count =
      locals == NULL || plan->meeting == NULL ? 0 : plan->meeting->neighbour_count;
  tps_visibility_plan(&visibility);
  free((void *)locals);
  plan->mode = visibility.mode;
  plan->variable = visibility.variable;
  if (!tps_is_emulated())
    tps_nearby_find(&plan->nearby, &visibility);
}

/* The placement that home sent, else the file. */
static bool load_placement(struct tps_plan *plan, const struct tps_options *options,
                           struct tps_messages *messages) {
  char error[512];
  const struct tps_text *sent =
      plan->meeting != NULL && plan->meeting->has_seats ? &plan->meeting->seats : NULL;
  bool loaded = sent == NULL
                    ? tps_placement_load(&plan->placement, options->placement, error, sizeof error)
                    : tps_placement_read(&plan->placement, tps_copy_string(sent->data),
                                         sent->length, options->placement, error, sizeof error);
  if (!loaded) {
    messages->silent = plan->identity.local_rank > 0; /* the same for all ranks of a node */
    tps_refuse(messages, "; started without placement", "%s", error);
  }
  return loaded;
}

/* How many ranks a placement has on this node, by any of the node's names. */
static long count_here(const struct tps_text *text, const void *context) {
  const struct tps_identity *identity = context;
  struct tps_placement placement;
  char error[512];
  if (!tps_placement_read(&placement, tps_copy_string(text->data), text->length, "", error,
                          sizeof error))
    return -1;
  long count = 0;
  for (size_t i = 0; i < placement.seat_count; i++)
    count += tps_seating_is_here(&placement, identity, placement.seats[i].host);
  tps_placement_free(&placement);
  return count;
}

static void plan_meeting(struct tps_plan *plan, const struct tps_options *options) {
  plan->meeting = tps_allocate(1, sizeof *plan->meeting);
  tps_meeting_join(plan->meeting, options->home, options->placement, &plan->identity, count_here,
                   &plan->identity);
  tps_environment_set(&plan->environment, "TOPOSEAT_HOME",
                      plan->meeting->at_home ? plan->meeting->address : options->home);
}

static void plan_nic(struct tps_plan *plan, const struct tps_seat *nearby,
                     struct tps_messages *messages) {
  struct tps_nic_seat nic = {.nic = nearby->nic,
                             .binding = &plan->binding,
                             .placement = &plan->placement,
                             .own = plan->mode != TPS_CPU_ONLY && nearby == plan->seat ? nearby
                                                                                       : NULL};
  struct tps_text cause;
  tps_text_init(&cause);
  if (tps_nic_is_usable(nearby->nic, &cause))
    tps_nic_plan(&plan->environment, &nic, messages);
  else
    tps_leave_out(messages, "nic", "%s: it is left out", cause.data);
  tps_text_free(&cause);
}

/* Where MPI is to reorder ranks: the device that this one will use, and how near devices are. */
static void plan_costs(struct tps_plan *plan, const struct tps_seat *used) {
  const char *costs = plan->placement.costs;
  if (used == NULL || costs == NULL ||
      tps_environment_get(&plan->environment, "TOPOSEAT_REORDER") == NULL)
    return;
  struct tps_text text;
  tps_text_init(&text);
  tps_text_add(&text, "%lu;%s", used->device.index, costs);
  tps_environment_set(&plan->environment, "TOPOSEAT_REORDER_COSTS", text.data);
  tps_text_free(&text);
}

static void plan_placement(struct tps_plan *plan, const struct tps_options *options,
                           struct tps_messages *messages) {
  if (!load_placement(plan, options, messages))
    return;
  plan->seat =
      tps_seating_find(&plan->placement, &plan->identity, options->mode, plan->meeting, messages);
  if (plan->seat == NULL)
    return;
  plan_devices(plan, options, messages);
  if (tps_is_emulated())
    tell_emulated(plan->seat, messages);
  const struct tps_seat *nearby = plan->nearby.seat;
  plan_costs(plan, tps_is_emulated() ? plan->seat : nearby);
  if (nearby == NULL)
    return;
  tps_binding_plan(&plan->binding, nearby, options->memory, messages);
  if (nearby->nic != NULL)
    plan_nic(plan, nearby, messages);
}

static void plan_probe(struct tps_plan *plan, const struct tps_options *options,
                       struct tps_messages *messages) {
  char *found = options->probe == NULL ? tps_preload_find_probe() : NULL;
  const char *library = options->probe == NULL ? found : options->probe;
  if (library != NULL)
    plan->preloaded += tps_preload_add(&plan->environment, library, messages);
  free(found);
  char number[32];
  if (options->report_folder != NULL) {
    /* The program may change its directory before it ends. */
    char *folder = realpath(options->report_folder, NULL);
    tps_environment_set(&plan->environment, "TOPOSEAT_REPORT_DIR",
                        folder == NULL ? options->report_folder : folder);
    free(folder);
  }
  snprintf(number, sizeof number, "%ld", plan->identity.rank);
  tps_environment_set(&plan->environment, "TOPOSEAT_RANK", number);
  snprintf(number, sizeof number, "%ld", (long)getpid());
  tps_environment_set(&plan->environment, "TOPOSEAT_PID", number);
  if (plan->variable == NULL || plan->seat == NULL || plan->seat->device.pci == NULL)
    return;
  tps_environment_set(&plan->environment, "TOPOSEAT_DEVICE", plan->seat->device.pci);
  const char *list = tps_environment_get(&plan->environment, plan->variable);
  struct tps_text given;
  tps_text_init(&given);
  tps_text_add(&given, "%s=%s", plan->variable, list == NULL ? "" : list);
  if (list != NULL)
    tps_environment_set(&plan->environment, "TOPOSEAT_LIST", given.data);
  tps_text_free(&given);
}

void tps_plan_make(struct tps_plan *plan, const struct tps_options *options,
                   struct tps_messages *messages) {
  *plan = (struct tps_plan){.mode = options->mode};
  plan->binding.policy = TPS_MEMORY_NONE;
  plan_assignments(&plan->environment, options);
  for (size_t i = options->preload_count; i-- > 0;) /* each goes in front of those before it */
    plan->preloaded += tps_preload_add(&plan->environment, options->preloads[i], messages);
  if (options->placement != NULL || options->report_folder != NULL || options->borrow != NULL)
    tps_identity_detect(&plan->identity, options->local_rank_env, messages);
  plan->identity.elastic = options->elastic;
  if (options->placement != NULL && options->home != NULL && !options->dry_run)
    plan_meeting(plan, options);
  else if (options->home != NULL)
    tps_environment_set(&plan->environment, "TOPOSEAT_HOME", options->home);
  if (options->placement != NULL)
    plan_placement(plan, options, messages);
  if (options->borrow != NULL)
    tps_borrow_plan(&plan->environment, &plan->identity, options, messages);
  if (options->report_folder != NULL || (plan->meeting != NULL && options->probe != NULL))
    plan_probe(plan, options, messages);
}

/* ---- showing it ---- */

static void print_binding(const struct tps_binding *binding, struct tps_text *text) {
  if (binding->bind_cpus) {
    tps_text_add(text, "  bind to CPUs ");
    tps_cpus_format(&binding->cpus, text);
    tps_text_add(text, "\n");
  }
  if (binding->policy != TPS_MEMORY_NONE)
    tps_text_add(text, "  %s memory of NUMA node %lu\n",
                 binding->policy == TPS_MEMORY_BIND ? "take only" : "prefer", binding->node);
}

void tps_plan_print(const struct tps_plan *plan, const struct tps_options *options) {
  struct tps_text text;
  tps_text_init(&text);
  if (plan->identity.launcher != NULL) {
    tps_text_add(&text, "rank %ld, local rank %ld, host ", plan->identity.rank,
                 plan->identity.local_rank);
    tps_text_add_escaped(&text, plan->identity.host);
    tps_text_add(&text, " (launcher: %s)\n", plan->identity.launcher);
  }
  for (size_t i = 0; i < plan->environment.count; i++) {
    const struct tps_variable *variable = &plan->environment.changes[i];
    tps_text_add(&text, variable->value == NULL ? "  unset " : "  set ");
    tps_text_add_escaped(&text, variable->name);
    tps_text_add(&text, variable->value == NULL ? "" : "=");
    tps_text_add_escaped(&text, variable->value == NULL ? "" : variable->value);
    tps_text_add(&text, "\n");
  }
  print_binding(&plan->binding, &text);
  tps_text_add(&text, "  exec");
  for (char **word = options->program; *word != NULL; word++) {
    tps_text_add(&text, " ");
    tps_text_add_escaped(&text, *word);
  }
  tps_text_add(&text, "\n");
  fwrite(text.data, 1, text.length, stdout);
  fflush(stdout);
  tps_text_free(&text);
}

/* ---- doing it ---- */

void tps_plan_apply(const struct tps_plan *plan, struct tps_messages *messages) {
  tps_environment_apply(&plan->environment);
  tps_binding_apply(&plan->binding, messages);
}

/* ---- telling it ---- */

static void report_identity(struct tps_report *report, const struct tps_identity *identity) {
  tps_report_add_number(report, "rank", identity->rank);
  tps_report_add_number(report, "size", identity->size);
  tps_report_add_number(report, "local_rank", identity->local_rank);
  tps_report_add_number(report, "local_size", identity->local_size);
  tps_report_add(report, "launcher", identity->launcher);
  if (identity->rank_source != NULL)
    tps_report_add(report, "rank_source", identity->rank_source);
  if (identity->local_rank_source != NULL)
    tps_report_add(report, "local_rank_source", identity->local_rank_source);
}

static void report_seat(struct tps_report *report, const struct tps_plan *plan) {
  const struct tps_seat *seat = plan->seat;
  tps_report_add(report, "seated", seat == NULL ? "no" : "yes");
  if (seat == NULL)
    return;
  tps_report_add(report, "visibility", tps_mode_name(plan->mode));
  if (seat->device.pci != NULL)
    tps_report_add(report, "device_pci", seat->device.pci);
  if (seat->device.uuid != NULL)
    tps_report_add(report, "device_uuid", seat->device.uuid);
  tps_report_add_number(report, "device_index", (long)seat->device.index);
  if (plan->variable != NULL) {
    tps_report_add(report, "visible_variable", plan->variable);
    const char *list = getenv(plan->variable);
    if (list != NULL)
      tps_report_add(report, "visible_devices", list);
  }
  const struct tps_seat *nearby = plan->nearby.seat;
  if (nearby == NULL || nearby == &plan->nearby.made)
    return;
  tps_report_add_number(report, "nearby_rank", (long)nearby->rank);
  for (size_t i = 0; nearby->nic != NULL && tps_nic_variables[i] != NULL; i++) {
    const char *value = getenv(tps_nic_variables[i]);
    struct tps_text text;
    tps_text_init(&text);
    if (value != NULL) {
      tps_text_add(&text, "%s=%s", tps_nic_variables[i], value);
      tps_report_add(report, "nic", text.data);
    }
    tps_text_free(&text);
  }
}

static void make_report(struct tps_report *report, const struct tps_plan *plan,
                        const struct tps_options *options, const struct tps_messages *messages) {
  tps_report_init(report, "# toposeat/report/1");
  report_identity(report, &plan->identity);
  if (options->placement != NULL)
    report_seat(report, plan);
  tps_report_add_process(report);
  if (tps_is_static(options->program[0]))
    tps_report_add(report, "linkage", "static");
  tps_text_add(&report->text, "%s", messages->lines.data);
}

void tps_plan_report(const struct tps_plan *plan, const struct tps_options *options,
                     struct tps_messages *messages) {
  struct tps_report report;
  make_report(&report, plan, options, messages);
  char name[64];
  if (plan->identity.rank >= 0)
    snprintf(name, sizeof name, "rank-%ld.seat", plan->identity.rank);
  else
    snprintf(name, sizeof name, "pid-%ld.seat", (long)getpid());
  if (!tps_report_write(&report, options->report_folder, name))
    tps_warn(messages, "cannot write the report %s/%s: %s", options->report_folder, name,
             strerror(errno));
  tps_report_free(&report);
}

/* ---- starting ---- */

/* Home says what became of a job; where it is not there, one rank of each node does. */
static void tell_without_home(const struct tps_plan *plan, const struct tps_options *options,
                              struct tps_messages *messages, bool starts, bool is_refused) {
  static const char remedy[] =
      "let that port through, or name open ones on that host: TOPOSEAT_PORTS=FROM-TO";
  char where[512] = "has gone";
  if (plan->meeting->address == NULL)
    tps_home_describe(options->home, where, sizeof where);
  bool says = messages->speaks && !messages->silent;
  if (starts)
    tps_note(messages,
             "started and unverified: the host that started this job %s; seats are checked on this "
             "node, not across nodes (%s)",
             where, remedy);
  else if (says && is_refused)
    tps_error(messages, "not started: a rank of this node cannot be seated as placed");
  else if (says)
    tps_error(messages,
              "not started: the host that started this job %s, and --strict starts nothing that "
              "is checked on this node alone (%s)",
              where, remedy);
}

bool tps_plan_may_start(struct tps_plan *plan, const struct tps_options *options,
                        struct tps_messages *messages) {
  char path[PATH_MAX];
  if (plan->meeting->at_home && !tps_find_program(options->program[0], path, sizeof path))
    tps_refuse(messages, NULL, "%.200s is not found, or cannot be executed", options->program[0]);
  struct tps_report report;
  make_report(&report, plan, options, messages);
  bool seated =
      plan->seat != NULL && messages->refusals == 0 && !(options->strict && messages->warnings > 0);
  enum tps_decision decision =
      tps_meeting_decide(plan->meeting, plan->identity.rank, seated, &report.text);
  tps_report_free(&report);
  bool at_home = plan->meeting->at_home;
  bool starts = decision == TPS_START && (at_home || !options->strict);
  messages->silent |= at_home;
  if (!at_home)
    tell_without_home(plan, options, messages, starts, decision == TPS_END);
  tps_meeting_leave(plan->meeting);
  return starts;
}
