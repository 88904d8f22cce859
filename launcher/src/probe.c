/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libtoposeat_probe.so: preloaded into a rank, tells at MPI_Finalize or at exit what the rank had
   in the end. MPI libraries bind processes in MPI_Init, after toposeat-exec has become the program;
   and only the CUDA driver knows which device was really used.

   It must never harm the program: no threads, no output, nothing loaded, nothing initialised. */
#include "home.h"
#include "probe_children.h"
#include "probe_mpi.h"
#include "probe_programs.h"
#include "report.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum {
  HOME_MS = 400,
  GUARD_S = 2,
  MAX_DEVICES = 256,
  CUDA_NOT_INITIALIZED = 3,
  CUDA_DEINITIALIZED = 4
};

static int written;
static jmp_buf without_memory;

/* ---- what toposeat-exec has said ---- */

static struct {
  const char *name;
  char value[PATH_MAX];
} said[] = {{.name = "TOPOSEAT_RANK"},
            {.name = "TOPOSEAT_PID"},
            {.name = "TOPOSEAT_HOME"},
            {.name = "TOPOSEAT_REPORT_DIR"}};

/* A program may empty its environment, as env -i does before it becomes another one. */
static void remember(void) {
  for (size_t i = 0; i < sizeof said / sizeof *said; i++)
    snprintf(said[i].value, sizeof said[i].value, "%s",
             getenv(said[i].name) == NULL ? "" : getenv(said[i].name));
  tps_home_remember_key();
}

/* NULL for what was not said. */
static const char *value_of(const char *name) {
  const char *value = getenv(name);
  for (size_t i = 0; value == NULL && i < sizeof said / sizeof *said; i++)
    if (strcmp(said[i].name, name) == 0 && said[i].value[0] != '\0')
      value = said[i].value;
  return value;
}

/* ---- the CUDA driver, if the program has loaded it ---- */

struct cuda {
  int (*device_count)(int *);
  int (*device_get)(int *, int);
  int (*primary_state)(int, unsigned *, int *);
  int (*pci_bus_id)(char *, int, int);
  int (*context_device)(int *);
};

/* ISO C has no conversion from an object pointer to a function pointer; POSIX wants it to work. */
static void load_symbol(void *library, const char *name, void *target) {
  void *symbol = dlsym(library, name);
  memcpy(target, (const void *)&symbol, sizeof symbol);
}

static bool find_cuda(struct cuda *cuda) {
  void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL)
    return false;
  load_symbol(library, "cuDeviceGetCount", (void *)&cuda->device_count);
  load_symbol(library, "cuDeviceGet", (void *)&cuda->device_get);
  load_symbol(library, "cuDevicePrimaryCtxGetState", (void *)&cuda->primary_state);
  load_symbol(library, "cuDeviceGetPCIBusId", (void *)&cuda->pci_bus_id);
  load_symbol(library, "cuCtxGetDevice", (void *)&cuda->context_device);
  return cuda->device_count != NULL && cuda->device_get != NULL && cuda->primary_state != NULL &&
         cuda->pci_bus_id != NULL;
}

/* A device is in use if its primary context is active (runtime API) or it belongs to the calling
   thread's context (driver API). */
static int add_device(const struct cuda *cuda, int device, int current, struct tps_text *list) {
  unsigned flags = 0;
  int active = 0;
  int error = cuda->primary_state(device, &flags, &active);
  if (error != 0 || (!active && device != current))
    return error;
  char pci[32] = "";
  error = cuda->pci_bus_id(pci, (int)sizeof pci, device);
  pci[sizeof pci - 1] = '\0';
  if (error == 0)
    tps_text_add(list, "%s%s", list->length == 0 ? "" : ",", pci);
  return error;
}

