// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/small_loads.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "load_kernel.hpp"
#include "load_terms.hpp"
#include "partial_sum.hpp"
#include "toposeat/congestion.hpp"
#include "toposeat/symmetry.hpp"

namespace toposeat {
namespace {

constexpr double tolerance = 1e-9;
constexpr std::uint64_t between_looks = 256; // nodes from one look at the clock to the next

constexpr std::size_t marked_depth = 3; // ranks at the top of the tree, in fixed order
constexpr std::size_t marks = small_width * small_width * small_width;

using Places = std::span<std::uint32_t>; // ranks by their place in the order

template <class Visit> void for_each_device(std::uint32_t set, Visit visit) {
  for (; set != 0; set &= set - 1)
    visit(static_cast<std::uint32_t>(std::countr_zero(set)));
}

class SmallLoads {
public:
  SmallLoads(const LoadProblem &problem, const Assignment &incumbent, double known_bound,
             const Deadline &deadline, const Acceptable &acceptable, double sum_below)
      : problem_(problem), deadline_(deadline), acceptable_(acceptable), known_bound_(known_bound),
        sum_below_(sum_below), order_(branching_order(problem)),
        bytes_(bytes_between(order_, problem.traffic)), terms_(problem.network),
        symmetry_(problem.network), best_(incumbent),
        lines_((order_.size() + 1) * terms_.shared(), 0.0),
        rows_((order_.size() + 1) * small_width * terms_.shared(), DeviceLine{}) {
    const Congestion start = congestion(problem.network, problem.traffic, incumbent);
    best_max_ = start.max_s;
    best_sum_ = std::accumulate(start.seconds.begin(), start.seconds.end(), 0.0);
  }

  BoundedAnswer run() {
    if (best_max_ > known_bound_ * (1 + tolerance)) {
      search();
    } else {
      ties_.set();
    }
    const bool proved = !stopped_ && !acceptable_;
    const double bound = proved ? best_max_ : std::min(known_bound_, best_max_);
    const bool sum_counts = !proved || less_by_tolerance(best_max_, sum_below_);
    if (!stopped_ && sum_counts && (!acceptable_ || accepted_)) {
      // Nothing has less: now the least sum of those that have as little.
      PartialSum sum(problem_.network, bytes_, order_.size());
      sum_ = &sum;
      search();
      sum_ = nullptr;
    }
    return {best_, best_max_, bound, proved};
  }

private:
  using Prospects = std::array<Prospect, small_width>;

  static SmallTable bytes_between(const std::vector<std::uint32_t> &order,
                                  const RankTraffic &traffic) {
    std::array<std::size_t, small_width> place{};
    place.fill(small_width);
    for (std::size_t p = 0; p < order.size(); ++p)
      place[order[p]] = p;
    SmallTable bytes{};
    for (const Flow &flow : traffic.flows) {
      if (place[flow.source] < small_width && place[flow.target] < small_width)
        bytes[place[flow.source]][place[flow.target]] = flow.bytes;
    }
    return bytes;
  }

  void search() {
    std::array<std::uint32_t, small_width> places{};
    std::iota(places.begin(), places.end(), 0U);
    const Places left = Places(places).first(order_.size());
    open_ = (1U << problem_.network.devices) - 1;
    for (const std::uint32_t p : left) {
      DeviceLine &floor = prospects_[0][p].lone;
      floor.fill(unlimited);
      for_each_device(open_, [&](std::uint32_t d) {
        if (problem_.may_use(order_[p], d))
          floor[d] = problem_.floors.congestion(order_[p], d);
      });
      prospects_[0][p].most = floor;
    }
    if (left.empty())
      return;
    if (const std::size_t next = narrowest(0, left); next < left.size())
      explore(0, left, next, problem_.allowed.empty());
  }

  /// What a maximum must be below to be of interest.
  [[nodiscard]] double limit() const {
    return best_max_ * (sum_ != nullptr ? 1 + tolerance : 1 - tolerance);
  }

  /// What a maximum must be below to be no worse.
  [[nodiscard]] double tie_limit() const { return best_max_ * (1 + tolerance); }

