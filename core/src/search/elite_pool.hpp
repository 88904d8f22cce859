// Search for the least flow time among candidates: an elite pool, swap descent and iterated
// descent.
//
// Iterated local search (Lourenco, Martin, Stuetzle, in Handbook of Metaheuristics, 2003) from the
// placements that searches for cost and congestion met. Each is timed once by the flow model, only
// as far as it can still be better (`give_up_at`).
//
// Applies to any network. It proves nothing: the bounds come from elsewhere.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "problem/load_problem.hpp"
#include "toposeat/base/deadline.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// What candidates are ordered by, most important first; equal within 1e-9 relative is equal.
struct Score {
  double flow_s = 0;
  double max_s = 0;
  double mean_s = 0;
  std::uint32_t moved = 0; // ranks that are not where `home` has them

  [[nodiscard]] bool better_than(const Score &other) const;
};

/// The elite pool of a search: different placements, each timed once by the flow model.
class CandidatePool {
public:
  /// `home` is the default placement: it is the first candidate and wins all ties.
  CandidatePool(const LoadProblem &problem, Assignment home);

  /// Times a placement unless it is known or plainly worse than the best.
  void add(const Assignment &placement);

  /// From now on, a placement that is not timed by `end` is dropped.
  void stop_at(const Deadline &end) { model_.stop_at(end); }

  /// Swap descent by flow time from the best `starts` candidates; every improvement is added.
  void refine(std::size_t starts, std::uint64_t timings, const Deadline &deadline);

  /// Swap descents from kicked placements, as long as the best time exceeds `target` and is still
  /// improved now and then. Deterministic for a seed unless the deadline cuts it short.
  void iterate(std::uint64_t seed, double target, const Deadline &deadline);

  [[nodiscard]] const Assignment &best() const { return placements_[best_]; }
  [[nodiscard]] const Score &best_score() const { return scores_[best_]; }
  [[nodiscard]] std::size_t size() const { return placements_.size(); }

private:
  Score score(const Assignment &placement, double flow_s) const;
  /// `placement` and its time become those of a local optimum; returns how many were timed.
  std::uint64_t descend(Assignment &placement, double &flow_s, std::uint64_t most,
                        const Deadline &deadline);

  const LoadProblem &problem_;
  FlowModel model_;
  Assignment home_;
  std::set<Assignment> seen_;
  std::vector<Assignment> placements_;
  std::vector<Score> scores_;
  std::size_t best_ = 0;
};

/// Calls `visit(changed)` with every placement that differs from `placement` by one exchange of two
/// devices' ranks (one may be empty) and keeps the pins, until it returns false.
void for_each_exchange(const LoadProblem &problem, const Assignment &placement,
                       const std::function<bool(const Assignment &)> &visit);

} // namespace toposeat