static int list_devices(const struct cuda *cuda, struct tps_text *list) {
  int count = 0;
  int error = cuda->device_count(&count);
  if (error != 0)
    return error;
  int current = -1;
  if (cuda->context_device == NULL || cuda->context_device(&current) != 0)
    current = -1;
  for (int i = 0; i < count && i < MAX_DEVICES && error == 0; i++) {
    int device = -1;
    error = cuda->device_get(&device, i);
    if (error == 0)
      error = add_device(cuda, device, current, list);
  }
  return error;
}

/* Adds "cuda" (a word about the driver) and, if it answered, "cuda_devices". True if any is used.
 */
static bool report_cuda(struct tps_report *report) {
  struct cuda cuda = {0};
  if (!find_cuda(&cuda)) {
    tps_report_add(report, "cuda", "not loaded");
    return false;
  }
  struct tps_text list;
  tps_text_init(&list);
  int error = list_devices(&cuda, &list);
  bool used = error == 0 && list.length > 0;
  if (error == CUDA_DEINITIALIZED) {
    tps_report_add(report, "cuda", "already shut down");
  } else if (error == CUDA_NOT_INITIALIZED) {
    tps_report_add(report, "cuda", "not initialised");
  } else if (error != 0) {
    char text[32];
    snprintf(text, sizeof text, "error %d", error);
    tps_report_add(report, "cuda", text);
  } else {
    tps_report_add(report, "cuda", "asked");
    tps_report_add(report, "cuda_devices", list.data);
  }
  tps_text_free(&list);
  return used;
}

/* ---- other drivers, and the lists of devices ---- */

static int add_driver(struct dl_phdr_info *info, size_t size, void *report) {
  static const char *const names[] = {"libhsa-runtime64.so", "libamdhip64.so", "libze_loader.so",
                                      NULL};
  (void)size;
  for (const char *const *name = names; info->dlpi_name != NULL && *name != NULL; name++)
    if (strstr(info->dlpi_name, *name) != NULL)
      tps_report_add(report, "driver", *name);
  return 0;
}

/* As the program has them now: it may have made them anew before it began with the driver. */
static void report_lists(struct tps_report *report) {
  static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                      "HIP_VISIBLE_DEVICES",  "GPU_DEVICE_ORDINAL",
                                      "ZE_AFFINITY_MASK",     NULL};
  struct tps_text text;
  for (const char *const *name = names; *name != NULL; name++) {
    const char *value = getenv(*name);
    if (value == NULL)
      continue;
    tps_text_init(&text);
    tps_text_add(&text, "%s=%s", *name, value);
    tps_report_add(report, "list", text.data);
    tps_text_free(&text);
  }
}

/* ---- the MPI library ---- */

struct search {
  const char *symbol;
  void *found;
};

static int search_object(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  struct search *search = data;
  if (info->dlpi_name == NULL || strstr(info->dlpi_name, "libmpi") == NULL)
    return 0;
  void *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library != NULL)
    search->found = dlsym(library, search->symbol);
  return search->found != NULL;
}

/* From the program on: it may hold the library's data itself, by a copy relocation. */
static void *find_in_mpi(const char *name) {
  struct search search = {.symbol = name, .found = dlsym(RTLD_DEFAULT, name)};
  if (search.found == NULL)
    dl_iterate_phdr(search_object, &search);
  return search.found;
}

/* ---- the report ---- */

/* Of the processes a rank may start, those count that are the rank itself, use MPI or use a GPU. */
static bool is_rank_itself(void) {
  const char *pid = value_of("TOPOSEAT_PID");
  return pid != NULL && strtol(pid, NULL, 10) == (long)getpid();
}

