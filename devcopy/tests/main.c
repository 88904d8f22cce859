/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs the scenarios on the stand-in driver, or on this node's own if TOPOSEAT_DEVCOPY_MACHINE is
   unset (make gpu-test): main [NAME-PART]. There scenarios that need a certain machine are left
   out, and all devices of a node that has fewer are its first ones. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/driver.h"
#include "pair.h"

/* The stand-in keeps its shared state beside the machine file: work on a copy. */
static bool copy_machine(const char *from, const char *to) {
  char buffer[65536];
  FILE *in = fopen(from, "re");
  FILE *out = fopen(to, "we");
  size_t size = in ? fread(buffer, 1, sizeof buffer, in) : 0;
  const bool good = in && out && size > 0 && fwrite(buffer, 1, size, out) == size;
  if (in)
    (void)fclose(in);
  if (out && fclose(out) != 0)
    return false;
  return good;
}

/* Devices of this node, asked by a process of its own: a driver does not survive a fork. */
static int count_devices(void) {
  const pid_t child = fork();
  if (child == 0) {
    int devices = 0;
    const struct tdc_driver *driver = tdc_load_driver();
    if (driver)
      (void)driver->device_count(&devices);
    _exit(devices > 200 ? 200 : devices);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* Runs one scenario if this node can; `devices` 0 for the stand-in's. */
static bool run_here(const struct scenario *scenario, int devices) {
  struct scenario here = *scenario;
  if (devices && scenario->needs_stand_in) {
    (void)printf("skip %s: needs another machine\n", scenario->name);
    (void)fflush(stdout);
    return true;
  }
  for (int i = 0; devices && i < 2; ++i)
    here.devices[i] %= devices;
  const bool good = run_pair(&here);
  (void)printf("%-4s %s\n", good ? "ok" : "BAD", scenario->name);
  (void)fflush(stdout);
  return good;
}

int main(int count, char **arguments) {
  const char *machine = getenv("TOPOSEAT_DEVCOPY_MACHINE");
  char folder[] = "/tmp/toposeat-devcopy-XXXXXX";
  char copy[64];
  char state[80];
  if (machine) {
    if (!mkdtemp(folder))
      return 2;
    (void)snprintf(copy, sizeof copy, "%s/machine", folder);
    (void)snprintf(state, sizeof state, "%s.state", copy);
    if (!copy_machine(machine, copy) || setenv("TOPOSEAT_EMULATED_MACHINE", copy, 1) != 0)
      return 2;
  }
  const int devices = machine ? 0 : count_devices();
  if (!machine && devices == 0) {
    (void)printf("no GPU driver with a device here\n");
    return 77;
  }
  unsigned bad = 0;
  unsigned run = 0;
  for (unsigned i = 0; i < scenario_count; ++i) {
    if (count > 1 && !strstr(scenarios[i].name, arguments[1]))
      continue;
    ++run;
    bad += !run_here(&scenarios[i], devices);
  }
  if (machine) {
    (void)unlink(copy);
    (void)unlink(state);
    (void)rmdir(folder);
  }
  (void)printf("%u scenarios, %u bad\n", run, bad);
  return bad || !run;
}
