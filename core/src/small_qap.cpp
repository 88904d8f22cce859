// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/small_qap.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "last_four.hpp"
#include "qap_symmetry.hpp"
#include "toposeat/prepared_qap.hpp"
#include "wide.hpp"

namespace toposeat {
namespace {

constexpr std::size_t width = max_small_devices;
using Line = DeviceLine;
static_assert(width == small_width);

/// Ranks that talk or are bound to a device, pinned ones first, then always the one with most
/// traffic to those before it; all others after them if these are more than four.
std::vector<std::uint32_t> placing_order(const Qap &qap) {
  const auto weight = [&](std::size_t r, std::size_t s) {
    const double second = qap.has_second_term() ? qap.flow2(r, s) + qap.flow2(s, r) : 0;
    return qap.flow(r, s) + qap.flow(s, r) + second;
  };
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> left;
  std::vector<double> attached(qap.size(), 0);
  for (std::uint32_t r = 0; r < qap.active; ++r) {
    left.push_back(r);
    for (std::size_t s = 0; s < qap.active; ++s)
      attached[r] += 1e-6 * weight(r, s); // decides until something is placed, then breaks ties
  }
  while (!left.empty()) {
    const auto next = std::max_element(left.begin(), left.end(), [&](auto a, auto b) {
      return std::pair(!qap.free_rank(a), attached[a]) < std::pair(!qap.free_rank(b), attached[b]);
    });
    order.push_back(*next);
    left.erase(next);
    for (const std::uint32_t r : left)
      attached[r] += weight(r, order.back());
  }
  // The last four are seated at once: silent ranks take what devices the others leave.
  for (std::uint32_t r = static_cast<std::uint32_t>(qap.active);
       order.size() > last_ranks && r < qap.size(); ++r)
    order.push_back(r);
  return order;
}

/// Smallest sums of products of a falling list of flows with the distances from each device.
class LeastProducts {
public:
  explicit LeastProducts(const Matrix &distance) : rising_(distance.n) {
    for (std::size_t a = 0; a < distance.n; ++a) {
      for (std::size_t b = 0; b < distance.n; ++b) {
        if (a != b)
          rising_[a].push_back(distance(a, b));
      }
      std::sort(rising_[a].begin(), rising_[a].end());
    }
  }

  void add_to(Line &line, const std::vector<double> &falling) const {
    for (std::size_t a = 0; a < rising_.size(); ++a) {
      for (std::size_t i = 0; i < falling.size(); ++i)
        line[a] += falling[i] * rising_[a][i];
    }
  }

private:
  std::vector<std::vector<double>> rising_;
};

/// The ranks that are left, by their place in the order, and the device taken last.
struct Rest {
  std::size_t first;
  std::size_t end;
  std::size_t device;
};

/// Fills `next` for the ranks left once one is placed: their cost to those placed, by device.
/// `pairs[p]`: their cost to the one placed now, by its device; `ahead`: see SmallSearch. Returns a
/// bound of what they add.
TOPOSEAT_WIDE double place(const Rest &rest, const Line *linear, const SmallTable *pairs,
                           const Line *ahead, Line *next) {
  double bound = 0;
  for (std::size_t p = rest.first; p < rest.end; ++p) {
    const double *pair = pairs[p][rest.device].data();
    const double *before = linear[p].data();
    const double *others = ahead[p].data();
    double now[width];
    double whole[width];
    for (std::size_t d = 0; d < width; ++d) {
      now[d] = before[d] + pair[d];
      whole[d] = now[d] + others[d];
    }
    now[rest.device] = whole[rest.device] = unlimited;
    for (std::size_t d = 0; d < width; ++d)
      next[p][d] = now[d];
    double low[4];
    for (std::size_t d = 0; d < 4; ++d)
      low[d] = whole[d] < whole[d + 4] ? whole[d] : whole[d + 4];
    bound += std::min(std::min(low[0], low[1]), std::min(low[2], low[3]));
  }
  return bound;
}

class SmallSearch {
public:
  SmallSearch(const Qap &original, const Assignment &incumbent, double upper)
      : original_(original), prepared_(original), qap_(prepared_.qap), order_(placing_order(qap_)),
        best_(incumbent), best_cost_(qap_cost(qap_, incumbent)), machine_(machine_colours(qap_)) {
    const double limit = limit_below(upper);
    found_ = best_cost_ <= limit;
    best_cost_ = std::min(best_cost_, limit);
    symmetric_ = qap_.allowed.empty() && std::all_of(qap_.pinned.begin(), qap_.pinned.end(),
                                                     [](auto pin) { return pin == Qap::no_pin; });
    fill_pairs();
    fill_ahead();
  }

