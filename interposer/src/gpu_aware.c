/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whether the MPI is GPU-aware, asked of the MPI itself. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "interposer.h"

enum awareness { UNKNOWN, AWARE, NOT_AWARE };

typedef int ask_plain(void);
typedef int ask_kind(int kind, int *answer);

static bool is_off(const char *text) {
  static const char *const words[] = {"0", "no", "off", "false", "disable"};
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (strcasecmp(text, words[i]) == 0)
      return true;
  return false;
}

/* MPIs that are built with support and switched on by a variable, off by default. */
static enum awareness by_variable(const char *name) {
  const char *text = getenv(name);
  return text == NULL || *text == '\0' || is_off(text) ? NOT_AWARE : AWARE;
}

static enum awareness ask_library(int kind) {
  static const char *const plain[] = {"MPIX_Query_cuda_support", "MPIX_Query_rocm_support",
                                      "MPIX_Query_ze_support"};
  static const int of_mpich[] = {0, 2, 1}; /* MPIX_GPU_SUPPORT_CUDA, HIP, ZE */
  int answer = 0;
  ask_kind *by_kind = (ask_kind *)tps__find("MPIX_GPU_query_support");
  if (by_kind != NULL && by_kind(of_mpich[kind], &answer) == 0)
    return answer ? AWARE : NOT_AWARE;
  ask_plain *ask = (ask_plain *)tps__find(plain[kind]);
  return ask == NULL ? UNKNOWN : ask() ? AWARE : NOT_AWARE;
}

static enum awareness awareness_of(enum tps_gpu gpu) {
  const char *version = tps__process.header->library;
  const char *switched = getenv("MPIR_CVAR_ENABLE_GPU");
  if (strstr(version, "Intel(R) MPI") != NULL)
    return by_variable("I_MPI_OFFLOAD");
  if (strstr(version, "CRAY MPICH") != NULL)
    return by_variable("MPICH_GPU_SUPPORT_ENABLED");
  if (strstr(version, "MPICH") != NULL && switched != NULL && is_off(switched))
    return NOT_AWARE;
  return ask_library((int)gpu - TPS_GPU_CUDA);
}

const char *tps__refusal_remedy(void) {
  const char *version = tps__process.header->library;
  if (strstr(version, "Intel(R) MPI") != NULL)
    return "set I_MPI_OFFLOAD=1";
  if (strstr(version, "CRAY MPICH") != NULL)
    return "set MPICH_GPU_SUPPORT_ENABLED=1 and load the GPU's module before linking";
  if (strstr(version, "MPICH") != NULL && getenv("MPIR_CVAR_ENABLE_GPU") != NULL)
    return "unset MPIR_CVAR_ENABLE_GPU, or use an MPICH built for this GPU";
  return "use an MPI built for this GPU, or copy to host memory before the call";
}

bool tps__mpi_refuses(enum tps_gpu gpu) { return awareness_of(gpu) == NOT_AWARE; }

/* Transports that the user leaves to UCX: a list, or with ^ those that it may not use. */
static bool ucx_may_use(const char *transport) {
  const char *list = getenv("UCX_TLS");
  if (list == NULL || *list == '\0' || strcmp(list, "all") == 0)
    return true;
  return (strstr(list, transport) != NULL) != (*list == '^');
}

/* An Open MPI that was built without support for GPUs hands contiguous messages to UCX, which has
   modules of its own for them. Its collectives do not go that way. */
bool tps__messages_take(enum tps_gpu gpu) {
  const char *chosen = getenv("OMPI_MCA_pml");
  if (strstr(tps__process.header->library, "Open MPI") == NULL ||
      !(tps__library_is_loaded("mca_pml_ucx") || (chosen != NULL && strcmp(chosen, "ucx") == 0)))
    return false;
  if (gpu == TPS_GPU_CUDA)
    return ucx_may_use("cuda") && tps__library_is_loaded("libuct_cuda.");
  if (gpu == TPS_GPU_HIP)
    return ucx_may_use("rocm") && tps__library_is_loaded("libuct_rocm.");
  return false;
}
