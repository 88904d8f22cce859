// What a solver that proves says at its end.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/problem/network.hpp"

namespace toposeat {

/// The best placement known and what was proved about the best possible one.
struct BoundedAnswer {
  Assignment placement; // of all ranks, silent ones included
  double value = 0;
  double lower_bound = 0;
  bool proved = false; // lower_bound reached value (within 1e-9 relative)
};

} // namespace toposeat
