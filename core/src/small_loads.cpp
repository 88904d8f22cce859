// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/small_loads.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "four_maxima.hpp"
#include "last_four.hpp"
#include "link_sums.hpp"
#include "load_kernel.hpp"
#include "load_terms.hpp"
#include "own_links.hpp"
#include "partial_sum.hpp"
#include "rank_twins.hpp"
#include "toposeat/congestion.hpp"
#include "toposeat/symmetry.hpp"

namespace toposeat {
namespace {

constexpr double tolerance = 1e-9;
constexpr std::uint64_t between_looks = 64; // nodes from one look at the clock to the next

constexpr std::size_t most_depth = small_width - last_ranks; // ranks that are placed one by one
constexpr std::size_t marks = small_width * small_width * small_width * small_width;
static_assert(most_depth == 4);

template <class Visit> void for_each_device(std::uint32_t set, Visit visit) {
  for (; set != 0; set &= set - 1)
    visit(static_cast<std::uint32_t>(std::countr_zero(set)));
}

/// Talking ranks first, and silent ones so that every device has one; at least one and four in all.
std::vector<std::uint32_t> all_ranks(const LoadProblem &problem,
                                     const std::vector<std::uint32_t> &talking) {
  const std::size_t count = std::max<std::size_t>(problem.network.devices, last_ranks + 1);
  std::vector<std::uint32_t> order = talking;
  for (std::uint32_t r = 0; r < count; ++r) {
    if (std::find(talking.begin(), talking.end(), r) == talking.end())
      order.push_back(r);
  }
  return order;
}

SmallTable bytes_between(const std::vector<std::uint32_t> &order, const RankTraffic &traffic) {
  std::array<std::size_t, small_width> place{};
  for (std::size_t p = 0; p < order.size(); ++p)
    place[order[p]] = p;
  SmallTable bytes{};
  for (const Flow &flow : traffic.flows)
    bytes[place[flow.source]][place[flow.target]] = flow.bytes;
  return bytes;
}

/// The sum of all links and what bounds it, made once it is asked for.
struct Sums {
  Sums(const Network &network, const SmallTable &bytes, std::size_t ranks)
      : own(network), bound(own, bytes, ranks), exact(own, bytes, ranks) {}

  OwnLinks own;
  PartialSum bound;
  LinkSums exact;
};

class SmallLoads {
public:
  SmallLoads(const LoadProblem &problem, const Assignment &incumbent, double known_bound,
             const Deadline &deadline, const Acceptable &acceptable, double sum_below)
      : problem_(problem), deadline_(deadline), acceptable_(acceptable), known_bound_(known_bound),
        sum_below_(sum_below), talking_(branching_order(problem)),
        order_(all_ranks(problem, talking_)), one_by_one_(order_.size() - last_ranks),
        bytes_(bytes_between(order_, problem.traffic)), terms_(problem.network),
        symmetry_(problem.network), best_(incumbent),
        lines_(one_by_one_ * terms_.shared().terms(), 0.0),
        rows_(one_by_one_ * small_width * terms_.shared().terms(), DeviceLine{}) {
    best_max_ = congestion(problem.network, problem.traffic, incumbent).max_s;
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
      const Congestion here = congestion(problem_.network, problem_.traffic, best_);
      best_sum_ = std::accumulate(here.seconds.begin(), here.seconds.end(), 0.0);
      sums_ = std::make_unique<Sums>(problem_.network, bytes_, order_.size());
      search();
    }
    return {best_, best_max_, bound, proved};
  }

private:
  using Prospects = std::array<Prospect, small_width>;

  /// A device for the rank that is placed next, and what speaks for it.
  struct Child {
    double rating;
    std::uint32_t device;
  };

  void search() {
    if (twins_.empty()) {
      twins_ = later_twins(problem_, order_, talking_.size());
      maxima_ = std::make_unique<FourMaxima>(terms_, bytes_, order_.size(), ways_against_twins());
    }
    open_ = (1U << order_.size()) - 1;
    for (std::size_t p = 0; p < order_.size(); ++p) {
      DeviceLine &floor = prospects_[0][p].lone;
      floor.fill(unlimited);
      for_each_device(open_, [&](std::uint32_t d) {
        if (d >= problem_.network.devices) // stands in for one: nobody who talks may use it
          floor[d] = p < talking_.size() ? unlimited : 0;
        else if (order_[p] >= problem_.network.devices || problem_.may_use(order_[p], d))
          floor[d] = p < talking_.size() ? problem_.floors.congestion(order_[p], d) : 0;
      });
      prospects_[0][p].most = floor;
    }
    if (anything_possible(0))
      explore(0, problem_.allowed.empty());
  }

  /// What a maximum must be below to be of interest.
  [[nodiscard]] double limit() const {
    return best_max_ * (sums_ != nullptr ? 1 + tolerance : 1 - tolerance);
  }

  /// What a maximum must be below to be no worse.
  [[nodiscard]] double tie_limit() const { return best_max_ * (1 + tolerance); }

