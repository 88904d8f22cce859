/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "behind.h"

#include <dlfcn.h>
#include <string.h>

#include "abi.h"
#include "loaded.h"

struct tpr_mpi tpr__mpi;
struct tpr_abi tpr__abi;

static void *library; /* the MPI's own; NULL: not found yet */

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/*
 * A function that no tool wraps tells which library is the MPI. One that was loaded privately, as
 * by a Python module, is not in the global scope.
 */
static bool find_library(const char **file) {
  static const char *const prefixes[] = {"libmpi", NULL};
  static const char telling[] = "PMPI_Get_library_version";
  Dl_info info;
  void *symbol = dlsym(RTLD_NEXT, telling);
  if (symbol == NULL) {
    void *private = tps__library_with(prefixes, telling);
    symbol = private != NULL ? dlsym(private, telling) : NULL;
  }
  if (symbol == NULL || dladdr(symbol, &info) == 0 || info.dli_fname == NULL)
    return false;
  *file = base_name(info.dli_fname);
  library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  return library != NULL;
}

/* ISO C has no such conversion; POSIX wants it to work. */
static tpr_function *function_of(void *address) {
  tpr_function *function = NULL;
  memcpy((void *)&function, (const void *)&address, sizeof function);
  return function;
}

/* Data by RTLD_DEFAULT first: a copy relocation moves an MPI's objects into the executable. */
static void *find_data(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  return found != NULL ? found : dlsym(library, name);
}

static bool resolve_all(const char **missing) {
  static const struct {
    const char *name;
    size_t offset;
  } wanted[] = {
#define WANT(member) {"PMPI_" #member, offsetof(struct tpr_mpi, member)}
      WANT(Comm_rank),
      WANT(Comm_size),
      WANT(Comm_get_parent),
      WANT(Comm_test_inter),
      WANT(Comm_group),
      WANT(Group_translate_ranks),
      WANT(Group_free),
      WANT(Comm_split),
      WANT(Comm_split_type),
      WANT(Comm_free),
      WANT(Comm_get_errhandler),
      WANT(Comm_set_errhandler),
      WANT(Errhandler_free),
      WANT(Bcast),
      WANT(Gather),
      WANT(Gatherv),
      WANT(Allgather),
      WANT(Allreduce),
      WANT(Sendrecv),
#undef WANT
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i) {
    tpr_function *function = function_of(dlsym(library, wanted[i].name));
    *missing = wanted[i].name;
    if (function == NULL)
      return false;
    memcpy((char *)&tpr__mpi + wanted[i].offset, (const void *)&function, sizeof function);
  }
  return true;
}

static bool facts_of_openmpi(void) {
  tpr__abi = (struct tpr_abi){.handle_bytes = sizeof(void *),
                              .comm_world = (tpr_word)find_data("ompi_mpi_comm_world"),
                              .comm_null = (tpr_word)find_data("ompi_mpi_comm_null"),
                              .type_int = (tpr_word)find_data("ompi_mpi_int"),
                              .op_min = (tpr_word)find_data("ompi_mpi_op_min"),
                              .info_null = (tpr_word)find_data("ompi_mpi_info_null"),
                              .errors_return = (tpr_word)find_data("ompi_mpi_errors_return"),
                              .comm_type_shared = OPENMPI_COMM_TYPE_SHARED,
                              .unweighted = OPENMPI_UNWEIGHTED,
                              .weights_empty = OPENMPI_WEIGHTS_EMPTY};
  return tpr__abi.comm_null != 0 && tpr__abi.type_int != 0 && tpr__abi.op_min != 0 &&
         tpr__abi.info_null != 0 && tpr__abi.errors_return != 0;
}

/* Of an ABI whose constants are numbers. */
#define FACTS_BY_NUMBER(abi, bytes, pointer_to_none, pointer_to_empty)                             \
  (struct tpr_abi) {                                                                               \
    .handle_bytes = (bytes), .comm_world = abi##_COMM_WORLD, .comm_null = abi##_COMM_NULL,         \
    .type_int = abi##_INT, .op_min = abi##_MIN, .info_null = abi##_INFO_NULL,                      \
    .errors_return = abi##_ERRORS_RETURN, .comm_type_shared = abi##_COMM_TYPE_SHARED,              \
    .unweighted = (pointer_to_none), .weights_empty = (pointer_to_empty)                           \
  }

static bool facts_of_mpich(void) {
  int *const *unweighted = (int *const *)find_data("MPI_UNWEIGHTED");
  int *const *empty = (int *const *)find_data("MPI_WEIGHTS_EMPTY");
  if (unweighted != NULL && empty != NULL)
    tpr__abi = FACTS_BY_NUMBER(MPICH, sizeof(int), *unweighted, *empty);
  return unweighted != NULL && empty != NULL;
}

static bool facts_of_standard(void) {
  tpr__abi = FACTS_BY_NUMBER(STANDARD, sizeof(void *), STANDARD_UNWEIGHTED, STANDARD_WEIGHTS_EMPTY);
  return true;
}

static bool is_of_mpich_family(void) {
  static const char *const families[] = {"MPICH", "MVAPICH", "Intel(R) MPI"};
  typedef int ask(char *, int *);
  char version[8192 + 1] = ""; /* the longest of all ABIs */
  int length = 0;
  ask *get_version = (ask *)function_of(dlsym(library, "PMPI_Get_library_version"));
  if (get_version == NULL || get_version(version, &length) != 0)
    return false;
  for (size_t i = 0; i < sizeof families / sizeof *families; ++i)
    if (strstr(version, families[i]) != NULL)
      return true;
  return false;
}

bool tpr__find_mpi(const char **why) {
  const char *file = "";
  *why = "no MPI library was found";
  if (!find_library(&file))
    return false;
  *why = "this MPI has an ABI that is not known";
  bool known = strncmp(file, "libmpi_abi.", 11) == 0 ? facts_of_standard()
               : find_data("ompi_mpi_comm_world") != NULL
                   ? facts_of_openmpi()
                   : is_of_mpich_family() && facts_of_mpich();
  return known && resolve_all(why);
}

tpr_function *tpr__next(tpr_function **found, const char *name) {
  tpr_function *next = __atomic_load_n(found, __ATOMIC_ACQUIRE);
  const char *file;
  if (next != NULL)
    return next;
  next = function_of(dlsym(RTLD_NEXT, name));
  if (next == NULL && (library != NULL || find_library(&file)))
    next = function_of(dlsym(library, name));
  __atomic_store_n(found, next, __ATOMIC_RELEASE);
  return next;
}

tpr_word tpr__handle(tpr_word word) {
  return tpr__abi.handle_bytes == sizeof(int) ? (uint32_t)word : word;
}

void tpr__store(void *to, tpr_word handle) { memcpy(to, &handle, tpr__abi.handle_bytes); }
