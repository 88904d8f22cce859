// Ctrl-C during a search: the solver is told to stop, and what it has is shown.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <atomic>
#include <csignal>

#include "toposeat/base/deadline.hpp"

/// While it lives, the first SIGINT asks the solver to stop, and the next one does what it did
/// before.
class Interrupts {
public:
  explicit Interrupts(bool wanted) : wanted_(wanted) {
    asked = false;
    if (!wanted_)
      return;
    struct sigaction action = {};
    action.sa_handler = [](int) { asked = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before_);
  }
  Interrupts(const Interrupts &) = delete;
  Interrupts &operator=(const Interrupts &) = delete;
  ~Interrupts() {
    if (wanted_)
      sigaction(SIGINT, &before_, nullptr);
  }

  inline static toposeat::StopFlag asked = false;
  static_assert(toposeat::StopFlag::is_always_lock_free);

private:
  bool wanted_;
  struct sigaction before_ = {};
};