  [[nodiscard]] double sum_limit() const { return best_sum_ * (1 - tolerance); }

  // While the maximum is searched, those parts of the tree are marked where something that was left
  // out may have as little as the best: only these are looked at again for the sum. A part is what
  // the ranks that are placed one by one leave open.

  /// First and end of the parts below the first `depth` devices of `fixed_`.
  [[nodiscard]] std::pair<std::size_t, std::size_t> parts(std::size_t depth) const {
    std::size_t first = 0;
    std::size_t count = marks;
    for (std::size_t k = 0; k < depth; ++k) {
      count /= small_width;
      first += fixed_[k] * count;
    }
    return {first, first + count};
  }

  void mark_tie(std::size_t depth) {
    if (sums_ != nullptr)
      return;
    const auto [first, end] = parts(depth);
    for (std::size_t part = first; part < end; ++part)
      ties_.set(part);
  }

  [[nodiscard]] bool marked(std::size_t depth) const {
    const auto [first, end] = parts(depth);
    for (std::size_t part = first; part < end; ++part) {
      if (ties_.test(part))
        return true;
    }
    return false;
  }

  [[nodiscard]] bool out_of_time() {
    stopped_ = stopped_ || (++nodes_ % between_looks == 0 && deadline_.expired());
    return stopped_;
  }

