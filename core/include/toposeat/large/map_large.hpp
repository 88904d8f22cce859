// Mapping thousands of ranks: many quick candidates and a multilevel one, the best of which is
// kept.
//
// The shape is that of certificate/solve.hpp without a proof: candidates (large/, division/), swaps
// under the true distances, slots spread over the machine where ranks leave some free, and never a
// placement predicted slower than the default. No useful bound is known at this size.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "toposeat/base/deadline.hpp"
#include "toposeat/base/shared.hpp"
#include "toposeat/machines/large_machine.hpp"
#include "toposeat/machines/large_prediction.hpp"
#include "toposeat/problem/map_request.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

struct LargeRequest {
  Shared<LargeMachine> machine;
  Shared<RankTraffic> traffic;
  Objective objective = Objective::time;
  Method method = Method::automatic;
  double budget_s = 10; // wall time; what has begun is cut short, what is found is kept
  std::uint64_t seed = 1;
  std::vector<Assignment> given = {}; // more candidates, slot of each rank
  std::function<void(const std::string &stage, double share)> progress = {}; // may be empty
  const StopFlag *stop = nullptr; // when set to true, the best so far is returned
};

/// One placement that was looked at; `cpu_s` is the time its making took on this thread.
struct LargeCandidate {
  std::string name;
  double cost = 0;
  LargePrediction prediction;
  double cpu_s = 0;
  std::vector<std::string> also; // other candidates with the same placement
  Assignment slot_of_rank;
};

/// `value` is the cost where the machine has no links to look at; `solver` names the candidate.
struct LargeAnswer : MapAnswer {
  std::vector<LargeCandidate> candidates; // the first is the default: rank i on slot i
  std::size_t chosen = 0;

  [[nodiscard]] const LargeCandidate &home() const { return candidates.front(); }
  [[nodiscard]] const LargeCandidate &placed() const { return candidates[chosen]; }
};

/// Chooses a slot for each rank, no slot twice. Unless the method fixes one, the placement is never
/// predicted slower than the default, and it is the default if nothing is gained. Budget and stop
/// end the search.
///
/// Throws std::invalid_argument if the ranks do not fit, a given placement is none, or on
/// Method::exact: nothing is proved of so many ranks.
[[nodiscard]] LargeAnswer solve(const LargeRequest &request);

/// Sum over directed flows of bytes x distance.
[[nodiscard]] double directed_cost(const RankTraffic &traffic, const LargeMachine &machine,
                                   const Assignment &slots);

} // namespace toposeat
