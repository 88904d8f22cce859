/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libtoposeat_probe.so: preloaded into a rank, tells at MPI_Finalize or at exit what the rank had
   in the end. MPI libraries bind processes in MPI_Init, after toposeat-exec has become the program;
   and only the CUDA driver knows which device was really used.

   It must never harm the program: no threads, no output, nothing loaded, nothing initialised. */
#include "probe.h"

#include "cpu_list.h"
#include "home.h"
#include "probe_children.h"
#include "probe_cuda.h"
#include "probe_mpi.h"
#include "probe_programs.h"
#include "report.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum {
  UNREACHED_MS = 400,
  GUARD_S = 2,
  MAX_LOOKS = 64,
};

static int written;
static int looks; /* at this process where it had come to a fixed point */
static jmp_buf without_memory;

/* ISO C has no conversion from an object pointer to a function pointer; POSIX wants it to work. */
static void load_next(const char *name, void *target) {
  void *symbol = dlsym(RTLD_NEXT, name);
  memcpy(target, (const void *)&symbol, sizeof symbol);
}

/* ---- what toposeat-exec has said ---- */

static struct {
  const char *name;
  char value[PATH_MAX];
} said[] = {{.name = "TOPOSEAT_RANK"}, {.name = "TOPOSEAT_PID"},  {.name = "TOPOSEAT_DEVICE"},
            {.name = "TOPOSEAT_LIST"}, {.name = "TOPOSEAT_HOME"}, {.name = "TOPOSEAT_REPORT_DIR"}};

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

/* ---- the report ---- */

/* Of the processes a rank may start, those count that are the rank itself, use MPI or use a GPU. */
static bool is_rank_itself(void) {
  const char *pid = value_of("TOPOSEAT_PID");
  return pid != NULL && strtol(pid, NULL, 10) == (long)getpid();
}

static void begin_report(struct tps_report *report, const char *when) {
  tps_report_init(report, "# toposeat/probe/1");
  tps_report_add(report, "rank", value_of("TOPOSEAT_RANK"));
  tps_report_add(report, "when", when);
}

/* One that is reached is waited for as long as it says, once: a home that somebody has stopped must
   not hold up this process at each of its reports. */
static bool send_home(const char *home, const char *name, const struct tps_report *report) {
  static bool silent;
  long patience_ms = silent ? UNREACHED_MS : tps_home_patience_ms(home);
  bool kept = tps_home_deliver(home, name, report->text.data, report->text.length, patience_ms,
                               UNREACHED_MS);
  silent |= !kept;
  return kept;
}

/* Sends it home, or leaves it in the folder, under a name that no other has, and whose last number
   is higher for what the same process tells later. False: it is lost. */
static bool deliver(const struct tps_report *report) {
  unsigned long number;
  struct timespec now;
  char name[96];
  clock_gettime(CLOCK_MONOTONIC, &now);
  const char *home = value_of("TOPOSEAT_HOME"), *folder = value_of("TOPOSEAT_REPORT_DIR");
  if (!tps_parse_number(value_of("TOPOSEAT_RANK"), 0x7fffffff, &number))
    return false;
  snprintf(name, sizeof name, "rank-%lu-%ld-%ld%09ld.probe", number, (long)getpid(),
           (long)now.tv_sec, now.tv_nsec);
  return (home != NULL && send_home(home, name, report)) ||
         (folder != NULL && tps_report_write(report, folder, name));
}

static void write_report(const char *when, bool before_finalize) {
  struct tps_report report;
  bool elsewhere;
  begin_report(&report, when);
  tps_report_add_process(&report);
  if (before_finalize)
    tps_probe_add_mpi(&report);
  bool uses_gpu = tps_probe_add_cuda(&report, NULL, &elsewhere);
  dl_iterate_phdr(add_driver, &report);
  report_lists(&report);
  if (tps_probe_child_was_killed())
    tps_report_add(&report, "child", "killed");
  tps_report_add_number(&report, "looks", looks);
  if (before_finalize || uses_gpu || is_rank_itself()) /* once more at exit would only cost time */
    written = deliver(&report) || value_of("TOPOSEAT_HOME") != NULL;
  tps_report_free(&report);
}

static void give_up(void) { longjmp(without_memory, 1); }

static bool may_tell(void) {
  return value_of("TOPOSEAT_RANK") != NULL && tps_probe_may_speak() &&
         (value_of("TOPOSEAT_REPORT_DIR") != NULL || value_of("TOPOSEAT_HOME") != NULL);
}

static void report_once(const char *when, bool before_finalize) {
  if (written || !may_tell())
    return;
  tps_out_of_memory = give_up;
  if (setjmp(without_memory) == 0)
    write_report(when, before_finalize);
}

static void begin_anew(void) { written = 0; }

/* ---- fixed points: where MPI or PyTorch has begun, or made a communicator ---- */

static struct {
  struct tps_text told; /* the last difference, so that none is told twice */
  struct tps_cpus cpus; /* at the start of the program */
  bool has_cpus;
} known;

static void learn(void) {
  tps_text_init(&known.told);
  known.has_cpus = tps_cpus_read_affinity(&known.cpus);
}

static bool is_bound_anew(void) {
  struct tps_cpus now;
  return known.has_cpus && tps_cpus_read_affinity(&now) && !tps_cpus_equal(&known.cpus, &now);
}

/* Whether the list of devices is another one than "NAME=VALUE", which toposeat-exec has made. */
static bool is_list_changed(const char *given) {
  char name[64];
  const char *equals = given == NULL ? NULL : strchr(given, '=');
  if (equals == NULL || (size_t)(equals - given) >= sizeof name)
    return false;
  snprintf(name, sizeof name, "%.*s", (int)(equals - given), given);
  const char *now = getenv(name);
  return now == NULL || strcmp(now, equals + 1) != 0;
}

/* Nothing is sent where all is as toposeat-exec made it. */
static void look(const char *when) {
  struct tps_report report;
  begin_report(&report, when);
  size_t begin = report.text.length;
  bool elsewhere;
  tps_report_add_process(&report);
  tps_probe_add_cuda(&report, value_of("TOPOSEAT_DEVICE"), &elsewhere);
  report_lists(&report);
  bool differs = elsewhere || is_bound_anew() || is_list_changed(value_of("TOPOSEAT_LIST"));
  if (differs && strcmp(report.text.data + begin, known.told.data) != 0) {
    tps_text_free(&known.told);
    tps_text_init(&known.told);
    tps_text_add(&known.told, "%s", report.text.data + begin);
    deliver(&report);
  }
  tps_report_free(&report);
}

void toposeat_probe_look(const char *when) {
  static atomic_flag busy = ATOMIC_FLAG_INIT; /* communicators may be made by several threads */
  if (written || looks >= MAX_LOOKS || !may_tell() || atomic_flag_test_and_set(&busy))
    return;
  looks++;
  tps_out_of_memory = give_up;
  if (setjmp(without_memory) == 0)
    look(when);
  atomic_flag_clear(&busy);
}

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
    send_home(home, name, &report);
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
  learn();
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
  load_next("exit", (void *)&next);
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
  load_next("quick_exit", (void *)&next);
  if (next != NULL)
    next(code);
  _exit(code);
}

/* Elsewhere the C library passes other arguments. */
#if defined(__x86_64__) || defined(__aarch64__)
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
  load_next("__libc_start_main", (void *)&next);
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

/* ---- calls of MPI ---- */

void tps_probe_before_finalize(void) { report_once("MPI_Finalize", true); }
