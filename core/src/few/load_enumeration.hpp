// The enumeration behind small_loads.hpp: ranks one by one on devices, the last four in all ways at
// once, by the loads of links.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "few/four_maxima.hpp"
#include "few/last_four.hpp"
#include "few/load_prospects.hpp"
#include "few/load_terms.hpp"
#include "few/orbit_leaders.hpp"
#include "few/placed_ranks.hpp"
#include "few/small_sum.hpp"
#include "few/tie_parts.hpp"
#include "loads/rank_twins.hpp"
#include "problem/qap_symmetry.hpp"
#include "toposeat/few/small_loads.hpp"
#include "toposeat/problem/congestion.hpp"
#include "toposeat/problem/symmetry.hpp"

namespace toposeat {

template <class Visit> inline void for_each_device(std::uint32_t set, Visit visit) {
  for (; set != 0; set &= set - 1)
    visit(static_cast<std::uint32_t>(std::countr_zero(set)));
}

class SmallLoads {
public:
  SmallLoads(const LoadProblem &problem, Assignment incumbent, const Deadline &deadline,
             const Requirement &required)
      : problem_(problem), deadline_(deadline), acceptable_(required.acceptable),
        talking_(branching_order(problem)), order_(all_ranks(problem, talking_)),
        one_by_one_(order_.size() - last_ranks), bytes_(bytes_between(order_, problem.traffic)),
        prospects_(problem, order_, talking_.size(), bytes_, required.limit),
        best_(std::move(incumbent)) {}

  /// See `least_congestion`.
  BoundedAnswer least_maximum(double known_bound, double sum_below) {
    best_max_ = congestion(problem_.network, problem_.traffic, best_).max_s;
    if (best_max_ > known_bound * (1 + tolerance)) {
      break_symmetries(Symmetry(problem_.network));
      enough_ = known_bound * (1 + tolerance);
      search();
      enough_ = 0;
    } else {
      ties_.mark_all();
    }
    const bool proved = !stopped_ && !acceptable_;
    const double bound = proved ? best_max_ : std::min(known_bound, best_max_);
    if (!(best_max_ < sum_below * (1 - tolerance)))
      most_nodes_ = nodes_ + few_nodes;
    if (!stopped_) {
      // Nothing has less: now the least sum of those that have as little.
      const Congestion here = congestion(problem_.network, problem_.traffic, best_);
      best_sum_ = std::accumulate(here.seconds.begin(), here.seconds.end(), 0.0);
      sum_ = std::make_unique<SmallSum>(problem_.network, bytes_, order_.size());
      if (!leaders_)
        break_symmetries(Symmetry(problem_.network));
      search();
    }
    return {best_, best_max_, bound, proved};
  }

  /// The least maximum that so many nodes lead to.
  const Assignment &dive(std::uint64_t nodes) {
    best_max_ = congestion(problem_.network, problem_.traffic, best_).max_s;
    break_symmetries(Symmetry(problem_.network));
    most_nodes_ = nodes;
    search();
    most_nodes_ = std::numeric_limits<std::uint64_t>::max();
    stopped_ = false;
    return best_;
  }

  /// See `visit_below`; after a dive.
  bool visit(double below_s) {
    best_max_ = below_s;
    search();
    return !stopped_;
  }

  /// Only placements with less are of interest from now on.
  void lower(double below_s) { best_max_ = below_s; }

private:
  static constexpr double tolerance = 1e-9;
  static constexpr std::uint64_t between_looks = 64; // nodes from one look at the clock to the next
  static constexpr std::uint64_t few_nodes = 120;    // some tenths of a millisecond
  static constexpr int many = 8;                     // looks that settle what is asked first
  /// A device for the rank that is placed next, and what speaks for it.
  struct Child {
    double rating;
    std::uint32_t device;
  };

  void break_symmetries(Symmetry machine) {
    leaders_ = std::make_unique<OrbitLeaders>(std::move(machine),
                                              later_twins(problem_, order_, talking_.size()));
    maxima_ = std::make_unique<FourMaxima>(prospects_.terms(), bytes_, order_.size(),
                                           leaders_->ways_against_twins(one_by_one_));
  }

  void search() {
    open_ = (1U << order_.size()) - 1;
    prospects_.start(open_);
    if (anything_possible(0))
      explore(0, problem_.allowed.empty());
  }

