// CPU time of the calling thread, for reports: a busy machine does not lengthen it.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <ctime>

namespace toposeat {

inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

} // namespace toposeat