  // While the maximum is searched, those parts of the tree are marked where something that was left
  // out may have as little as the best: only these are looked at again for the sum. A part is what
  // the first few devices leave open.

  /// Calls for the part, or all parts, below the first `depth` devices of `fixed_`.
  template <class Visit> void for_each_part(std::size_t depth, Visit visit) const {
    std::size_t first = 0;
    std::size_t count = marks;
    for (std::size_t k = 0; k < std::min(depth, marked_depth); ++k) {
      count /= small_width;
      first += fixed_[k] * count;
    }
    for (std::size_t part = first; part < first + count; ++part)
      visit(part);
  }

  void mark_tie(std::size_t depth) {
    if (sum_ == nullptr)
      for_each_part(depth, [this](std::size_t part) { ties_.set(part); });
  }

  [[nodiscard]] bool skips(std::size_t depth) const {
    if (sum_ == nullptr || depth > marked_depth)
      return false;
    bool any = false;
    for_each_part(depth, [&](std::size_t part) { any = any || ties_.test(part); });
    return !any;
  }

  [[nodiscard]] bool out_of_time() {
    stopped_ = stopped_ || (++nodes_ % between_looks == 0 && deadline_.expired());
    return stopped_;
  }

  /// Places the rank left[next] in every way.
  void explore(std::size_t depth, Places left, std::size_t next, bool symmetric) {
    std::swap(left[next], left.front());
    const std::uint32_t p = left.front();
    const DeviceLine &most = prospects_[depth][p].most;
    std::array<std::uint32_t, small_width> devices;
    const std::size_t count = candidates(depth, most, symmetric, devices);
    for (std::size_t i = 0; i < count && most[devices[i]] < tie_limit() && !out_of_time(); ++i) {
      place_[p] = fixed_[depth] = devices[i];
      if (!(most[devices[i]] < limit()))
        mark_tie(depth + 1);
      if (!(most[devices[i]] < limit()) || skips(depth + 1))
        continue;
      open_ ^= 1U << devices[i];
      const Places others = left.subspan(1);
      if (others.empty()) {
        if (sum_ == nullptr || sum_->whole(depth, p, devices[i]) < best_sum_ * (1 - tolerance))
          leaf(most[devices[i]]);
      } else if (sum_ == nullptr ||
                 sum_->place(depth, p, devices[i], others, open_) < best_sum_ * (1 - tolerance)) {
        const std::size_t narrow = settle(depth, p, others);
        if (narrow < others.size())
          explore(depth + 1, others, narrow, symmetric);
      }
      open_ ^= 1U << devices[i];
    }
    std::swap(left[next], left.front());
  }

  /// Open devices with hope, the least first; one of each kind as long as there is symmetry.
  std::size_t candidates(std::size_t depth, const DeviceLine &most, bool &symmetric,
                         std::array<std::uint32_t, small_width> &devices) const {
    std::uint32_t set = open_;
    if (symmetric) {
      std::vector<std::uint32_t> all;
      for_each_device(open_, [&](std::uint32_t d) {
        if (most[d] < unlimited)
          all.push_back(d);
      });
      const auto chosen = symmetry_.representatives(std::span(fixed_).first(depth), all);
      symmetric = chosen.size() < all.size();
      set = 0;
      for (const std::uint32_t d : chosen)
        set |= 1U << d;
    }
    std::size_t count = 0;
    for_each_device(set, [&](std::uint32_t d) {
      if (!(most[d] < tie_limit()))
        return;
      std::size_t at = count++; // few enough to insert in order
      for (; at > 0 && most[d] < most[devices[at - 1]]; --at)
        devices[at] = devices[at - 1];
      devices[at] = d;
    });
    return count;
  }

  /// Of the ranks left, where in the list the one with the fewest devices is; past the end if one
  /// has none.
  std::size_t narrowest(std::size_t depth, std::span<const std::uint32_t> left) {
    const double less = limit();
    const double as_little = tie_limit();
    std::size_t best = 0;
    std::uint32_t fewest = small_width + 1;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const DeviceLine &most = prospects_[depth][left[i]].most;
      std::uint32_t better = 0;
      std::uint32_t any = 0;
      for_each_device(open_, [&](std::uint32_t d) {
        better += most[d] < less ? 1U : 0U;
        any += most[d] < as_little ? 1U : 0U;
      });
      if (any == 0)
        return left.size();
      if (better < fewest)
        best = i;
      fewest = std::min(fewest, better);
    }
    if (fewest > 0)
      return depth < marked_depth ? 0 : best;
    mark_tie(depth);
    return left.size();
  }

