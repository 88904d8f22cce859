// What a mapper answers: placement and certificate.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "toposeat/problem/qap.hpp"

namespace toposeat {

struct MapAnswer {
  Assignment device_of_rank;
  double value = 0;                  // of the objective
  std::optional<double> lower_bound; // over all placements that devices and pins allow
  bool proved = false;               // value equals the lower bound within 1e-9
  bool kept_default = false;         // the default placement is returned
  bool uniform = false;              // all placements are equally good: no order gains anything
  bool interrupted = false;          // `stop` was set: another answer than without
  std::string solver; // what found or proved it: "tree", "branch and bound", "search" ...
  std::vector<std::string> notes;
};

} // namespace toposeat
