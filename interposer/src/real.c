/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finding the real MPI behind this library, and whether it has this library's ABI. */
#include <dlfcn.h>
#include <string.h>

#include "interposer.h"

struct tps_mpi tps__mpi;

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/*
 * A libmpi that was loaded RTLD_LOCAL, as a dependency of a Python module or by the program's own
 * dlopen: it is not in the global scope. NULL: none is loaded yet. Without a lock, which a thread
 * inside dlopen could wait for while the loader's is waited for here; all threads find the same.
 */
static void *private_library(void) {
  static const char *const prefixes[] = {"libmpi", NULL};
  static void *library;
  void *known = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
  if (known == NULL && toposeat_behind("PMPI_Init") == NULL) {
    known = tps__library_with(prefixes, "PMPI_Init");
    if (known != NULL)
      __atomic_store_n(&library, known, __ATOMIC_RELEASE);
  }
  return known;
}

/* `name` in the global scope from `scope` on, else in a libmpi that was loaded privately. */
static union tps_address find_symbol(void *scope, const char *name) {
  union tps_address found = {.object = dlsym(scope, name)};
  void *library = found.object == NULL ? private_library() : NULL;
  if (library != NULL)
    found.object = dlsym(library, name);
  return found;
}

tps_function *tps__find(const char *name) { return find_symbol(RTLD_NEXT, name).function; }

/*
 * Data through RTLD_DEFAULT, never RTLD_NEXT: a copy relocation moves Open MPI's predefined objects
 * into the executable, and libmpi's own copy is stale then.
 */
void *tps__find_data(const char *name) { return find_symbol(RTLD_DEFAULT, name).object; }

const char *tps__file_of(tps_function *function) {
  Dl_info info;
  union tps_address address = {.function = function};
  if (function == NULL || dladdr(address.object, &info) == 0 || info.dli_fname == NULL)
    return "";
  return base_name(info.dli_fname);
}

abi_handle tps__comm_world(void) {
#ifdef ABI_COMM_WORLD_SYMBOL
  return tps__find_data(ABI_COMM_WORLD_SYMBOL);
#else
  return ABI_COMM_WORLD;
#endif
}

/* Fills the table of what the interposer calls; false if an indispensable function is missing. */
static bool resolve_all(void) {
  static const struct {
    const char *name;
    size_t offset;
    bool optional;
  } wanted[] = {
#define WANT(member, is_optional) {"PMPI_" #member, offsetof(struct tps_mpi, member), is_optional}
      WANT(Initialized, false),
      WANT(Finalized, false),
      WANT(Query_thread, false),
      WANT(Get_library_version, false),
      WANT(Comm_rank, false),
      WANT(Comm_size, false),
      WANT(Comm_test_inter, false),
      WANT(Comm_group, false),
      WANT(Comm_remote_group, false),
      WANT(Comm_get_name, true),
      WANT(Comm_get_parent, true),
      WANT(Group_size, false),
      WANT(Group_rank, false),
      WANT(Group_translate_ranks, false),
      WANT(Group_from_session_pset, true),
      WANT(Group_free, false),
      WANT(Win_get_group, false),
      WANT(Type_size, false),
      WANT(Type_size_x, true),
      WANT(Topo_test, true),
      WANT(Cartdim_get, true),
      WANT(Cart_shift, true),
      WANT(Graph_neighbors_count, true),
      WANT(Graph_neighbors, true),
      WANT(Dist_graph_neighbors_count, true),
      WANT(Dist_graph_neighbors, true),
#undef WANT
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i) {
    tps_function *function = tps__find(wanted[i].name);
    if (function == NULL && !wanted[i].optional)
      return false;
    memcpy((char *)&tps__mpi + wanted[i].offset, (const void *)&function, sizeof function);
  }
  return true;
}

abi_handle tps__comm_null(void) {
#ifdef ABI_COMM_NULL_SYMBOL
  return tps__find_data(ABI_COMM_NULL_SYMBOL);
#else
  return ABI_COMM_NULL;
#endif
}

abi_handle tps__request_null(void) {
#ifdef ABI_REQUEST_NULL_SYMBOL
  return tps__find_data(ABI_REQUEST_NULL_SYMBOL);
#else
  return ABI_REQUEST_NULL;
#endif
}

abi_handle tps__no_op(void) {
#ifdef ABI_NO_OP_SYMBOL
  return tps__find_data(ABI_NO_OP_SYMBOL);
#else
  return ABI_NO_OP;
#endif
}

/* The ABI of the MPI that holds `init`, by the names in abi/; NULL if it is none of them. */
static const char *abi_of_process(tps_function *init) {
  static const char *const families[] = {"MPICH", "MVAPICH", "Intel(R) MPI"};
  typedef int ask(char *, int *);
  char version[8192 + 1] = ""; /* the longest of all ABIs */
  int length = 0;
  if (strncmp(tps__file_of(init), "libmpi_abi.", 11) == 0)
    return "abi";
  /* Its handles are its own, whatever MPI is behind it and answers for it. */
  if (strncmp(tps__file_of(init), "libmpitrampoline.", 17) == 0)
    return NULL;
  if (tps__find_data("ompi_mpi_comm_world") != NULL)
    return "ompi";
  ask *get_version = (ask *)tps__find("PMPI_Get_library_version"); /* allowed before MPI_Init */
  if (get_version == NULL || get_version(version, &length) != 0)
    return NULL;
  for (size_t i = 0; i < sizeof families / sizeof *families; ++i)
    if (strstr(version, families[i]) != NULL)
      return "mpich";
  return NULL;
}

static const char *words_for_abi(const char *abi) {
  if (abi == NULL)
    return "an MPI of another ABI";
  return strcmp(abi, "ompi") == 0    ? "Open MPI"
         : strcmp(abi, "mpich") == 0 ? "an MPI of the MPICH family"
                                     : "the standard MPI ABI";
}

/* True if the process has an MPI with this library's ABI. */
bool tps__right_abi(void) {
  static bool said;
  tps_function *init = tps__find("PMPI_Init");
  if (init == NULL)
    return false;
  const char *file = tps__file_of(init);
  const char *abi = abi_of_process(init);
  if (abi == NULL || strcmp(abi, ABI_NAME) != 0) {
    if (tps__speaks_for_job())
      tps__warn(&said,
                "this is the " ABI_NAME
                " library but the program runs on %s (%s)%s%s: not recording",
                words_for_abi(abi), file, abi != NULL ? "; set TOPOSEAT_MPI_ABI=" : "",
                abi != NULL ? abi : "");
    return false;
  }
  if (!resolve_all()) {
    if (tps__speaks_for_job())
      tps__warn(&said, "%s lacks functions that recording needs: not recording", file);
    return false;
  }
  return true;
}
