/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "identity.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { NAMES = 5 };

/* The variables of one launcher. The first that is set counts. */
struct launcher {
  const char *name;
  const char *local_rank[NAMES];
  const char *rank[NAMES];
  const char *size[NAMES];
  const char *local_size[NAMES];
  const char *node; /* what the launcher calls this node */
};

/* In order of detection. Launchers that start ranks inside a job come before the scheduler of the
   job: in a batch script that calls mpirun, the SLURM_ variables describe the script. */
static const struct launcher LAUNCHERS[] = {
    {"openmpi",
     {"OMPI_COMM_WORLD_LOCAL_RANK"},
     {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"},
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     "PMIX_HOSTNAME"},
    {"mvapich",
     {"MVP_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK"},
     {"MVP_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "PMI_ID"},
     {"MVP_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "MPISPAWN_GLOBAL_NPROCS", "PMI_SIZE"},
     {"MVP_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "MPISPAWN_LOCAL_NPROCS"},
     NULL},
    {"hydra",
     {"MPI_LOCALRANKID"},
     {"PMI_RANK", "PMI_ID"},
     {"PMI_SIZE"},
     {"MPI_LOCALNRANKS"},
     "PMI_HOSTNAME"},
    {"pals",
     {"PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"},
     {"PALS_RANKID", "PMI_RANK", "PMIX_RANK"},
     {"PMI_SIZE"},
     {"PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"},
     NULL},
    {"jsrun",
     {"JSM_NAMESPACE_LOCAL_RANK"},
     {"JSM_NAMESPACE_RANK", "PMIX_RANK"},
     {"JSM_NAMESPACE_SIZE"},
     {"JSM_NAMESPACE_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
     NULL},
    {"flux",
     {"FLUX_TASK_LOCAL_ID"},
     {"FLUX_TASK_RANK", "PMI_RANK"},
     {"FLUX_JOB_SIZE"},
     {NULL},
     NULL},
    {"torchrun", {"LOCAL_RANK"}, {"RANK"}, {"WORLD_SIZE"}, {"LOCAL_WORLD_SIZE"}, NULL},
    {"slurm",
     {"SLURM_LOCALID"},
     {"SLURM_PROCID"},
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     {NULL},
     "SLURMD_NODENAME"},
};
enum { LAUNCHER_COUNT = (int)(sizeof LAUNCHERS / sizeof *LAUNCHERS) };

/* Global ranks that come without a local one, for launchers that no row above describes. */
static const char *const LONE_RANKS[] = {"PMIX_RANK", "PMI_RANK", "PMI_ID"};
static const char *const LONE_SIZES[] = {"PMI_SIZE"};

static const unsigned long MAX_RANK = 0x7fffffff;

/* The number in the first of `names` that is set, -1 if none is or it is no number. */
static long read_first(const char *const *names, size_t count, const char **source,
                       struct tps_messages *messages) {
  for (size_t i = 0; i < count && names[i] != NULL; i++) {
    const char *value = tps_getenv(names[i]);
    unsigned long number;
    if (value == NULL)
      continue;
    if (tps_parse_number(value, MAX_RANK, &number)) {
      if (source != NULL)
        *source = names[i];
      return (long)number;
    }
    tps_warn(messages, "%s is not a number: '%.40s'", names[i], value);
  }
  return -1;
}

long tps_slurm_list_at(const char *list, unsigned long position) {
  unsigned long passed = 0;
  const char *at = list;
  while (*at >= '0' && *at <= '9') {
    unsigned long value = 0, repeats = 1;
    for (; *at >= '0' && *at <= '9'; at++) {
      value = value * 10 + (unsigned long)(*at - '0');
      if (value > MAX_RANK)
        return -1;
    }
    if (at[0] == '(' && at[1] == 'x') {
      repeats = 0;
      for (at += 2; *at >= '0' && *at <= '9'; at++) {
        repeats = repeats * 10 + (unsigned long)(*at - '0');
        if (repeats > MAX_RANK)
          return -1;
      }
      if (*at++ != ')')
        return -1;
    }
    if (position < passed + repeats)
      return (long)value;
    passed += repeats;
    if (*at != ',')
      return -1;
    at++;
  }
  return -1;
}

static long slurm_local_size(void) {
  const char *list = tps_getenv("SLURM_STEP_TASKS_PER_NODE");
  if (list == NULL)
    list = tps_getenv("SLURM_TASKS_PER_NODE");
  const char *node = tps_getenv("SLURM_NODEID");
  unsigned long position;
  if (list == NULL || node == NULL || !tps_parse_number(node, MAX_RANK, &position))
    return -1;
  return tps_slurm_list_at(list, position);
}

/* Flux tells the local size only where the whole job is on one node. */
static long flux_local_size(const struct tps_identity *identity) {
  const char *nodes = tps_getenv("FLUX_JOB_NNODES");
  return nodes != NULL && strcmp(nodes, "1") == 0 ? identity->size : -1;
}

static void read_launcher(struct tps_identity *identity, const struct launcher *launcher,
                          struct tps_messages *messages) {
  identity->launcher = launcher->name;
  /* Not the node variables of other families: mpiexec hands the whole environment of the node it
     was started on to every node. */
  identity->node = launcher->node == NULL ? NULL : tps_getenv(launcher->node);
  identity->rank = read_first(launcher->rank, NAMES, &identity->rank_source, messages);
  identity->size = read_first(launcher->size, NAMES, NULL, messages);
  identity->local_size = read_first(launcher->local_size, NAMES, NULL, messages);
  if (identity->local_size < 0 && strcmp(launcher->name, "slurm") == 0)
    identity->local_size = slurm_local_size();
  if (identity->local_size < 0 && strcmp(launcher->name, "flux") == 0)
    identity->local_size = flux_local_size(identity);
}

/* The launcher that sets the variable called `name`, else the first whose rank is set. */
static const struct launcher *launcher_of(const char *name, struct tps_messages *messages) {
  for (int i = 0; i < LAUNCHER_COUNT; i++)
    for (int k = 0; k < NAMES && LAUNCHERS[i].local_rank[k] != NULL; k++)
      if (strcmp(LAUNCHERS[i].local_rank[k], name) == 0)
        return &LAUNCHERS[i];
  for (int i = 0; i < LAUNCHER_COUNT; i++)
    if (read_first(LAUNCHERS[i].rank, NAMES, NULL, messages) >= 0)
      return &LAUNCHERS[i];
  return NULL;
}

static void detect_named(struct tps_identity *identity, const char *name,
                         struct tps_messages *messages) {
  const char *const names[] = {name};
  identity->local_rank = read_first(names, 1, &identity->local_rank_source, messages);
  if (identity->local_rank < 0)
    tps_warn(messages, "--local-rank-env: %s is not set", name);
  const struct launcher *launcher = launcher_of(name, messages);
  if (launcher != NULL)
    read_launcher(identity, launcher, messages);
}

static void detect(struct tps_identity *identity, struct tps_messages *messages) {
  for (int i = 0; i < LAUNCHER_COUNT; i++) {
    identity->local_rank =
        read_first(LAUNCHERS[i].local_rank, NAMES, &identity->local_rank_source, messages);
    if (identity->local_rank >= 0) {
      read_launcher(identity, &LAUNCHERS[i], messages);
      return;
    }
  }
  size_t ranks = sizeof LONE_RANKS / sizeof *LONE_RANKS;
  identity->rank = read_first(LONE_RANKS, ranks, &identity->rank_source, messages);
  if (identity->rank < 0)
    return;
  identity->launcher = "unknown";
  identity->size = read_first(LONE_SIZES, sizeof LONE_SIZES / sizeof *LONE_SIZES, NULL, messages);
}

void tps_identity_detect(struct tps_identity *identity, const char *local_rank_env,
                         struct tps_messages *messages) {
  *identity = (struct tps_identity){
      .launcher = "none", .rank = -1, .size = -1, .local_rank = -1, .local_size = -1};
  if (gethostname(identity->host, sizeof identity->host - 1) != 0)
    strcpy(identity->host, "localhost");
  if (local_rank_env != NULL)
    detect_named(identity, local_rank_env, messages);
  else
    detect(identity, messages);
}

/* Equal names, or one is the other with a domain behind it. */
static bool same_host(const char *first, const char *second) {
  size_t short_first = strcspn(first, "."), short_second = strcspn(second, ".");
  if (first[short_first] != '\0' && second[short_second] != '\0')
    return strcasecmp(first, second) == 0;
  return short_first == short_second && strncasecmp(first, second, short_first) == 0;
}

bool tps_identity_job(struct tps_text *job) {
  /* Each group used whole. */
  static const char *const variables[][2] = {
      {"PMIX_NAMESPACE", NULL},
      {"PMI_JOBID", NULL},
      {"PALS_APID", NULL},
      {"FLUX_JOB_ID", NULL},
      {"SLURM_JOB_ID", "SLURM_STEP_ID"},
      {"PBS_JOBID", NULL},
      {"LSB_JOBID", NULL},
  };
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *first = tps_getenv(variables[i][0]);
    const char *second = variables[i][1] == NULL ? "" : tps_getenv(variables[i][1]);
    if (first == NULL || second == NULL)
      continue;
    tps_text_add(job, "%s=%s %s", variables[i][0], first, second);
    return true;
  }
  return false;
}

bool tps_identity_is_host(const struct tps_identity *identity, const char *name) {
  return strcmp(name, "*") == 0 || same_host(identity->host, name) ||
         (identity->node != NULL && same_host(identity->node, name));
}
