/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Phases, when TOPOSEAT_PROFILE_PHASES asks for them.
 *
 * `pcontrol`: MPI_Pcontrol(n) with n > 0 enters phase n; entering a phase again continues it.
 * MPI_Pcontrol(0) pauses counting until the next call of it. A negative level returns to phase 0,
 * to which everything outside of marked phases belongs. Without `pcontrol` the call is ignored, so
 * that marks meant for another profiler lose no traffic.
 *
 * A number of seconds: windows of that length. A call belongs to the window in which it ended.
 *
 * There are at most TPS_MAX_PHASES phases; the last one holds all further ones, and a flag says so.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"

#define PHASES_VARIABLE "TOPOSEAT_PROFILE_PHASES"
#define MIN_WINDOW_S 0.05 /* windows change with the beat, which comes every 4 to 17 ms */
#define MAX_WINDOW_S 1e9

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t window_ns;
static uint32_t known = 1; /* phases in the table */

void tps__phases_configure(void) {
  static bool said;
  const char *text = getenv(PHASES_VARIABLE);
  if (text == NULL || *text == '\0')
    return;
  if (strcmp(text, "pcontrol") == 0) {
    tps__process.phase_mode = TPS_PHASES_PCONTROL;
    return;
  }
  char *end = NULL;
  double seconds = strtod(text, &end);
  if (*end != '\0' || !(seconds >= MIN_WINDOW_S && seconds <= MAX_WINDOW_S)) {
    if (tps__speaks_for_job())
      tps__warn(&said,
                PHASES_VARIABLE "=%.40s is neither `pcontrol` nor a number of seconds from %g on: "
                                "phases are not recorded",
                text, MIN_WINDOW_S);
    return;
  }
  tps__process.phase_mode = TPS_PHASES_WINDOWS;
  window_ns = (uint64_t)(seconds * 1e9);
}

void tps__phases_start(uint64_t now) {
  struct tps_header *header = tps__process.header;
  struct tps_phase *phase = tps__main_segment()->phases;
  header->phase_mode = tps__process.phase_mode;
  header->window_ns = window_ns;
  header->entered_ticks = now;
  phase->begin_ticks = now;
  phase->used = 1;
}

/* The phase with this label; the last one if there is no room. Under the mutex. */
static uint32_t index_of(int64_t label) {
  struct tps_phase *phases = tps__main_segment()->phases;
  for (uint32_t i = 0; i < known; ++i)
    if (phases[i].label == label)
      return i;
  if (known == TPS_MAX_PHASES) {
    __atomic_fetch_or(&tps__process.header->flags, (uint32_t)TPS_FLAG_PHASES_MERGED,
                      __ATOMIC_RELAXED);
    return known - 1;
  }
  phases[known].label = label;
  return known++;
}

/* Under the mutex. */
static void leave(uint64_t now) {
  struct tps_header *header = tps__process.header;
  if (header->current_phase == TPS_NO_PHASE)
    return;
  struct tps_phase *phase = &tps__main_segment()->phases[header->current_phase];
  phase->end_ticks = now;
  phase->active_ticks += now - header->entered_ticks;
  header->entered_ticks = now;
}

/* Under the mutex. Every thread finds out by the epoch, this one at once. */
static void enter(uint32_t index, uint64_t now) {
  struct tps_header *header = tps__process.header;
  if (index == header->current_phase)
    return;
  leave(now);
  if (index != TPS_NO_PHASE) {
    struct tps_phase *phase = &tps__main_segment()->phases[index];
    if (!phase->used) {
      phase->begin_ticks = now;
      __atomic_store_n(&phase->used, 1u, __ATOMIC_RELEASE);
    }
  }
  header->entered_ticks = now;
  __atomic_store_n(&header->current_phase, index, __ATOMIC_RELEASE);
  __atomic_store_n(&tps__process.phase, index, __ATOMIC_RELAXED);
  __atomic_fetch_add(&tps__process.epoch, 1, __ATOMIC_ACQ_REL);
}

