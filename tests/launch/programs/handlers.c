/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that handles a signal from before the program begins. */
#include <signal.h>

static void on(int number) { (void)number; }

__attribute__((constructor)) static void start(void) { signal(SIGTERM, on); }
