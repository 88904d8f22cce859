"""C programs for the tests: a stand-in CUDA driver, applications, a private MPI library."""

import subprocess

# Answers as the driver would: device i has PCI bus id 00000000:1i:00.0; ACTIVE lists those with a
# primary context, CURRENT is the calling thread's; RESULT is the error of every call.
FAKE_DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text == NULL ? otherwise : atoi(text);
}
static int gone; /* the CUDA runtime shuts the driver down at exit */
static int result(void) { return gone ? 4 : number("FAKE_RESULT", 0); }
static void shut_down(void) { gone = 1; }
void fake_runtime(void) { atexit(shut_down); }
int cuDeviceGetCount(int *count) { *count = 4; return result(); }
int cuDeviceGet(int *device, int ordinal) { *device = 100 + ordinal; return result(); }
int cuCtxGetDevice(int *device) {
  *device = 100 + number("FAKE_CURRENT", -1);
  return *device < 100 ? 201 : result();
}
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  const char *list = getenv("FAKE_ACTIVE");
  *flags = 0;
  *active = list != NULL && strchr(list, '0' + device - 100) != NULL;
  return result();
}
int cuDeviceGetPCIBusId(char *text, int size, int device) {
  snprintf(text, (size_t)size, "00000000:1%d:00.0", device - 100);
  return result();
}
int cuInit(unsigned flags) { (void)flags; abort(); /* the probe must never initialise */ }
"""

APPLICATION = r"""
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
  (void)info; (void)size;
  atomic_store((atomic_int *)data, 1);
  for (;;) pause();
}
static void *holding(void *data) {
  dl_iterate_phdr(hold, data);
  return NULL;
}
static void end_with_a_lock(void) {
  atomic_int held = 0;
  pthread_t thread;
  pthread_create(&thread, NULL, holding, &held);
  while (!atomic_load(&held)) {}
  _exit(0);
}
int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "load") == 0 && dlopen("libcuda.so.1", RTLD_NOW) == NULL) return 9;
    if (strcmp(argv[i], "runtime") == 0) {
      void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_runtime");
      void (*start)(void);
      memcpy(&start, &symbol, sizeof start);
      start();
    }
    if (strcmp(argv[i], "fork") == 0 && fork() == 0) exit(0);
    if (strcmp(argv[i], "chdir") == 0 && chdir("/") != 0) return 8;
    if (strcmp(argv[i], "crash") == 0) abort();
    if (strcmp(argv[i], "exit") == 0) exit(3);
    if (strcmp(argv[i], "_exit") == 0) _exit(4);
    if (strcmp(argv[i], "_exit0") == 0) _exit(0);
    if (strcmp(argv[i], "locked") == 0) end_with_a_lock();
  }
  while (wait(NULL) > 0) {}
  return 3;
}
"""

# Starts env with two words and the environment that it has itself, in each of C's ways.
STARTER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define IS(name) (strcmp(way, name) == 0)
static const char path[] = "/usr/bin/env";
static char *words[] = {"env", "echo", "started", NULL};
static void become(const char *way) {
  if (IS("execl")) execl(path, "env", "echo", "started", (char *)NULL);
  if (IS("execlp")) execlp("env", "env", "echo", "started", (char *)NULL);
  if (IS("execle")) execle(path, "env", "echo", "started", (char *)NULL, environ);
  if (IS("execv")) execv(path, words);
  if (IS("execvp")) execvp("env", words);
  if (IS("execve")) execve(path, words, environ);
  if (IS("execvpe")) execvpe("env", words, environ);
  if (IS("fexecve")) fexecve(open(path, O_RDONLY), words, environ);
}
int main(int argc, char **argv) {
  const char *way = argv[1];
  pid_t child = 0;
  if (argc > 2) unsetenv("LD_PRELOAD");
  if (IS("system")) return system("env echo started");
  if (IS("popen")) return pclose(popen("env echo started", "w"));
  if (IS("posix_spawn")) posix_spawn(&child, path, NULL, NULL, words, environ);
  else if (IS("posix_spawnp")) posix_spawnp(&child, "env", NULL, NULL, words, environ);
  else {
    child = IS("vfork") ? vfork() : fork();
    if (child == 0) { become(IS("vfork") ? "execve" : way); _exit(1); }
  }
  return waitpid(child, NULL, 0) != child;
}
"""

# An application and its MPI library, bound as an extension module binds it: the library is private.
FAKE_MPI = r"""
#include <stdio.h>
int PMPI_Finalize(void) { return puts("finalized") < 0; }
int MPI_Finalize(void) { return PMPI_Finalize(); }
"""
PLUGIN = r"""
int MPI_Finalize(void);
int finish(void);
int finish(void) { return MPI_Finalize(); }
"""
HOST = r"""
#include <dlfcn.h>
#include <string.h>
int main(int argc, char **argv) {
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  int (*finish)(void);
  if (argc != 2 || plugin == NULL) return 9;
  void *symbol = dlsym(plugin, "finish");
  memcpy(&finish, &symbol, sizeof finish);
  return finish();
}
"""


def build_programs(folder, compiler):
    """Compile all of them into `folder`."""

    def build(name, source, *flags):
        (folder / f"{name}.c").write_text(source)
        line = [compiler, "-o", str(folder / name), str(folder / f"{name}.c"), *flags]
        subprocess.run([*line, "-ldl"], check=True)

    shared = ("-shared", "-fPIC")
    build("libcuda.so.1", FAKE_DRIVER, *shared)
    build("application", APPLICATION)
    build("starter", STARTER)
    build("libmpi.so", FAKE_MPI, *shared, "-Wl,-soname,libmpi.so")
    rpath = f"-Wl,-rpath,{folder}"
    build("plugin.so", PLUGIN, *shared, f"-L{folder}", "-lmpi", rpath)
    build("host", HOST)
    build("direct", PLUGIN + "int main(void) { return finish(); }", f"-L{folder}", "-lmpi", rpath)