/* Time windows: called with every beat, in a call that has just ended. */
void tps__phases_beat(uint64_t ticks, uint64_t nanoseconds) {
  if (tps__process.phase_mode != TPS_PHASES_WINDOWS)
    return;
  pthread_mutex_lock(&mutex);
  uint64_t since = nanoseconds - tps__process.header->start_ns;
  uint64_t window = since / window_ns;
  if ((int64_t)window > tps__main_segment()->phases[tps__process.header->current_phase].label)
    enter(index_of((int64_t)window), ticks);
  pthread_mutex_unlock(&mutex);
  if (__atomic_load_n(&tps__process.epoch, __ATOMIC_RELAXED) != tps__thread.epoch)
    tps__thread_join();
}

void tps__phases_finish(uint64_t now) {
  pthread_mutex_lock(&mutex);
  leave(now);
  pthread_mutex_unlock(&mutex);
}

static void act(int level) {
  if (tps__process.phase_mode != TPS_PHASES_PCONTROL || !tps__recording())
    return;
  uint64_t now = tps__ticks();
  pthread_mutex_lock(&mutex);
  enter(level == 0 ? TPS_NO_PHASE : index_of(level > 0 ? level : 0), now);
  pthread_mutex_unlock(&mutex);
}

/* Both act, as a tool between may keep the call for itself; twice is as once. They return what the
 * call goes on to, NULL: nothing. */
tps_function *tps__pcontrol(int level, const void *caller);
tps_function *tps__pmpi_pcontrol(int level);

tps_function *tps__pmpi_pcontrol(int level) {
  static tps_function *found;
  act(level);
  return tps__real(&found, "PMPI_Pcontrol");
}

tps_function *tps__pcontrol(int level, const void *caller) {
  static tps_function *known;
  tps_function *tool = tps__beside(&known, "MPI_Pcontrol", caller);
  if (tool == NULL)
    return tps__pmpi_pcontrol(level);
  act(level);
  return tool;
}

/*
 * Further arguments are for profilers that define some, however many: they are passed on by a jump,
 * with every register that can hold one as it was. Elsewhere they are dropped.
 */
#if defined __x86_64__
#define PASSED_ON(name, asked)                                                                     \
  __asm__(".text\n"                                                                                \
          ".globl " name "\n"                                                                      \
          ".type " name ", @function\n"                                                            \
          ".p2align 4\n" name ":\n"                                                                \
          "  .cfi_startproc\n"                                                                     \
          "  endbr64\n"                                                                            \
          "  subq $184, %rsp\n"                                                                    \
          "  .cfi_adjust_cfa_offset 184\n"                                                         \
          "  movaps %xmm0, (%rsp)\n"                                                               \
          "  movaps %xmm1, 16(%rsp)\n"                                                             \
          "  movaps %xmm2, 32(%rsp)\n"                                                             \
          "  movaps %xmm3, 48(%rsp)\n"                                                             \
          "  movaps %xmm4, 64(%rsp)\n"                                                             \
          "  movaps %xmm5, 80(%rsp)\n"                                                             \
          "  movaps %xmm6, 96(%rsp)\n"                                                             \
          "  movaps %xmm7, 112(%rsp)\n"                                                            \
          "  movq %rdi, 128(%rsp)\n"                                                               \
          "  movq %rsi, 136(%rsp)\n"                                                               \
          "  movq %rdx, 144(%rsp)\n"                                                               \
          "  movq %rcx, 152(%rsp)\n"                                                               \
          "  movq %r8, 160(%rsp)\n"                                                                \
          "  movq %r9, 168(%rsp)\n"                                                                \
          "  movq %rax, 176(%rsp)\n" /* how many of xmm are in use */                              \
          "  movq 184(%rsp), %rsi\n" /* the caller */                                              \
          "  call " asked "\n"                                                                     \
          "  movq %rax, %r11\n"                                                                    \
          "  movaps (%rsp), %xmm0\n"                                                               \
          "  movaps 16(%rsp), %xmm1\n"                                                             \
          "  movaps 32(%rsp), %xmm2\n"                                                             \
          "  movaps 48(%rsp), %xmm3\n"                                                             \
          "  movaps 64(%rsp), %xmm4\n"                                                             \
          "  movaps 80(%rsp), %xmm5\n"                                                             \
          "  movaps 96(%rsp), %xmm6\n"                                                             \
          "  movaps 112(%rsp), %xmm7\n"                                                            \
          "  movq 128(%rsp), %rdi\n"                                                               \
          "  movq 136(%rsp), %rsi\n"                                                               \
          "  movq 144(%rsp), %rdx\n"                                                               \
          "  movq 152(%rsp), %rcx\n"                                                               \
          "  movq 160(%rsp), %r8\n"                                                                \
          "  movq 168(%rsp), %r9\n"                                                                \
          "  movq 176(%rsp), %rax\n"                                                               \
          "  addq $184, %rsp\n"                                                                    \
          "  .cfi_adjust_cfa_offset -184\n"                                                        \
          "  testq %r11, %r11\n"                                                                   \
          "  je 1f\n"                                                                              \
          "  jmp *%r11\n"                                                                          \
          "1: xorl %eax, %eax\n"                                                                   \
          "  ret\n"                                                                                \
          "  .cfi_endproc\n"                                                                       \
          ".size " name ", . - " name "\n");