  /// What a maximum must be below to be of interest.
  [[nodiscard]] double limit() const {
    return best_max_ * (sum_ != nullptr ? 1 + tolerance : 1 - tolerance);
  }

  /// What a maximum must be below to be no worse.
  [[nodiscard]] double tie_limit() const { return best_max_ * (1 + tolerance); }

  [[nodiscard]] double sum_limit() const { return best_sum_ * (1 - tolerance); }

  [[nodiscard]] std::span<const std::uint32_t> fixed(std::size_t depth) const {
    return std::span(fixed_).first(depth);
  }

  void mark_tie(std::size_t depth) {
    if (sum_ == nullptr)
      ties_.mark(fixed(depth));
  }

  [[nodiscard]] bool out_of_time() {
    ++nodes_;
    stopped_ =
        stopped_ || nodes_ > most_nodes_ || (nodes_ % between_looks == 0 && deadline_.expired());
    return stopped_;
  }

  /// Places rank `depth` of the order in every way.
  void explore(std::size_t depth, bool symmetric) {
    std::array<Child, small_width> children;
    const std::size_t count = rated_children(depth, symmetric, children);
    const DeviceLine &most = prospects_.most(depth, depth);
    for (std::size_t i = 0; i < count && !out_of_time(); ++i) {
      const std::uint32_t device = children[i].device;
      if (!(most[device] < tie_limit()) || (sum_ != nullptr && !(children[i].rating < sum_limit())))
        continue;
      fixed_[depth] = device;
      if (!(most[device] < limit()) || best_max_ <= enough_) {
        mark_tie(depth + 1);
        continue;
      }
      if (sum_ != nullptr)
        sum_->place(depth, device);
      open_ ^= 1U << device;
      if (depth + 1 == one_by_one_) {
        seat_last_four(device);
      } else {
        prospects_.settle(depth, device, open_);
        if (anything_possible(depth + 1))
          explore(depth + 1, symmetric);
      }
      open_ ^= 1U << device;
    }
  }

  /// Open devices with hope, the likeliest first: by the maximum, or by the sum where that is
  /// searched.
  std::size_t rated_children(std::size_t depth, bool &symmetric,
                             std::array<Child, small_width> &children) {
    const DeviceLine &most = prospects_.most(depth, depth);
    std::size_t count = 0;
    for_each_device(candidates(depth, symmetric), [&](std::uint32_t d) {
      if (!(most[d] < tie_limit()))
        return;
      double rating = most[d];
      if (sum_ != nullptr) {
        fixed_[depth] = d;
        if (!ties_.any(fixed(depth + 1)))
          return;
        rating = bound_of_sum(depth, d);
      }
      std::size_t at = count++; // few enough to insert in order
      for (; at > 0 && rating < children[at - 1].rating; --at)
        children[at] = children[at - 1];
      children[at] = {rating, d};
    });
    return count;
  }

  double bound_of_sum(std::size_t depth, std::uint32_t device) {
    return sum_->bound(depth, device, open_ ^ (1U << device));
  }

  /// Open devices that the next rank need be tried on: greater than those of its earlier twins, and
  /// of those that a symmetry exchanges the least.
  std::uint32_t candidates(std::size_t depth, bool &symmetric) {
    std::uint32_t set = open_;
    if (symmetric) {
      for_each_device(open_, [&](std::uint32_t d) {
        if (!(prospects_.most(depth, depth)[d] < unlimited))
          set ^= 1U << d;
      });
      set = leaders_->least(fixed(depth), set, symmetric);
    }
    return set & leaders_->above_twins(fixed(depth), depth);
  }

  /// Whether each rank that is left has a device where the maximum is of interest.
  bool anything_possible(std::size_t depth) {
    bool tie = false;
    for (std::size_t p = depth; p < order_.size(); ++p) {
      const DeviceLine &most = prospects_.most(depth, p);
      double least = unlimited;
      for_each_device(open_, [&](std::uint32_t d) { least = std::min(least, most[d]); });
      if (!(least < tie_limit()))
        return false;
      tie = tie || !(least < limit());
    }
    if (tie)
      mark_tie(depth);
    return !tie;
  }

  // --- the last four ranks -------------------------------------------------------------------

