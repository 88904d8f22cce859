// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/small_loads.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "toposeat/congestion.hpp"
#include "toposeat/symmetry.hpp"
#include "wide.hpp"

namespace toposeat {
namespace {

constexpr std::size_t width = max_small_loads;
constexpr std::size_t lanes = 4; // lines of links are padded to these
constexpr double tolerance = 1e-9;
constexpr std::uint64_t between_looks = 256; // nodes from one look at the clock to the next

struct Total {
  double max_s = 0;
  double sum_s = 0;
};

/// Of links whose terms (forward, backward and, where there is any, combined) stand in lines.
TOPOSEAT_WIDE Total total_of(const double *lines, std::size_t links, std::size_t terms) {
  const double *backward = lines + links;
  const double *combined = lines + (terms - 1) * links; // without any: backward once more
  double most[lanes] = {};
  double sum[lanes] = {};
  for (std::size_t i = 0; i < links; i += lanes) {
    for (std::size_t k = 0; k < lanes; ++k) {
      const double one = lines[i + k] > backward[i + k] ? lines[i + k] : backward[i + k];
      const double all = one > combined[i + k] ? one : combined[i + k];
      sum[k] += all;
      most[k] = most[k] > all ? most[k] : all;
    }
  }
  return {std::max(std::max(most[0], most[1]), std::max(most[2], most[3])),
          (sum[0] + sum[1]) + (sum[2] + sum[3])};
}

/// The links that routes use, one after the other, and what a byte of each ordered pair of devices
/// adds to their terms.
class PairLoads {
public:
  explicit PairLoads(const Network &network) : devices_(network.devices) {
    std::vector<std::size_t> place(network.links.size(), unused);
    std::size_t links = 0;
    for (const LinkUse &use : network.route_uses) {
      if (place[use.link] == unused)
        place[use.link] = links++;
    }
    links_ = (links + lanes - 1) / lanes * lanes;
    const bool combined = std::any_of(network.links.begin(), network.links.end(),
                                      [](const auto &link) { return link.combined < unlimited; });
    terms_ = combined ? 3 : 2;
    begin_.push_back(0);
    for (std::uint32_t a = 0; a < devices_; ++a) {
      for (std::uint32_t b = 0; b < devices_; ++b) {
        for (const LinkUse &use : network.route(a, b)) {
          const LinkCapacity &link = network.links[use.link];
          add(place[use.link] + (use.reverse ? links_ : 0),
              use.reverse ? link.backward : link.forward);
          add(place[use.link] + 2 * links_, link.combined);
        }
        begin_.push_back(adds_.size());
      }
    }
  }

  [[nodiscard]] std::size_t size() const { return terms_ * links_; }
  [[nodiscard]] Total total(const double *lines) const { return total_of(lines, links_, terms_); }

  /// False if a link has more than `limit` seconds then.
  bool add_to(double *lines, double bytes, std::size_t from, std::size_t to, double limit) const {
    const std::size_t pair = from * devices_ + to;
    bool within = true;
    for (std::size_t i = begin_[pair]; i < begin_[pair + 1]; ++i) {
      const double now = lines[adds_[i].place] + bytes * adds_[i].pace;
      lines[adds_[i].place] = now;
      within = within && now <= limit;
    }
    return within;
  }

private:
  static constexpr std::size_t unused = static_cast<std::size_t>(-1);

  struct Addition {
    std::size_t place;
    double pace; // seconds per byte
  };

  void add(std::size_t place, double capacity) {
    if (capacity < unlimited)
      adds_.push_back({place, 1 / capacity});
  }

  std::size_t devices_;
  std::size_t links_ = 0; // padded
  std::size_t terms_ = 2; // lines of links
  std::vector<std::size_t> begin_;
  std::vector<Addition> adds_;
};

class SmallLoads {
public:
  SmallLoads(const LoadProblem &problem, const Assignment &incumbent, double known_bound,
             const Deadline &deadline, const Acceptable &acceptable)
      : problem_(problem), deadline_(deadline), acceptable_(acceptable), known_bound_(known_bound),
        order_(branching_order(problem)), pairs_(problem.network), symmetry_(problem.network),
        best_(incumbent), lines_((order_.size() + 1) * width * pairs_.size(), 0.0) {
    const Congestion start = congestion(problem.network, problem.traffic, incumbent);
    best_value_ = start.max_s;
    if (!acceptable_) {
      for (const double seconds : start.seconds)
        best_sum_ += seconds;
    }
    list_flows();
  }

  BoundedAnswer run() {
    explore(0, lines_.data(), true);
    const double bound =
        stopped_ || acceptable_ ? std::min(known_bound_, best_value_) : best_value_;
    return {best_, best_value_, bound, !stopped_ && !acceptable_};
  }

private:
  struct Child {
    Total total;
    std::uint32_t device = 0;
    const double *lines = nullptr;
  };

  /// Bytes between a rank and one before it in the order.
  struct Exchange {
    std::size_t peer; // place in the order
    double sent;
    double received;
  };

  void list_flows() {
    Matrix bytes(problem_.traffic.ranks);
    for (const Flow &flow : problem_.traffic.flows)
      bytes(flow.source, flow.target) = flow.bytes;
    exchanges_.resize(order_.size());
    for (std::size_t p = 0; p < order_.size(); ++p) {
      for (std::size_t q = 0; q < p; ++q) {
        const Exchange each{q, bytes(order_[p], order_[q]), bytes(order_[q], order_[p])};
        if (each.sent > 0 || each.received > 0)
          exchanges_[p].push_back(each);
      }
      // What is too much shows early.
      std::sort(exchanges_[p].begin(), exchanges_[p].end(), [](const auto &a, const auto &b) {
        return std::pair(a.sent + a.received, a.peer) > std::pair(b.sent + b.received, b.peer);
      });
    }
  }

