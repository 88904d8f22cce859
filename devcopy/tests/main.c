/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs the scenarios on the stand-in driver, or on a real one if TOPOSEAT_DEVCOPY_MACHINE is unset:
   main [NAME-PART]. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
  unsigned bad = 0;
  unsigned run = 0;
  for (unsigned i = 0; i < scenario_count; ++i) {
    if (count > 1 && !strstr(scenarios[i].name, arguments[1]))
      continue;
    ++run;
    const bool good = run_pair(&scenarios[i]);
    (void)printf("%-4s %s\n", good ? "ok" : "BAD", scenarios[i].name);
    (void)fflush(stdout);
    bad += !good;
  }
  if (machine) {
    (void)unlink(copy);
    (void)unlink(state);
    (void)rmdir(folder);
  }
  (void)printf("%u scenarios, %u bad\n", run, bad);
  return bad || !run;
}