  BoundedAnswer run() {
    SmallTable linear{};
    for (std::size_t p = 0; p < order_.size(); ++p) {
      for (std::size_t d = 0; d < width; ++d)
        linear[p][d] = d < qap_.size() && qap_.may_use(order_[p], d) ? 0 : unlimited;
    }
    explore(0, 0, linear);
    const double value = found_ ? qap_cost(original_, best_) : prepared_.original(best_cost_);
    return {best_, value, value, true};
  }

private:
  struct Child {
    double bound;
    double placed;
    std::size_t device;
    SmallTable linear;
  };

  /// Least cost that a placement can have without being below `upper`.
  double limit_below(double upper) const {
    const double limit = (upper - prepared_.constant) / prepared_.scale;
    if (!(limit < unlimited) || !(prepared_.step > 0))
      return limit;
    return std::ceil(limit / prepared_.step - 1e-6) * prepared_.step;
  }

  void fill_pairs() {
    for (std::size_t p = 0; p < order_.size(); ++p) {
      for (std::size_t q = p + 1; q < order_.size(); ++q) {
        for (std::size_t a = 0; a < qap_.size(); ++a) {
          for (std::size_t b = 0; b < qap_.size(); ++b)
            pair_[p][q][a][b] = qap_.pair_cost(order_[p], order_[q], a, b) +
                                qap_.pair_cost(order_[q], order_[p], b, a);
        }
      }
    }
  }

  /// ahead_[k][p]: least cost of what rank p of the order sends to ranks k, k + 1, ... on devices.
  void fill_ahead() {
    const LeastProducts first(qap_.distance);
    const LeastProducts second(qap_.distance2);
    for (std::size_t k = 0; k < order_.size(); ++k) {
      for (std::size_t p = k; p < order_.size(); ++p) {
        ahead_[k][p].fill(0);
        first.add_to(ahead_[k][p], flows_to(qap_.flow, p, k));
        if (qap_.has_second_term())
          second.add_to(ahead_[k][p], flows_to(qap_.flow2, p, k));
      }
    }
  }

  std::vector<double> flows_to(const Matrix &flow, std::size_t p, std::size_t first) const {
    std::vector<double> flows;
    for (std::size_t q = first; q < order_.size(); ++q) {
      if (q != p)
        flows.push_back(flow(order_[p], order_[q]));
    }
    std::sort(flows.begin(), flows.end(), std::greater<>());
    return flows;
  }

  double prunes_at() const {
    if (prepared_.step > 0)
      return best_cost_ - prepared_.step + 1e-3;
    return best_cost_ - 1e-10 * prepared_.original(best_cost_) / prepared_.scale;
  }

  /// `linear[p]`: cost of rank p of the order, on each device, to those placed; infinite where it
  /// cannot go.
  void explore(std::size_t depth, double placed, const SmallTable &linear) {
    if (order_.size() == qap_.size() && depth + last_ranks == order_.size() && depth > 0) {
      seat_last_four(placed, linear);
      return;
    }
    if (depth == order_.size()) {
      record(placed);
      return;
    }
    std::array<Child, width> children;
    std::array<std::size_t, width> by_bound{};
    std::size_t count = 0;
    for (std::uint32_t open = candidates(depth, linear[depth]); open != 0; open &= open - 1) {
      Child &child = children[count];
      child.device = static_cast<std::size_t>(std::countr_zero(open));
      child.placed = placed + linear[depth][child.device];
      child.bound =
          child.placed + place({depth + 1, order_.size(), child.device}, linear.data(),
                               pair_[depth].data(), ahead_[depth + 1].data(), child.linear.data());
      if (child.bound > prunes_at())
        continue;
      std::size_t place = count++; // few enough to insert in order
      for (; place > 0 && children[by_bound[place - 1]].bound > child.bound; --place)
        by_bound[place] = by_bound[place - 1];
      by_bound[place] = count - 1;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Child &child = children[by_bound[i]];
      if (child.bound > prunes_at())
        return;
      here_[depth] = static_cast<std::uint32_t>(child.device);
      explore(depth + 1, child.placed, child.linear);
    }
  }