static void write_report(const char *when, bool before_finalize) {
  const char *folder = value_of("TOPOSEAT_REPORT_DIR"), *rank = value_of("TOPOSEAT_RANK");
  unsigned long number;
  struct tps_report report;
  tps_report_init(&report, "# toposeat/probe/1");
  tps_report_add(&report, "rank", rank);
  tps_report_add(&report, "when", when);
  tps_report_add_process(&report);
  if (before_finalize)
    tps_probe_add_mpi(&report, find_in_mpi);
  bool uses_gpu = report_cuda(&report);
  dl_iterate_phdr(add_driver, &report);
  report_lists(&report);
  if (tps_probe_child_was_killed())
    tps_report_add(&report, "child", "killed");
  if ((before_finalize || uses_gpu || is_rank_itself()) &&
      tps_parse_number(rank, 0x7fffffff, &number)) {
    char name[80];
    snprintf(name, sizeof name, "rank-%lu-%ld.probe", number, (long)getpid());
    const char *home = value_of("TOPOSEAT_HOME");
    if (home != NULL)
      written = tps_home_deliver(home, name, report.text.data, report.text.length, HOME_MS);
    if (folder != NULL && !written)
      written = tps_report_write(&report, folder, name);
    written |= home != NULL; /* once more at exit would only cost time */
  }
  tps_report_free(&report);
}

static void give_up(void) { longjmp(without_memory, 1); }

static void report_once(const char *when, bool before_finalize) {
  bool may_tell = value_of("TOPOSEAT_REPORT_DIR") != NULL || value_of("TOPOSEAT_HOME") != NULL;
  if (written || !may_tell || value_of("TOPOSEAT_RANK") == NULL || !tps_probe_may_speak())
    return;
  tps_out_of_memory = give_up;
  if (setjmp(without_memory) == 0)
    write_report(when, before_finalize);
}

static void begin_anew(void) { written = 0; }

/* ---- programs without this library ---- */

static jmp_buf without_memory_to_tell;

static void give_up_telling(void) { longjmp(without_memory_to_tell, 1); }

/* Once per rank, under a number that no process has: it is not known who has told it before. */
static void write_unheard(const char *program) {
  unsigned long number;
  const char *rank = value_of("TOPOSEAT_RANK");
  if (rank == NULL || !tps_parse_number(rank, 0x7fffffff, &number))
    return;
  char name[64], path[PATH_MAX];
  const char *home = value_of("TOPOSEAT_HOME"), *folder = value_of("TOPOSEAT_REPORT_DIR");
  struct tps_report report;
  snprintf(name, sizeof name, "rank-%lu-0.probe", number);
  snprintf(path, sizeof path, "%s/%s", folder == NULL ? "" : folder, name);
  if (home == NULL && access(path, F_OK) == 0)
    return;
  tps_report_init(&report, "# toposeat/probe/1");
  tps_report_add(&report, "rank", rank);
  tps_report_add(&report, "when", "exec");
  tps_report_add(&report, "child", "unheard");
  tps_report_add(&report, "program", program);
  if (home != NULL)
    tps_home_deliver(home, name, report.text.data, report.text.length, HOME_MS);
  else if (folder != NULL)
    tps_report_write(&report, folder, name);
  tps_report_free(&report);
}

static void tell_unheard(const char *program) {
  void (*former)(void) = tps_out_of_memory;
  tps_out_of_memory = give_up_telling;
  if (setjmp(without_memory_to_tell) == 0)
    write_unheard(program);
  tps_out_of_memory = former;
}

__attribute__((constructor)) static void begin(void) {
  remember();
  tps_probe_watch_children(begin_anew);
  tps_probe_watch_programs(tell_unheard);
}

/* ---- the end of a program without MPI ---- */

/* The CUDA runtime shuts the driver down by a handler of its own at exit, which runs before any
   destructor of ours: who asks then is told that the driver is gone. So the driver is asked as soon
   as main returns or exit is called; the destructor is for programs that end otherwise. */
EXPORTED _Noreturn void exit(int code);

void exit(int code) {
  report_once("exit", false);
  void (*next)(int);
  load_symbol(RTLD_NEXT, "exit", (void *)&next);
  if (next != NULL)
    next(code);
  _exit(code);
}

/* What follows ends without the C library's handlers. It may be called by a signal's handler, which
   must not wait for a lock that it has interrupted: then the process ends all the same. */

