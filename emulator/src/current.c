/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which contexts there are, and every thread's stack of current ones. */
#include "driver.h"

enum { STACK_DEPTH = 64, MAX_CONTEXTS = 1024 };

static __thread CUcontext stack[STACK_DEPTH];
static __thread unsigned depth;

static CUcontext contexts[MAX_CONTEXTS]; /* all that exist */

bool emu_keep_context(CUcontext context) {
  for (unsigned i = 0; i < MAX_CONTEXTS; ++i)
    if (!contexts[i]) {
      contexts[i] = context;
      return true;
    }
  return false;
}

void emu_forget_context(CUcontext context) {
  for (unsigned i = 0; i < MAX_CONTEXTS; ++i)
    if (contexts[i] == context)
      contexts[i] = NULL;
}

bool emu_context_lives(CUcontext context) {
  for (unsigned i = 0; context && i < MAX_CONTEXTS; ++i)
    if (contexts[i] == context)
      return true;
  return false;
}

bool emu_push(CUcontext context) {
  if (depth == STACK_DEPTH)
    return false;
  stack[depth++] = context;
  return true;
}

bool emu_pop(CUcontext *top) {
  if (!depth)
    return false;
  --depth;
  if (top)
    *top = stack[depth];
  return true;
}

CUcontext emu_current(void) {
  CUcontext context = depth ? stack[depth - 1] : NULL;
  return emu_context_lives(context) ? context : NULL;
}

bool emu_peer_enabled(unsigned from, unsigned to) {
  for (unsigned i = 0; i < MAX_CONTEXTS; ++i)
    if (contexts[i] && ((contexts[i]->physical == from && contexts[i]->peer[to]) ||
                        (contexts[i]->physical == to && contexts[i]->peer[from])))
      return true;
  return false;
}