  /// With the latest rank on a device.
  void seat_last_four(std::uint32_t device) {
    const std::size_t latest = one_by_one_ - 1;
    BeforeFour here = prospects_.before_four(latest, device);
    here.devices = four_of(open_);
    for (std::size_t k = 0; k < last_ranks; ++k)
      here.permitted[k] = leaders_->above_twins(fixed(one_by_one_), one_by_one_ + k) &
                          prospects_.devices_beside(latest, device, one_by_one_ + k);
    Ways most{};
    Ways rating;
    if (sum_ == nullptr) {
      if (!maxima_->any_below(tie_limit(), here, most))
        return;
      rating = most;
    } else if (!rate_by_sum(here, most, rating)) {
      return;
    }
    take_best(here.devices, most, rating);
  }

  /// The sums of the ways that are of interest, if any: most are ruled out by their sum or by their
  /// maximum, and what did so more often is asked first.
  bool rate_by_sum(const BeforeFour &here, Ways &most, Ways &rating) {
    const Ways &bounds = sum_->bounds_of_ways(here.device);
    const bool sums_first = within_maximum_ > 0;
    if (sums_first)
      rating = sum_->of_ways(here.devices);
    const Ways &known = sums_first ? rating : bounds;
    if (!(least_of(known) < sum_limit()))
      return false;
    for (std::size_t way = 0; way < last_ways; ++way)
      most[way] = known[way] < sum_limit() ? 0 : unlimited;
    const bool within = maxima_->any_below(tie_limit(), here, most);
    within_maximum_ = std::clamp(within_maximum_ + (within ? 1 : -1), -many, many);
    if (within && !sums_first)
      rating = sum_->of_ways(here.devices);
    return within;
  }

  /// Takes the way with the least rating of those that improve the best and are accepted.
  void take_best(const FourDevices &devices, const Ways &most, Ways &rating) {
    const bool for_sum = sum_ != nullptr;
    while (true) {
      const auto least = static_cast<std::size_t>(least_way(most, rating));
      if (least == last_ways || !(rating[least] < (for_sum ? sum_limit() : limit())))
        break;
      const double value = rating[least];
      rating[least] = unlimited;
      if (!take(devices, least))
        continue;
      if (for_sum) {
        best_sum_ = value;
      } else {
        best_max_ = value;
        ties_.clear(); // what was left out has more
      }
    }
    if (!for_sum &&
        std::any_of(rating.begin(), rating.end(), [&](double each) { return each < tie_limit(); }))
      mark_tie(one_by_one_);
  }

  /// Of the ways whose maximum is of interest; `last_ways` if there is none.
  [[nodiscard]] std::size_t least_way(const Ways &most, const Ways &rating) const {
    std::size_t least = last_ways;
    for (std::size_t way = 0; way < last_ways; ++way) {
      if (most[way] < limit() && rating[way] < (least < last_ways ? rating[least] : unlimited))
        least = way;
    }
    return least;
  }

  bool take(const FourDevices &devices, std::size_t way) {
    for (std::size_t k = 0; k < last_ranks; ++k)
      fixed_[one_by_one_ + k] = devices[last_seat(way, k)];
    Assignment whole(problem_.traffic.ranks);
    for (std::size_t p = 0; p < order_.size(); ++p) {
      if (order_[p] < whole.size())
        whole[order_[p]] = fixed_[p];
    }
    if (acceptable_ && !acceptable_(whole))
      return false;
    best_ = std::move(whole);
    return true;
  }

  const LoadProblem &problem_;
  const Deadline &deadline_;
  const Acceptable &acceptable_;
  std::vector<std::uint32_t> talking_;
  std::vector<std::uint32_t> order_; // these, then the silent ones
  std::size_t one_by_one_;           // ranks before the last four
  SmallTable bytes_;                 // [from][to], by places in the order
  LoadProspects prospects_;
  std::unique_ptr<OrbitLeaders> leaders_;
  std::unique_ptr<FourMaxima> maxima_;
  Assignment best_;
  double best_max_ = 0;
  double best_sum_ = 0;
  double enough_ = 0;                              // a maximum that nothing is below
  int within_maximum_ = 0;                         // more often than not, of late
  std::unique_ptr<SmallSum> sum_;                  // once the maximum is known
  std::array<std::uint32_t, small_width> fixed_{}; // device by place in the order
  std::uint32_t open_ = 0;                         // set of devices
  TieParts ties_;
  std::uint64_t nodes_ = 0;
  std::uint64_t most_nodes_ = std::numeric_limits<std::uint64_t>::max();
  bool stopped_ = false;
};

} // namespace toposeat
