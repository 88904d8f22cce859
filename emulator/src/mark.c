/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The marks of events: which record was reached last, and when; this process or another recorded
 * it. */
#include <errno.h>
#include <signal.h>

#include "queue.h"

void emu_event_reach(CUevent event, uint64_t number, int64_t time_ns) {
  struct event_mark *mark = event->mark;
  atomic_store(&mark->time_ns, time_ns);
  uint64_t before = atomic_load(&mark->reached);
  while (before < number && !atomic_compare_exchange_weak(&mark->reached, &before, number))
    ;
}

/* A record of a process that is no more will never be done: nobody waits for it. */
bool emu_event_is_reached(CUevent event, uint64_t number, int64_t *time_ns) {
  const struct event_mark *mark = event->mark;
  const bool reached = atomic_load(&mark->reached) >= number;
  *time_ns = reached ? atomic_load(&mark->time_ns) : 0;
  if (reached || mark == &event->own)
    return reached;
  return kill(atomic_load(&mark->recorder), 0) != 0 && errno == ESRCH;
}