  /// Places rank `depth` of the order in every way.
  void explore(std::size_t depth, bool symmetric) {
    std::array<Child, small_width> children;
    const std::size_t count = rated_children(depth, symmetric, children);
    const DeviceLine &most = prospects_[depth][depth].most;
    for (std::size_t i = 0; i < count && !out_of_time(); ++i) {
      const std::uint32_t device = children[i].device;
      if (!(most[device] < tie_limit()) ||
          (sums_ != nullptr && !(children[i].rating < sum_limit())))
        continue;
      fixed_[depth] = device;
      if (!(most[device] < limit())) {
        mark_tie(depth + 1);
        continue;
      }
      if (sums_ != nullptr)
        place_for_sums(depth, device);
      open_ ^= 1U << device;
      if (depth + 1 == one_by_one_) {
        seat_last_four(device);
      } else {
        settle(depth);
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
    const DeviceLine &most = prospects_[depth][depth].most;
    std::size_t count = 0;
    for_each_device(candidates(depth, symmetric), [&](std::uint32_t d) {
      if (!(most[d] < tie_limit()))
        return;
      double rating = most[d];
      if (sums_ != nullptr) {
        fixed_[depth] = d;
        if (!marked(depth + 1))
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
    const auto p = static_cast<std::uint32_t>(depth);
    const std::uint32_t open = open_ ^ (1U << device);
    if (depth + 1 == one_by_one_) {
      Ways &ways = least_sums_[device];
      ways = sums_->bound.of_ways(depth, p, device, four_of(open));
      return *std::min_element(ways.begin(), ways.end());
    }
    std::array<std::uint32_t, small_width> left{};
    std::iota(left.begin(), left.end(), p + 1);
    return sums_->bound.place(depth, p, device, std::span(left).first(order_.size() - depth - 1),
                              open);
  }

  void place_for_sums(std::size_t depth, std::uint32_t device) {
    if (depth + 1 < one_by_one_)
      bound_of_sum(depth, device); // again: another child was the last
    sums_->exact.place(depth, device);
  }

  /// Open devices that the next rank need be tried on: greater than those of its earlier twins, and
  /// of those that a symmetry exchanges the least.
  std::uint32_t candidates(std::size_t depth, bool &symmetric) {
    std::uint32_t set = open_;
    if (symmetric) {
      for_each_device(open_, [&](std::uint32_t d) {
        if (!(prospects_[depth][depth].most[d] < unlimited))
          set ^= 1U << d;
      });
      const std::uint32_t all = set;
      set = representatives(depth, all);
      symmetric = set != all;
    }
    return set & greater_than_twins(depth, depth);
  }

  /// Of a set of devices, one of those that symmetries exchange; found once for both searches.
  std::uint32_t representatives(std::size_t depth, std::uint32_t set) {
    std::uint32_t key = set;
    for (std::size_t k = 0; k < depth; ++k)
      key = key << 4U | (8 + fixed_[k]);
    const auto [known, is_new] = representatives_.try_emplace(key, 0);
    if (is_new) {
      std::vector<std::uint32_t> all;
      for_each_device(set, [&](std::uint32_t d) { all.push_back(d); });
      for (const std::uint32_t d : symmetry_.representatives(std::span(fixed_).first(depth), all))
        known->second |= 1U << d;
    }
    return known->second;
  }

  /// Devices greater than those of the earlier twins of rank p among the first `depth`.
  [[nodiscard]] std::uint32_t greater_than_twins(std::size_t depth, std::size_t p) const {
    std::uint32_t set = (1U << small_width) - 1;
    for (std::size_t k = 0; k < depth; ++k) {
      if ((twins_[k] >> p & 1U) != 0)
        set &= ~((2U << fixed_[k]) - 1);
    }
    return set;
  }

  /// Whether each rank that is left has a device where the maximum is of interest.
  bool anything_possible(std::size_t depth) {
    bool tie = false;
    for (std::size_t p = depth; p < order_.size(); ++p) {
      const DeviceLine &most = prospects_[depth][p].most;
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

  /// What the ranks left can expect with rank `depth` where it is now.
  void settle(std::size_t depth) {
    const std::size_t terms = terms_.shared().terms();
    const Prospects &expected = prospects_[depth];
    Prospects &expects = prospects_[depth + 1];
    std::array<LoadRow, small_width> rows;
    const std::size_t left = order_.size() - depth - 1;
    for (std::size_t i = 0; i < left; ++i) {
      const std::size_t q = depth + 1 + i;
      rows[i] = {row(depth, q), row(depth + 1, q), &expected[q],
                 &expects[q],   bytes_[q][depth],  bytes_[depth][q]};
    }
    DeviceLine filled{};
    for_each_device(open_, [&](std::uint32_t d) { filled[d] = 1; });
    double *line = lines_.data() + depth * terms;
    settle_(std::span(rows).first(left), {&terms_, fixed_[depth], row(depth, depth),
                                          &expected[depth], line, line + terms, &filled});
  }

  DeviceLine *row(std::size_t depth, std::size_t p) {
    return rows_.data() + (depth * small_width + p) * terms_.shared().terms();
  }

  // --- the last four ranks -------------------------------------------------------------------

  static FourDevices four_of(std::uint32_t set) {
    FourDevices devices{};
    std::size_t count = 0;
    for_each_device(set, [&](std::uint32_t d) { devices[count++] = d; });
    return devices;
  }

  /// With the latest rank on a device.
  void seat_last_four(std::uint32_t device) {
    const std::size_t latest = one_by_one_ - 1;
    BeforeFour here;
    here.placed = lines_.data() + latest * terms_.shared().terms();
    here.rows = row(latest, 0);
    here.expected = prospects_[latest].data();
    here.device = device;
    here.devices = four_of(open_);
    for (std::size_t k = 0; k < last_ranks; ++k)
      here.permitted[k] = greater_than_twins(one_by_one_, one_by_one_ + k);
    Ways most{};
    if (sums_ != nullptr) {
      for (std::size_t way = 0; way < last_ways; ++way)
        most[way] = least_sums_[device][way] < sum_limit() ? 0 : unlimited;
    }
    if (!maxima_->any_below(tie_limit(), here, most))
      return;
    Ways rating = most;
    if (sums_ != nullptr)
      sums_->exact.of_ways(here.devices, rating);
    take_best(here.devices, most, rating);
  }

  /// Ways in which a rank of the last four is on a greater device than a later twin.
  [[nodiscard]] std::uint32_t ways_against_twins() const {
    std::uint32_t ways = 0;
    for (std::size_t way = 0; way < last_ways; ++way) {
      for (std::size_t k = 0; k < last_ranks; ++k) {
        for (std::size_t l = k + 1; l < last_ranks; ++l) {
          const bool twins = (twins_[one_by_one_ + k] >> (one_by_one_ + l) & 1U) != 0;
          if (twins && last_seat(way, k) > last_seat(way, l))
            ways |= 1U << way;
        }
      }
    }
    return ways;
  }

  /// Takes the way with the least rating of those that improve the best and are accepted.
  void take_best(const FourDevices &devices, const Ways &most, Ways &rating) {
    const bool for_sum = sums_ != nullptr;
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
        ties_.reset(); // what was left out has more
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
    accepted_ = true;
    best_ = std::move(whole);
    return true;
  }

  const LoadProblem &problem_;
  const Deadline &deadline_;
  const Acceptable &acceptable_;
  double known_bound_;
  double sum_below_;
  std::vector<std::uint32_t> talking_;
  std::vector<std::uint32_t> order_; // these, then the silent ones
  std::size_t one_by_one_;           // ranks before the last four
  SmallTable bytes_;                 // [from][to], by places in the order
  LoadTerms terms_;
  SettleRows settle_ = settle_rows();
  Symmetry symmetry_;
  std::unordered_map<std::uint32_t, std::uint32_t> representatives_;
  std::vector<std::uint32_t> twins_; // see `later_twins`
  std::unique_ptr<FourMaxima> maxima_;
  Assignment best_;
  double best_max_ = 0;
  double best_sum_ = 0;
  std::unique_ptr<Sums> sums_; // once the maximum is known
  std::array<Prospects, most_depth> prospects_{};
  std::vector<double> lines_;                      // [depth][term]: of all that is placed
  std::vector<DeviceLine> rows_;                   // [depth][rank][term]
  std::array<std::uint32_t, small_width> fixed_{}; // device by place in the order
  std::array<Ways, small_width> least_sums_;       // of the last four, by device of the latest
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
