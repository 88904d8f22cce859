// SPDX-License-Identifier: MIT OR Apache-2.0
#include "exact/limit_proof.hpp"

#include <algorithm>
#include <utility>

#include "exact/limit_search.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/congestion.hpp"

namespace toposeat {
namespace {

constexpr double tolerance = 1e-9;
constexpr double close_enough = 0.01; // of the value: bounds closer together are not told apart

class LimitProof {
public:
  LimitProof(const LoadProblem &problem, bool timed, Assignment incumbent, double known_bound,
             std::uint64_t steady_nodes)
      : problem_(problem), timed_(timed), steady_nodes_(steady_nodes), search_(problem, timed),
        model_(problem.network, problem.traffic), best_(std::move(incumbent)),
        best_s_(seconds(best_, unlimited)), steady_(best_), steady_s_(best_s_),
        bound_(std::min(known_bound, best_s_)) {}

  BoundedAnswer run(bool raise, const Deadline &deadline) {
    bool proved = nothing_better(deadline);
    if (!proved && raise) {
      const double before_s = best_s_;
      raise_bound(deadline);
      proved = best_s_ < before_s && nothing_better(deadline); // that it met is easier to prove
    }
    if (proved)
      return {best_, best_s_, best_s_, true};
    return {steady_, steady_s_, std::min(bound_, steady_s_), false};
  }

private:
  [[nodiscard]] double seconds(const Assignment &placement, double give_up_s) {
    return timed_ ? model_.seconds(placement, give_up_s)
                  : congestion(problem_.network, problem_.traffic, placement).max_s;
  }

  [[nodiscard]] bool open() const { return bound_ < best_s_ * (1 - tolerance); }

  /// True if no placement is better than the best one known by then.
  bool nothing_better(const Deadline &deadline) {
    return !open() ||
           search_.run(
               best_s_, deadline,
               [&](const Assignment &placement) {
                 keep(placement);
                 return open() ? best_s_ : 0;
               },
               (timed_ ? 2 : 8) * static_cast<double>(steady_nodes_)) ||
           !open();
  }

  /// Whether a placement is better than the best one known.
  bool keep(const Assignment &placement) {
    const double value = seconds(placement, best_s_);
    if (!(value < best_s_ * (1 - tolerance)))
      return false;
    best_ = placement;
    best_s_ = value;
    if (search_.nodes() <= steady_nodes_) {
      steady_ = best_;
      steady_s_ = best_s_;
    }
    return true;
  }

  /// Bisects the gap as often as there is time for, which is as long as some proofs take.
  void raise_bound(const Deadline &deadline) {
    const auto steady = static_cast<double>(steady_nodes_);
    double left = (timed_ ? 0.3 : 0.6) * steady;
    for (double most = best_s_; left > 0 && most - bound_ > close_enough * most;) {
      const double middle = (bound_ + most) / 2;
      const auto improves = [&](const Assignment &placement) {
        return keep(placement) ? 0 : middle;
      };
      if (search_.run(middle, deadline, improves, std::min(left, 0.25 * steady)))
        bound_ = middle * (1 - tolerance);
      else
        most = std::min(middle, best_s_);
      left = deadline.expired() ? 0 : left - search_.work();
    }
  }

  const LoadProblem &problem_;
  bool timed_;
  std::uint64_t steady_nodes_;
  LimitSearch search_;
  FlowModel model_;
  Assignment best_;
  double best_s_;
  Assignment steady_; // the best by `steady_nodes_`
  double steady_s_;
  double bound_; // nothing is below
};

} // namespace

bool limits_apply(const LoadProblem &problem) {
  return problem.network.devices > 1 && problem.network.devices <= max_limited_devices;
}

BoundedAnswer prove_by_limits(const LoadProblem &problem, bool timed, const Assignment &incumbent,
                              double known_bound, std::uint64_t steady_nodes, bool raise,
                              const Deadline &deadline) {
  return LimitProof(problem, timed, incumbent, known_bound, steady_nodes).run(raise, deadline);
}

} // namespace toposeat
