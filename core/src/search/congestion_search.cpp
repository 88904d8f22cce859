// SPDX-License-Identifier: MIT OR Apache-2.0
#include "search/congestion_search.hpp"

#include <algorithm>
#include <cmath>

#include "base/rng.hpp"
#include "toposeat/problem/congestion.hpp"

namespace toposeat {
namespace {

constexpr std::uint64_t first_cycle = 10; // exchanges per pair of devices; then doubled
constexpr std::uint64_t longest_first = 20000;
constexpr std::uint64_t patience = 2000; // exchanges per pair that find nothing: then it ends
constexpr std::uint64_t between_looks = 256;
constexpr double first_heat = 0.3; // over devices: relative rise that 1 in e times is accepted
constexpr double cooling = 0.1;    // in a cycle

struct Key {
  double max_s;
  double mean_s;

  bool better_than(const Key &other) const {
    if (less_by_tolerance(max_s, other.max_s))
      return true;
    return !less_by_tolerance(other.max_s, max_s) && less_by_tolerance(mean_s, other.mean_s);
  }
};

class SwapSearch {
public:
  SwapSearch(const LoadProblem &problem, const Assignment &start, const SwapOptions &options,
             const Deadline &deadline)
      : problem_(problem), options_(options), deadline_(deadline), rng_(options.seed),
        loads_(problem.network, problem.traffic, start), left_(options.exchanges), best_(start),
        best_key_(key()) {
    for (std::uint32_t d = 0; d < problem.network.devices; ++d) {
      const bool pinned =
          std::find(problem.pinned.begin(), problem.pinned.end(), d) != problem.pinned.end();
      if (!pinned)
        movable_.push_back(d);
    }
  }

  LoadAnswer run() {
    const std::uint64_t pairs = movable_.size() * movable_.size();
    std::uint64_t cycle = std::max<std::uint64_t>(1, std::min(first_cycle * pairs, longest_first));
    double before = unlimited;
    for (std::uint64_t all = 0, idle = 0; movable_.size() > 1; cycle *= 2) {
      descend();
      if (options_.visit)
        options_.visit(loads_.device_of_rank());
      keep();
      if (less_by_tolerance(best_key_.max_s, before))
        idle = 0;
      const bool met = !less_by_tolerance(options_.target, best_key_.max_s);
      if (done() || met || (idle > patience * pairs && 2 * idle > all))
        break;
      before = best_key_.max_s;
      go_to_best();
      cool(std::min(cycle, left_));
      go_to_best();
      all += cycle;
      idle += cycle;
    }
    return {best_, best_key_.max_s, best_key_.mean_s};
  }

private:
  Key key() const { return {loads_.max_s(), loads_.mean_s()}; }

  bool done() const { return left_ == 0 || deadline_.expired(); }

  void keep() {
    if (!key().better_than(best_key_))
      return;
    best_ = loads_.device_of_rank();
    best_key_ = key();
  }

  void go_to_best() {
    for (std::uint32_t rank = 0; rank < best_.size(); ++rank)
      loads_.move(rank, best_[rank]);
  }

  /// One cycle of annealing by the sum of powers; keeps the least maximum that it meets.
  void cool(std::uint64_t moves) {
    double sum = loads_.power_sum();
    double heat = first_heat / static_cast<double>(movable_.size());
    const double cooler = std::pow(cooling, 1 / static_cast<double>(moves));
    for (std::uint64_t move = 0; move < moves; ++move, --left_, heat *= cooler) {
      if (move % between_looks == 0) {
        if (deadline_.expired())
          return;
        sum = loads_.power_sum(); // against rounding errors
      }
      const std::uint32_t a = movable_[rng_.below(movable_.size())];
      const std::uint32_t b = movable_[rng_.below(movable_.size())];
      if (!may_exchange(a, b))
        continue;
      const double rise = loads_.weigh(a, b);
      const double worse = rise / (6 * sum);
      if (worse > 0 && (worse > 20 * heat || rng_.unit() >= std::exp(-worse / heat)))
        continue;
      loads_.make();
      sum += rise;
      if (less_by_tolerance(loads_.max_s(), best_key_.max_s))
        keep();
    }
  }

  /// First improvement, in a new random order each sweep.
  void descend() {
    bool improved = true;
    while (improved && !done()) {
      improved = false;
      here_ = key();
      for (const std::uint32_t first : rng_.permutation(movable_.size())) {
        for (const std::uint32_t second : rng_.permutation(movable_.size())) {
          if (first != second && left_ > 0 && try_exchange(movable_[first], movable_[second]))
            improved = true;
        }
        if (done())
          return;
      }
    }
  }

  /// Whatever sits on either device may sit on the other, and something does.
  [[nodiscard]] bool may_exchange(std::uint32_t a, std::uint32_t b) const {
    const std::uint32_t here = loads_.rank_on(a);
    const std::uint32_t there = loads_.rank_on(b);
    return here != there && (here == LinkLoads::nobody || problem_.may_use(here, b)) &&
           (there == LinkLoads::nobody || problem_.may_use(there, a));
  }

  bool try_exchange(std::uint32_t a, std::uint32_t b) {
    if (!may_exchange(a, b))
      return false;
    --left_;
    loads_.weigh(a, b);
    loads_.make();
    if (!key().better_than(here_)) {
      loads_.undo();
      return false;
    }
    here_ = key();
    return true;
  }

  const LoadProblem &problem_;
  const SwapOptions &options_;
  const Deadline &deadline_;
  Rng rng_;
  LinkLoads loads_;
  std::vector<std::uint32_t> movable_;
  std::uint64_t left_;
  Assignment best_;
  Key best_key_;
  Key here_{};
};

} // namespace

LoadAnswer search_congestion(const LoadProblem &problem, const Assignment &start,
                             const SwapOptions &options, const Deadline &deadline) {
  return SwapSearch(problem, start, options, deadline).run();
}

} // namespace toposeat