  bool hopeless(const Total &total) const {
    if (total.max_s > best_value_ * (1 + tolerance))
      return true;
    return std::max(total.max_s, known_bound_) >= best_value_ * (1 - tolerance) &&
           total.sum_s >= best_sum_ * (1 - tolerance);
  }

  bool out_of_time() {
    stopped_ = stopped_ || (++nodes_ % between_looks == 0 && deadline_.expired());
    return stopped_;
  }

  void explore(std::size_t depth, const double *lines, bool symmetric) {
    if (depth == order_.size()) {
      leaf(lines);
      return;
    }
    std::array<Child, width> children;
    const std::size_t count = bounded_children(depth, lines, symmetric, children);
    for (std::size_t i = 0; i < count; ++i) {
      if (hopeless(children[i].total))
        continue;
      if (out_of_time())
        return;
      here_[depth] = children[i].device;
      taken_ |= 1U << children[i].device;
      explore(depth + 1, children[i].lines, symmetric);
      taken_ &= ~(1U << children[i].device);
    }
  }

  /// Those with hope, the least first.
  std::size_t bounded_children(std::size_t depth, const double *lines, bool &symmetric,
                               std::array<Child, width> &children) {
    std::array<std::uint32_t, width> open{};
    std::size_t count = 0;
    for (const std::uint32_t device : candidates(depth, symmetric, open)) {
      double *next = lines_.data() + ((depth + 1) * width + count) * pairs_.size();
      const Child child{place(depth, device, lines, next), device, next};
      if (hopeless(child.total))
        continue;
      std::size_t at = count++; // few enough to insert in order
      for (; at > 0 && before(child, children[at - 1]); --at)
        children[at] = children[at - 1];
      children[at] = child;
    }
    return count;
  }

  static bool before(const Child &a, const Child &b) {
    return a.total.max_s < b.total.max_s ||
           (a.total.max_s == b.total.max_s && a.total.sum_s < b.total.sum_s);
  }

  /// Infinite once a link has more than the best.
  Total place(std::size_t depth, std::uint32_t device, const double *lines, double *next) const {
    const double limit = best_value_ * (1 + tolerance);
    std::copy_n(lines, pairs_.size(), next);
    for (const Exchange &each : exchanges_[depth]) {
      const std::uint32_t peer = here_[each.peer];
      const bool sends = pairs_.add_to(next, each.sent, device, peer, limit);
      if (!sends || !pairs_.add_to(next, each.received, peer, device, limit))
        return {unlimited, unlimited};
    }
    return pairs_.total(next);
  }

  std::span<const std::uint32_t> candidates(std::size_t depth, bool &symmetric,
                                            std::array<std::uint32_t, width> &open) {
    const std::uint32_t rank = order_[depth];
    std::size_t count = 0;
    for (std::uint32_t d = 0; d < problem_.network.devices; ++d) {
      if ((taken_ >> d & 1U) == 0 && problem_.may_use(rank, d) &&
          problem_.floors.congestion(rank, d) <= best_value_ * (1 + tolerance))
        open[count++] = d;
    }
    if (!symmetric || !problem_.allowed.empty())
      return std::span(open).first(count);
    chosen_[depth] =
        symmetry_.representatives(std::span(here_).first(depth), std::span(open).first(count));
    symmetric = chosen_[depth].size() < count;
    return chosen_[depth];
  }

  void leaf(const double *lines) {
    const Total total = pairs_.total(lines);
    const bool less = total.max_s < best_value_ * (1 - tolerance);
    const bool tie =
        total.max_s <= best_value_ * (1 + tolerance) && total.sum_s < best_sum_ * (1 - tolerance);
    if (!less && !tie)
      return;
    const Assignment whole = with_silent_ranks();
    if (acceptable_ && !acceptable_(whole))
      return;
    best_ = whole;
    best_value_ = std::min(total.max_s, best_value_);
    best_sum_ = total.sum_s;
  }

  /// Silent ranks take the devices that are left, in order.
  Assignment with_silent_ranks() const {
    Assignment whole(problem_.traffic.ranks, Qap::no_pin);
    for (std::size_t p = 0; p < order_.size(); ++p)
      whole[order_[p]] = here_[p];
    std::uint32_t device = 0;
    for (std::uint32_t &each : whole) {
      if (each != Qap::no_pin)
        continue;
      while ((taken_ >> device & 1U) != 0)
        ++device;
      each = device++;
    }
    return whole;
  }

  const LoadProblem &problem_;
  const Deadline &deadline_;
  const Acceptable &acceptable_;
  double known_bound_;
  std::vector<std::uint32_t> order_;
  std::vector<std::vector<Exchange>> exchanges_; // by place in the order
  PairLoads pairs_;
  Symmetry symmetry_;
  Assignment best_;
  double best_value_ = 0;
  double best_sum_ = 0;
  std::vector<double> lines_; // [depth][child]: loads of links
  std::array<std::uint32_t, width> here_{};
  std::array<std::vector<std::uint32_t>, width> chosen_;
  std::uint32_t taken_ = 0;
  std::uint64_t nodes_ = 0;
  bool stopped_ = false;
};

} // namespace

BoundedAnswer least_congestion(const LoadProblem &problem, const Assignment &incumbent,
                               double known_bound, const Deadline &deadline,
                               const Acceptable &acceptable) {
  if (problem.network.devices > max_small_loads)
    throw std::invalid_argument("too many devices to enumerate");
  return SmallLoads(problem, incumbent, known_bound, deadline, acceptable).run();
}

} // namespace toposeat
