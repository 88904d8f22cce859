/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests of nonblocking MPI-IO: a wait for nothing else is time in files. Beyond the room for
 * them they count as others do.
 */
#include "actions.h"

#define MOST 256u

/*
 * Those that are not complete. While a thread waits for one, which may end it and so give its
 * handle to another thread, it has no word but a place among those that are waited for.
 */
static struct {
  tps_word word;
  const struct tps_thread *waiting;
  int at;
} pending[MOST];

static void set_used(unsigned used) {
  __atomic_store_n(&tps__process.file_requests, used, __ATOMIC_RELAXED);
}

/* Under the lock. */
static void remove_at(unsigned place) {
  unsigned last = tps__file_requests() - 1;
  pending[place] = pending[last];
  set_used(last);
}

/* Under the lock. Its place, or how many there are. */
static unsigned find(tps_word word) {
  unsigned place = 0;
  while (place < tps__file_requests() && pending[place].word != word)
    ++place;
  return place;
}

void tps__on_file_request(abi_handle request) {
  tps__lock();
  unsigned place = find(ABI_WORD(request)); /* one that ended unseen */
  if (place < MOST) {
    pending[place].word = ABI_WORD(request);
    pending[place].waiting = NULL;
    if (place == tps__file_requests())
      set_used(place + 1);
  }
  tps__unlock();
}

static bool is_null(abi_handle request) {
  static abi_handle null;
  abi_handle known = __atomic_load_n(&null, __ATOMIC_RELAXED);
  if (known == 0) {
    known = tps__request_null();
    __atomic_store_n(&null, known, __ATOMIC_RELAXED);
  }
  return request == known;
}

bool tps__files_awaited(int count, const abi_handle *requests) {
  bool found = false;
  tps__thread.awaits_others = false;
  tps__lock();
  for (int at = 0; requests != NULL && at < count; ++at) {
    unsigned place = find(ABI_WORD(requests[at]));
    if (place < tps__file_requests()) {
      pending[place].word = 0;
      pending[place].waiting = &tps__thread;
      pending[place].at = at;
      found = true;
    } else if (!is_null(requests[at])) {
      tps__thread.awaits_others = true;
    }
  }
  tps__unlock();
  return found;
}

void tps__files_waited(const abi_handle *requests, uint64_t spent) {
  tps__lock();
  for (unsigned place = tps__file_requests(); place-- > 0;) {
    if (pending[place].waiting != &tps__thread)
      continue;
    abi_handle left = requests[pending[place].at];
    pending[place].word = ABI_WORD(left);
    pending[place].waiting = NULL;
    if (is_null(left))
      remove_at(place);
  }
  tps__unlock();
  tps__leave(tps__thread.awaits_others ? TPS_TIME_COMPLETION : TPS_TIME_FILE, false, spent);
}

void tps__file_request_gone(abi_handle request) {
  tps__lock();
  unsigned place = find(ABI_WORD(request));
  if (place < tps__file_requests())
    remove_at(place);
  tps__unlock();
}
