/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which rank this process is, from the variables launchers set. */
#ifndef TOPOSEAT_LAUNCHER_IDENTITY_H
#define TOPOSEAT_LAUNCHER_IDENTITY_H

#include "message.h"

struct tps_identity {
  const char *launcher; /* family whose variables were used, "none" without any */
  long rank;            /* -1: not known; so below */
  long size;
  long local_rank;
  long local_size;
  const char *rank_source; /* name of the variable, or how else it is known */
  const char *local_rank_source;
  char host[256];   /* what gethostname says */
  const char *node; /* what the launcher calls this node, NULL if it does not say */
  bool elastic;     /* set by the caller: the world may have other nodes than the placement */
};

/* Reads the environment. `local_rank_env` names the variable of the local rank, or NULL. */
void tps_identity_detect(struct tps_identity *identity, const char *local_rank_env,
                         struct tps_messages *messages);

/* Whether this node goes by `name`: "*", its host name with or without domain, or what the launcher
   calls it. */
bool tps_identity_is_host(const struct tps_identity *identity, const char *name);

/* Adds what tells this job from others on the node; false if nothing does. */
bool tps_identity_job(struct tps_text *job);

/* The n-th number of Slurm's repeated list "2(x3),1", -1 if it has none. */
long tps_slurm_list_at(const char *list, unsigned long position);

#endif
