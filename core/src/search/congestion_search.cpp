// SPDX-License-Identifier: MIT OR Apache-2.0
#include "search/congestion_search.hpp"

#include <algorithm>

#include "base/rng.hpp"
#include "toposeat/problem/congestion.hpp"

namespace toposeat {
namespace {

constexpr std::uint32_t all_pairs_limit = 32;       // devices; beyond, only the busiest link counts
constexpr std::uint64_t exchanges_at_target = 2000; // for the mean, once the maximum is optimal

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
    if (movable_.size() < 2)
      return {best_, best_key_.max_s, best_key_.mean_s};
    Assignment anchor = best_;
    Key anchor_key = best_key_;
    std::size_t kick = 2;
    while (!done()) {
      descend();
      const Key reached = key();
      if (options_.visit)
        options_.visit(loads_.device_of_rank());
      if (reached.better_than(best_key_)) {
        best_ = loads_.device_of_rank();
        best_key_ = reached;
        settle_for_mean();
      }
      const bool better = reached.better_than(anchor_key);
      kick = better ? 2 : (kick >= std::max<std::size_t>(3, movable_.size() / 3) ? 2 : kick + 1);
      if (!anchor_key.better_than(reached) || rng_.unit() < 0.05) {
        anchor = loads_.device_of_rank();
        anchor_key = reached;
      } else if (rng_.unit() < 0.3) {
        anchor = best_;
        anchor_key = best_key_;
      }
      go_to(anchor);
      for (std::size_t i = 0; i < kick; ++i)
        kick_once();
      loads_.commit();
    }
    return {best_, best_key_.max_s, best_key_.mean_s};
  }

private:
  Key key() const { return {loads_.max_s(), loads_.mean_s()}; }

  bool done() const { return left_ == 0 || deadline_.expired(); }

  void settle_for_mean() {
    if (!less_by_tolerance(options_.target, best_key_.max_s)) {
      left_ = std::min(left_, exchanges_at_target);
    }
  }

  std::uint32_t random_device() { return movable_[rng_.below(movable_.size())]; }

  void kick_once() {
    const std::uint32_t a = random_device();
    const std::uint32_t b = random_device();
    if (may_go(a, b) && may_go(b, a))
      loads_.exchange(a, b);
  }

  void go_to(const Assignment &placement) {
    for (std::uint32_t rank = 0; rank < placement.size(); ++rank) {
      loads_.move(rank, placement[rank]);
    }
    loads_.commit();
  }

  /// First improvement, in a new random order each sweep.
  void descend() {
    bool improved = true;
    while (improved && !done()) {
      improved = false;
      for (const std::uint32_t a : first_devices()) {
        for (const std::uint32_t step : rng_.permutation(movable_.size())) {
          const std::uint32_t b = movable_[step];
          if (a == b || left_ == 0)
            continue;
          if (try_exchange(a, b))
            improved = true;
        }
        if (done())
          return;
      }
    }
  }

  /// Whatever sits on `from` may sit on `to`.
  [[nodiscard]] bool may_go(std::uint32_t from, std::uint32_t to) const {
    const std::uint32_t rank = loads_.rank_on(from);
    return rank == LinkLoads::nobody || problem_.may_use(rank, to);
  }

  bool try_exchange(std::uint32_t a, std::uint32_t b) {
    if (loads_.rank_on(a) == LinkLoads::nobody && loads_.rank_on(b) == LinkLoads::nobody) {
      return false;
    }
    if (!problem_.allowed.empty() && !(may_go(a, b) && may_go(b, a)))
      return false;
    --left_;
    const double max_before = loads_.max_s();
    if (!mean_known_)
      mean_here_ = loads_.mean_s();
    mean_known_ = true;
    loads_.exchange(a, b);
    bool better = less_by_tolerance(loads_.max_s(), max_before);
    if (!better && !less_by_tolerance(max_before, loads_.max_s())) {
      better = less_by_tolerance(loads_.mean_s(), mean_here_);
    }
    if (better) {
      loads_.commit();
      mean_known_ = false;
    } else {
      loads_.undo();
    }
    return better;
  }

  /// One end of the exchanges of a sweep, in random order.
  std::vector<std::uint32_t> first_devices() {
    mean_known_ = false;
    std::vector<std::uint32_t> devices = movable_;
    if (movable_.size() > all_pairs_limit)
      devices = devices_of_busiest_link();
    for (std::size_t i = devices.size(); i > 1; --i) {
      std::swap(devices[i - 1], devices[rng_.below(i)]);
    }
    return devices;
  }

  std::vector<std::uint32_t> devices_of_busiest_link() const {
    const auto seconds = loads_.seconds();
    const auto busiest = static_cast<std::uint32_t>(
        std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
    std::vector<bool> uses(problem_.network.devices, false);
    const Assignment &here = loads_.device_of_rank();
    for (const Flow &flow : problem_.traffic.flows) {
      for (const LinkUse &use : problem_.network.route(here[flow.source], here[flow.target])) {
        if (use.link == busiest)
          uses[here[flow.source]] = uses[here[flow.target]] = true;
      }
    }
    std::vector<std::uint32_t> devices;
    for (const std::uint32_t d : movable_) {
      if (uses[d])
        devices.push_back(d);
    }
    return devices;
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
  double mean_here_ = 0;
  bool mean_known_ = false;
};

} // namespace

LoadAnswer search_congestion(const LoadProblem &problem, const Assignment &start,
                             const SwapOptions &options, const Deadline &deadline) {
  return SwapSearch(problem, start, options, deadline).run();
}

} // namespace toposeat
