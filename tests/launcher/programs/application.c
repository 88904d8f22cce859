/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* The dynamic loader's lock is held by a thread while the process ends. */
static int hold(struct dl_phdr_info *info, size_t size, void *data) {
  (void)info;
  (void)size;
  atomic_store((atomic_int *)data, 1);
  for (;;)
    pause();
}
static void *holding(void *data) {
  dl_iterate_phdr(hold, data);
  return NULL;
}
static void end_with_a_lock(void) {
  atomic_int held = 0;
  pthread_t thread;
  pthread_create(&thread, NULL, holding, &held);
  while (!atomic_load(&held)) {
  }
  _exit(0);
}
int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "load") == 0 && dlopen("libcuda.so.1", RTLD_NOW) == NULL)
      return 9;
    if (strcmp(argv[i], "runtime") == 0) {
      void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_runtime");
      void (*start)(void);
      memcpy(&start, &symbol, sizeof start);
      start();
    }
    if (strcmp(argv[i], "fork") == 0 && fork() == 0)
      exit(0);
    if (strcmp(argv[i], "chdir") == 0 && chdir("/") != 0)
      return 8;
    if (strcmp(argv[i], "crash") == 0)
      abort();
    if (strcmp(argv[i], "exit") == 0)
      exit(3);
    if (strcmp(argv[i], "_exit") == 0)
      _exit(4);
    if (strcmp(argv[i], "_exit0") == 0)
      _exit(0);
    if (strcmp(argv[i], "locked") == 0)
      end_with_a_lock();
  }
  while (wait(NULL) > 0) {
  }
  return 3;
}