static void end_process(int code) {
  (void)code;
  syscall(SYS_exit_group, 0);
}

static void report_in_time(void) {
  struct sigaction action = {.sa_handler = end_process};
  const struct itimerval time = {.it_value = {.tv_sec = GUARD_S}};
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  if (!tps_probe_may_speak() || sigaction(SIGALRM, &action, NULL) != 0 ||
      sigprocmask(SIG_UNBLOCK, &alarm_only, NULL) != 0 || setitimer(ITIMER_REAL, &time, NULL) != 0)
    return;
  report_once("exit", false);
}

EXPORTED _Noreturn void _exit(int code);
EXPORTED _Noreturn void _Exit(int code);
EXPORTED _Noreturn void quick_exit(int code);

/* Only of an end that calls itself good: others may be in a crash, and their code says enough. */
void _exit(int code) {
  if (code == 0)
    report_in_time();
  for (;;)
    syscall(SYS_exit_group, code);
}

void _Exit(int code) { _exit(code); }

void quick_exit(int code) {
  report_once("exit", false);
  void (*next)(int);
  load_symbol(RTLD_NEXT, "quick_exit", (void *)&next);
  if (next != NULL)
    next(code);
  _exit(code);
}

#if defined(__x86_64__) || defined(__aarch64__) /* elsewhere the C library passes other arguments  \
                                                 */
typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void),
                           void (*)(void), void *);

static main_function *main_of_program;

static int main_and_report(int count, char **words, char **environment) {
  const int code = main_of_program(count, words, environment);
  report_once("exit", false);
  return code;
}

EXPORTED start_function __libc_start_main;

int __libc_start_main(main_function *program, int count, char **words, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end) {
  start_function *next;
  load_symbol(RTLD_NEXT, "__libc_start_main", (void *)&next);
  if (next == NULL) /* no C library to start the program with */
    _exit(127);
  main_of_program = program;
  return next(main_and_report, count, words, init, fini, loader_fini, stack_end);
}
#endif

__attribute__((destructor)) static void report_at_exit(void) { report_once("exit", false); }

/* ---- a process that has loaded this library itself (python_hook/own_rank.py) ---- */

EXPORTED void toposeat_probe_tell(const char *when);

void toposeat_probe_tell(const char *when) {
  written = 0;
  report_once(when, false);
  written = 1; /* at exit the driver is gone */
}

/* ---- MPI_Finalize ---- */

/* The function behind ours. Behind it in the usual order of search; else, for an MPI library that
   was loaded privately (an extension module of Python), among what the caller depends on; else in
   any loaded MPI library. */
static void *find_next(const char *name, const void *caller) {
  static const char own[] = "PMPI_Finalize";
  void *next = dlsym(RTLD_NEXT, name);
  Dl_info object;
  if (next == NULL && dladdr(caller, &object) != 0 && object.dli_fname != NULL) {
    void *library = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL)
      next = dlsym(library, own);
    if (next == dlsym(RTLD_DEFAULT, own)) /* the caller is the program: that is us again */
      next = NULL;
  }
  if (next == NULL) {
    struct search search = {.symbol = own};
    dl_iterate_phdr(search_object, &search);
    next = search.found;
  }
  return next;
}

/* Fortran's bindings call one or the other. No name of Fortran is exported: a program may ask for
   it, and its MPI may have none. */
EXPORTED int MPI_Finalize(void);
EXPORTED int PMPI_Finalize(void);

static int finalize(const char *name, const void *caller) {
  report_once("MPI_Finalize", true);
  void *symbol = find_next(name, caller);
  int (*next)(void);
  memcpy((void *)&next, (const void *)&symbol, sizeof symbol);
  return next == NULL ? 0 : next();
}

int MPI_Finalize(void) { return finalize("MPI_Finalize", __builtin_return_address(0)); }

int PMPI_Finalize(void) { return finalize("PMPI_Finalize", __builtin_return_address(0)); }