  /// Open devices, as a set; at the first two levels one of each kind.
  std::uint32_t candidates(std::size_t depth, const Line &linear) {
    std::uint32_t open = 0;
    for (std::uint32_t d = 0; d < width; ++d)
      open |= linear[d] < unlimited ? 1U << d : 0U;
    if (!symmetric_ || depth > 1)
      return open;
    std::vector<std::uint32_t> all;
    for (std::uint32_t d = 0; d < width; ++d) {
      if ((open >> d & 1U) != 0)
        all.push_back(d);
    }
    std::uint32_t chosen = 0;
    for (const std::uint32_t d : machine_.representatives(std::span(here_).first(depth), all))
      chosen |= 1U << d;
    return chosen;
  }

  void record(double cost) {
    if (!(cost <= prunes_at()))
      return;
    best_ = with_silent_ranks();
    best_cost_ = cost;
    found_ = true;
  }

  /// All ways of the last four ranks on the devices that are left.
  void seat_last_four(double placed, const SmallTable &linear) {
    const std::size_t first = order_.size() - last_ranks;
    std::uint32_t taken = 0;
    for (std::size_t p = 0; p < first; ++p)
      taken |= 1U << here_[p];
    FourDevices devices{};
    std::size_t count = 0;
    for (std::uint32_t d = 0; d < qap_.size(); ++d) {
      if ((taken >> d & 1U) == 0)
        devices[count++] = d;
    }
    const Ways costs = kernels_.one_sum(placed, linear, first, devices, among(devices));
    const auto least = std::min_element(costs.begin(), costs.end());
    if (!(*least <= prunes_at()))
      return;
    const auto way = static_cast<std::size_t>(least - costs.begin());
    for (std::size_t k = 0; k < last_ranks; ++k)
      here_[first + k] = devices[last_seat(way, k)];
    record(*least);
  }

  /// What the last four cost among themselves.
  const Ways &among(const FourDevices &devices) {
    const std::size_t number = number_of(devices);
    Ways &among = among_[number];
    if (known_.test(number))
      return among;
    known_.set(number);
    const std::size_t first = order_.size() - last_ranks;
    among = over_pairs(
        [&](std::size_t k, std::size_t a, std::size_t l, std::size_t b) {
          return pair_[first + l][first + k][devices[b]][devices[a]]; // l before k
        },
        std::plus<>());
    return among;
  }

  /// Silent ranks fill the rest.
  Assignment with_silent_ranks() const {
    Assignment whole(qap_.size());
    std::uint32_t taken = 0;
    for (std::size_t p = 0; p < order_.size(); ++p) {
      whole[order_[p]] = here_[p];
      taken |= 1U << here_[p];
    }
    for (std::size_t r = qap_.active; r < qap_.size() && order_.size() < qap_.size(); ++r) {
      whole[r] = static_cast<std::uint32_t>(std::countr_one(taken));
      taken |= 1U << whole[r];
    }
    return whole;
  }

  const Qap &original_;
  PreparedQap prepared_;
  const Qap &qap_; // the prepared one
  std::vector<std::uint32_t> order_;
  Assignment best_;
  double best_cost_;
  bool found_ = false; // `best_` has that cost
  Symmetry machine_;
  bool symmetric_ = false;
  std::array<std::array<SmallTable, width>, width> pair_{}; // [rank][rank][device]
  std::array<std::array<Line, width>, width + 1> ahead_{};
  std::array<std::uint32_t, width> here_{};
  FourKernels kernels_ = four_kernels();
  std::vector<Ways> among_ = std::vector<Ways>(four_sets); // of the last four, by set of devices
  std::bitset<four_sets> known_;
};

} // namespace

BoundedAnswer solve_small_qap(const Qap &qap, const Assignment &incumbent, double upper) {
  if (qap.size() > max_small_devices)
    throw std::invalid_argument("too many devices to enumerate");
  return SmallSearch(qap, incumbent, upper).run();
}

} // namespace toposeat
