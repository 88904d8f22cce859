/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "pair.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/driver.h"

void expect(const char *file, int line, long expected, long found) {
  if (expected == found)
    return;
  (void)fprintf(stderr, "%s:%d: expected %ld, found %ld\n", file, line, expected, found);
  _exit(1);
}

uint64_t host_memory(size_t bytes) { return (uint64_t)(uintptr_t)malloc(bytes ? bytes : 1); }

static unsigned char letter(size_t at, unsigned seed) {
  return (unsigned char)((at * 2654435761U >> 8) + seed * 37U + at);
}

void put_pattern(struct side *side, uint64_t pointer, size_t bytes, unsigned seed, bool on_device) {
  (void)side;
  unsigned char *data = on_device ? malloc(bytes + 1) : (unsigned char *)(uintptr_t)pointer;
  for (size_t i = 0; i < bytes; ++i)
    data[i] = letter(i, seed);
  if (!on_device)
    return;
  const struct tdc_driver *driver = tdc_load_driver();
  if (bytes) {
    EXPECT(0, driver->copy_in(pointer, data, bytes, NULL));
    EXPECT(0, driver->stream_synchronize(NULL));
  }
  free(data);
}

void check_pattern(struct side *side, uint64_t pointer, size_t bytes, unsigned seed,
                   bool on_device) {
  (void)side;
  unsigned char *data = on_device ? malloc(bytes + 1) : (unsigned char *)(uintptr_t)pointer;
  const struct tdc_driver *driver = tdc_load_driver();
  if (on_device && bytes) {
    EXPECT(0, driver->copy_out(data, pointer, bytes, NULL));
    EXPECT(0, driver->stream_synchronize(NULL));
  }
  for (size_t i = 0; i < bytes; ++i)
    if (data[i] != letter(i, seed)) {
      (void)fprintf(stderr, "byte %zu of %zu is wrong\n", i, bytes);
      _exit(1);
    }
  if (on_device)
    free(data);
}

static void run_side(const struct scenario *scenario, int number, int socket) {
  struct side side = {.number = number, .socket = socket, .device = scenario->devices[number]};
  EXPECT(TDC_OK, tdc_open(scenario->devices[number], &scenario->options, &side.context));
  if (!scenario->unconnected)
    EXPECT(TDC_OK, tdc_connect(side.context, socket, &side.link));
  scenario->run(&side);
  tdc_close(side.context);
  exit(0); /* leaks are looked for here */
}

bool run_pair(const struct scenario *scenario) {
  int ends[2];
  pid_t sides[2];
  EXPECT(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  for (int i = 0; i < 2; ++i) {
    sides[i] = fork();
    if (sides[i] == 0) {
      (void)close(ends[1 - i]);
      run_side(scenario, i, ends[i]);
    }
  }
  (void)close(ends[0]);
  (void)close(ends[1]);
  bool good = true;
  for (int i = 0; i < 2; ++i) {
    int status = 0;
    EXPECT(sides[i], waitpid(sides[i], &status, 0));
    const bool killed = i == 1 && scenario->second_is_killed;
    good = good && (killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  return good;
}