#elif defined __aarch64__
#define PASSED_ON(name, asked)                                                                     \
  __asm__(".text\n"                                                                                \
          ".globl " name "\n"                                                                      \
          ".type " name ", %function\n"                                                            \
          ".p2align 4\n" name ":\n"                                                                \
          "  .cfi_startproc\n"                                                                     \
          "  hint #34\n" /* bti c */                                                               \
          "  stp x29, x30, [sp, #-208]!\n"                                                         \
          "  .cfi_def_cfa_offset 208\n"                                                            \
          "  .cfi_offset 29, -208\n"                                                               \
          "  .cfi_offset 30, -200\n"                                                               \
          "  mov x29, sp\n"                                                                        \
          "  stp x0, x1, [sp, #16]\n"                                                              \
          "  stp x2, x3, [sp, #32]\n"                                                              \
          "  stp x4, x5, [sp, #48]\n"                                                              \
          "  stp x6, x7, [sp, #64]\n"                                                              \
          "  stp q0, q1, [sp, #80]\n"                                                              \
          "  stp q2, q3, [sp, #112]\n"                                                             \
          "  stp q4, q5, [sp, #144]\n"                                                             \
          "  stp q6, q7, [sp, #176]\n"                                                             \
          "  mov x1, x30\n" /* the caller */                                                       \
          "  bl " asked "\n"                                                                       \
          "  mov x16, x0\n"                                                                        \
          "  ldp q0, q1, [sp, #80]\n"                                                              \
          "  ldp q2, q3, [sp, #112]\n"                                                             \
          "  ldp q4, q5, [sp, #144]\n"                                                             \
          "  ldp q6, q7, [sp, #176]\n"                                                             \
          "  ldp x0, x1, [sp, #16]\n"                                                              \
          "  ldp x2, x3, [sp, #32]\n"                                                              \
          "  ldp x4, x5, [sp, #48]\n"                                                              \
          "  ldp x6, x7, [sp, #64]\n"                                                              \
          "  ldp x29, x30, [sp], #208\n"                                                           \
          "  .cfi_restore 30\n"                                                                    \
          "  .cfi_restore 29\n"                                                                    \
          "  .cfi_def_cfa_offset 0\n"                                                              \
          "  cbz x16, 1f\n"                                                                        \
          "  br x16\n"                                                                             \
          "1: mov w0, wzr\n"                                                                       \
          "  ret\n"                                                                                \
          "  .cfi_endproc\n"                                                                       \
          ".size " name ", . - " name "\n");
#endif

#ifdef PASSED_ON
PASSED_ON("MPI_Pcontrol", "tps__pcontrol")
PASSED_ON("PMPI_Pcontrol", "tps__pmpi_pcontrol")
#else
typedef int pcontrol_call(int, ...);
TPS_EXPORT pcontrol_call MPI_Pcontrol;
TPS_EXPORT pcontrol_call PMPI_Pcontrol;

int MPI_Pcontrol(int level, ...) {
  pcontrol_call *next = (pcontrol_call *)tps__pcontrol(level, TPS_CALLER);
  return next != NULL ? next(level) : 0;
}

int PMPI_Pcontrol(int level, ...) {
  pcontrol_call *next = (pcontrol_call *)tps__pmpi_pcontrol(level);
  return next != NULL ? next(level) : 0;
}
#endif
