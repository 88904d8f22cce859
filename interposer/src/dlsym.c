/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs that open their MPI with dlopen and look its functions up with dlsym (Julia among them)
 * never bind to a preloaded library. For them `dlsym` is exported here, and answers a lookup of
 * MPI_X in the library that is recorded with the wrapper of PMPI_X, past tools that such a program
 * does not call either. So it answers a tool behind this library that goes on to the next MPI_X.
 *
 * All other lookups go to the real dlsym, by a jump: it takes the object that its return address
 * lies in for the caller, and the meaning of RTLD_DEFAULT and RTLD_NEXT hangs on that. C cannot
 * promise such a jump, so it is written for two processors; on others dlsym stays the system's.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "newer.h"

#if defined __x86_64__ || defined __aarch64__

#define VARIABLE "TOPOSEAT_PROFILE_DLSYM"
#define LONGEST_NAME 128

typedef void *lookup(void *, const char *);

lookup *tps__dlsym_real; /* set before the first jump */
/* The wrapper that answers this lookup; NULL: the real dlsym answers. */
void *tps__dlsym_answer(void *handle, const char *name, const void *caller);

/* The version is that of the processor's first glibc, and every later one has it. */
#ifdef __x86_64__
#define DLSYM_VERSION "GLIBC_2.2.5"
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        ".p2align 4\n"
        "dlsym:\n"
        "  .cfi_startproc\n"
        "  endbr64\n"
        "  pushq %rdi\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  pushq %rsi\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  subq $8, %rsp\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  movq 24(%rsp), %rdx\n"
        "  call tps__dlsym_answer\n"
        "  addq $8, %rsp\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  popq %rsi\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  popq %rdi\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  testq %rax, %rax\n"
        "  jne 1f\n"
        "  jmp *tps__dlsym_real(%rip)\n"
        "1: ret\n"
        "  .cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#else
#define DLSYM_VERSION "GLIBC_2.17"
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        ".p2align 4\n"
        "dlsym:\n"
        "  .cfi_startproc\n"
        "  hint #34\n" /* bti c */
        "  stp x29, x30, [sp, #-32]!\n"
        "  .cfi_def_cfa_offset 32\n"
        "  .cfi_offset 29, -32\n"
        "  .cfi_offset 30, -24\n"
        "  mov x29, sp\n"
        "  stp x0, x1, [sp, #16]\n"
        "  mov x2, x30\n"
        "  bl tps__dlsym_answer\n"
        "  mov x9, x0\n"
        "  ldp x0, x1, [sp, #16]\n"
        "  ldp x29, x30, [sp], #32\n"
        "  .cfi_restore 30\n"
        "  .cfi_restore 29\n"
        "  .cfi_def_cfa_offset 0\n"
        "  cbnz x9, 1f\n"
        "  adrp x16, tps__dlsym_real\n"
        "  ldr x16, [x16, #:lo12:tps__dlsym_real]\n"
        "  br x16\n"
        "1: mov x0, x9\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#endif

static void *none(void *handle, const char *name) {
  (void)handle;
  (void)name;
  return NULL;
}

/*
 * The next dlsym behind this library: the system's, or that of another preloaded tool. Runtimes ask
 * for symbols before they are ready for anything else, those of the sanitizers among them: on the
 * way of every lookup are neither their checks nor calls that they intercept.
 */
#define ANY_TIME __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

ANY_TIME static lookup *real_dlsym(void) {
  union {
    void *object;
    lookup *function;
  } found = {.function = __atomic_load_n(&tps__dlsym_real, __ATOMIC_ACQUIRE)};
  if (found.object == NULL) {
    found.object = dlvsym(RTLD_NEXT, "dlsym", DLSYM_VERSION);
    if (found.object == NULL)
      found.function = none;
    __atomic_store_n(&tps__dlsym_real, found.function, __ATOMIC_RELEASE);
  }
  return found.function;
}

static bool is_off(void) {
  const char *text = getenv(VARIABLE);
  return text != NULL && strcmp(text, "0") == 0;
}

/* Where the object that holds an address is loaded; NULL: in none. */
static const void *object_of(const void *address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

static void *open_self(void) {
  Dl_info info;
  if (dladdr(&tps__process, &info) == 0 || info.dli_fname == NULL)
    return NULL;
  return dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
}

/* The PMPI_X of this library for the name MPI_X. */
static void *wrapper_of(lookup *real, const char *profiled) {
  static void *self; /* several threads may find it at once: they find the same */
  void *library = __atomic_load_n(&self, __ATOMIC_ACQUIRE);
  if (library == NULL) {
    library = open_self();
    __atomic_store_n(&self, library, __ATOMIC_RELEASE);
  }
  return library != NULL ? real(library, profiled) : NULL;
}

/*
 * Whether the library that holds `found`, an MPI_X, also holds the PMPI_X that is recorded. If not,
 * `found` is of another MPI than the recorded one, or of a tool that wraps MPI itself.
 */
static bool is_recorded(const void *found, const char *profiled) {
  union tps_address behind = {.object = toposeat_behind(profiled)};
  if (behind.object == NULL)
    behind.function = tps__find(profiled);
  return behind.object != NULL && object_of(found) == object_of(behind.object);
}

/* Whether an MPI_X behind this library is that of a tool which asks for the next one. */
static bool asks_as_tool(const char *name, const char *profiled, const void *caller) {
  const void *found = tps__is_ours(caller) ? NULL : toposeat_behind(name);
  return found != NULL && object_of(found) == object_of(caller) && !is_recorded(found, profiled);
}

/* The wrapper that answers for an MPI_X, or NULL. */
static void *answer(lookup *real, void *library, const char *name, const void *caller) {
  char profiled[LONGEST_NAME];
  int length = snprintf(profiled, sizeof profiled, "P%s", name);
  if (is_off() || length <= 0 || (size_t)length >= sizeof profiled)
    return NULL;
  tps__see_newer();
  void *wrapper = wrapper_of(real, profiled);
  if (wrapper == NULL)
    return NULL;
  /* A failure in here leaves its message to dlerror. The real dlsym, asked next, replaces it. */
  if (library == RTLD_NEXT)
    return asks_as_tool(name, profiled, caller) ? wrapper : NULL;
  const void *found = real(library, name);
  return found != NULL && is_recorded(found, profiled) ? wrapper : NULL;
}

ANY_TIME static bool begins(const char *name, const char *with) {
  while (*with != '\0' && *name == *with)
    ++name, ++with;
  return *with == '\0';
}

ANY_TIME void *tps__dlsym_answer(void *handle, const char *name, const void *caller) {
  lookup *real = real_dlsym();
  if (begins(name, "PyInit_") && !is_off()) /* this module may have brought an MPI */
    tps__see_newer();
  if (!begins(name, "MPI_") || handle == RTLD_DEFAULT)
    return NULL;
  return answer(real, handle, name, caller);
}

#endif