  /// What the others can expect with rank p where it is now; returns the `narrowest`.
  std::size_t settle(std::size_t depth, std::uint32_t p, std::span<const std::uint32_t> left) {
    const Prospects &expected = prospects_[depth];
    Prospects &expects = prospects_[depth + 1];
    std::array<LoadRow, small_width> rows;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const std::uint32_t q = left[i];
      rows[i] = {row(depth, q), row(depth + 1, q), &expected[q],
                 &expects[q],   bytes_[q][p],      bytes_[p][q]};
    }
    DeviceLine filled{};
    if (static_cast<std::size_t>(std::popcount(open_)) == left.size())
      for_each_device(open_, [&](std::uint32_t d) { filled[d] = 1; });
    double *line = lines_.data() + depth * terms_.shared();
    settle_(std::span(rows).first(left.size()), {&terms_, place_[p], row(depth, p), &expected[p],
                                                 line, line + terms_.shared(), &filled});
    return narrowest(depth + 1, left);
  }

  DeviceLine *row(std::size_t depth, std::size_t p) {
    return rows_.data() + (depth * small_width + p) * terms_.shared();
  }

  void leaf(double max_s) {
    const Assignment whole = with_silent_ranks();
    const Congestion loads = congestion(problem_.network, problem_.traffic, whole);
    const double sum = std::accumulate(loads.seconds.begin(), loads.seconds.end(), 0.0);
    if (sum_ != nullptr && !(sum < best_sum_ * (1 - tolerance)))
      return;
    if (acceptable_ && !acceptable_(whole))
      return;
    accepted_ = true;
    best_ = whole;
    if (sum_ == nullptr)
      ties_.reset(); // what was left out has more
    best_max_ = std::min(max_s, best_max_);
    best_sum_ = sum;
  }

  /// Silent ranks take the devices that are left, in order.
  Assignment with_silent_ranks() const {
    Assignment whole(problem_.traffic.ranks, Qap::no_pin);
    for (std::size_t p = 0; p < order_.size(); ++p)
      whole[order_[p]] = place_[p];
    std::uint32_t rest = open_;
    for (std::uint32_t &each : whole) {
      if (each != Qap::no_pin)
        continue;
      each = static_cast<std::uint32_t>(std::countr_zero(rest));
      rest &= rest - 1;
    }
    return whole;
  }

  const LoadProblem &problem_;
  const Deadline &deadline_;
  const Acceptable &acceptable_;
  double known_bound_;
  double sum_below_;
  std::vector<std::uint32_t> order_;
  SmallTable bytes_; // [from][to], by places in the order
  LoadTerms terms_;
  SettleRows settle_ = settle_rows();
  Symmetry symmetry_;
  Assignment best_;
  double best_max_ = 0;
  double best_sum_ = 0;
  PartialSum *sum_ = nullptr; // once the maximum is known
  std::array<Prospects, small_width> prospects_{};
  std::vector<double> lines_;                      // [depth][term]: of all that is placed
  std::vector<DeviceLine> rows_;                   // [depth][rank][term]
  std::array<std::uint32_t, small_width> place_{}; // device by rank
  std::array<std::uint32_t, small_width> fixed_{}; // device by depth
  std::uint32_t open_ = 0;                         // set of devices
  std::bitset<marks> ties_;
  std::uint64_t nodes_ = 0;
  bool accepted_ = false; // anything better than the incumbent
  bool stopped_ = false;
};

} // namespace

BoundedAnswer least_congestion(const LoadProblem &problem, const Assignment &incumbent,
                               double known_bound, const Deadline &deadline,
                               const Acceptable &acceptable, double sum_below) {
  if (problem.network.devices > max_small_loads)
    throw std::invalid_argument("too many devices to enumerate");
  return SmallLoads(problem, incumbent, known_bound, deadline, acceptable, sum_below).run();
}

} // namespace toposeat
