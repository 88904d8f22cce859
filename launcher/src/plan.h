/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Everything that is going to change for a rank, decided before anything is changed. */
#ifndef TOPOSEAT_LAUNCHER_PLAN_H
#define TOPOSEAT_LAUNCHER_PLAN_H

#include "binding.h"
#include "environment.h"
#include "identity.h"
#include "meeting.h"
#include "nearby.h"
#include "options.h"
#include "placement.h"

struct tps_plan {
  struct tps_environment environment;
  struct tps_binding binding;
  struct tps_placement placement;
  struct tps_identity identity;
  struct tps_meeting *meeting; /* with --home and a placement, else NULL */
  const struct tps_seat *seat; /* NULL: nothing of the placement is applied */
  struct tps_nearby nearby;    /* the seat whose CPUs, memory and NIC are used */
  enum tps_mode mode;          /* as applied */
  const char *variable;        /* that rules visibility, NULL for unknown vendors */
  size_t preloaded;            /* libraries put in front of LD_PRELOAD */
};

void tps_plan_make(struct tps_plan *plan, const struct tps_options *options,
                   struct tps_messages *messages);
void tps_plan_print(const struct tps_plan *plan, const struct tps_options *options);
void tps_plan_apply(const struct tps_plan *plan, struct tps_messages *messages);

/* Writes the rank's report, after tps_plan_apply: it tells what is, not what was meant. */
void tps_plan_report(const struct tps_plan *plan, const struct tps_options *options,
                     struct tps_messages *messages);

/* With a meeting: sends the report, and waits until all ranks of the job may start. False if they
   must not. */
bool tps_plan_may_start(struct tps_plan *plan, const struct tps_options *options,
                        struct tps_messages *messages);

#endif
