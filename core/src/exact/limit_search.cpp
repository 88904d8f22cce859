// SPDX-License-Identifier: MIT OR Apache-2.0
#include "exact/limit_search.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <tuple>

#include "exact/interchangeable_ranks.hpp"

namespace toposeat {
namespace {

constexpr std::size_t width = max_limited_devices;
constexpr std::uint64_t between_looks = 64; // nodes from one look at the clock to the next
constexpr double flow_pairs_per_node = 128; // of a visit, in about the same time
constexpr double unjudged = 0.02;           // share of what a run may take, whatever it walked
constexpr double doubtful_work = 1e4;       // less tells little of what is to come

std::uint32_t lowest(std::uint32_t set) {
  return static_cast<std::uint32_t>(std::countr_zero(set));
}

template <class Visit> void for_each_bit(std::uint32_t set, Visit visit) {
  for (; set != 0; set &= set - 1)
    visit(lowest(set));
}

/// Stops, and returns false, at the first member for which `good` is false.
template <class Good> bool all_bits(std::uint32_t set, Good good) {
  for (; set != 0; set &= set - 1) {
    if (!good(lowest(set)))
      return false;
  }
  return true;
}

/// See `later_interchangeable`; of the ranks in `order`, which need not be all.
std::vector<std::uint32_t> interchangeable_in(const LoadProblem &problem,
                                              const std::vector<std::uint32_t> &order) {
  std::vector<std::uint32_t> all = order;
  for (std::uint32_t r = 0; r < problem.traffic.ranks; ++r) {
    if (std::find(order.begin(), order.end(), r) == order.end())
      all.push_back(r);
  }
  std::vector<std::uint32_t> interchangeable = later_interchangeable(problem, all, order.size());
  interchangeable.resize(order.size());
  for (std::uint32_t &places : interchangeable)
    places &= (1U << order.size()) - 1;
  return interchangeable;
}

/// Finds the ranks different devices (Kuhn).
class Matching {
public:
  explicit Matching(const std::array<std::uint32_t, width> &domains) : domains_(domains) {
    rank_on_.fill(nobody);
  }

  bool add(std::uint32_t rank) {
    std::uint32_t seen = 0;
    return augment(rank, seen);
  }

private:
  static constexpr std::uint32_t nobody = ~0U;

  bool augment(std::uint32_t rank, std::uint32_t &seen) {
    while ((domains_[rank] & ~seen) != 0) {
      const std::uint32_t device = lowest(domains_[rank] & ~seen);
      seen |= 1U << device;
      if (rank_on_[device] == nobody || augment(rank_on_[device], seen)) {
        rank_on_[device] = rank;
        return true;
      }
    }
    return false;
  }

  const std::array<std::uint32_t, width> &domains_;
  std::array<std::uint32_t, width> rank_on_{};
};

} // namespace

std::vector<std::uint32_t> branching_order(const LoadProblem &problem) {
  const std::uint32_t ranks = problem.traffic.ranks;
  std::vector<double> attached(ranks, 0);
  std::vector<double> total(ranks, 0);
  Matrix between(ranks);
  for (const Flow &flow : problem.traffic.flows) {
    // A message without bytes still takes time.
    const double weight = flow.bytes + flow.messages;
    between(flow.source, flow.target) += weight;
    between(flow.target, flow.source) += weight;
    total[flow.source] += weight;
    total[flow.target] += weight;
  }
  std::vector<std::uint32_t> order;
  std::vector<bool> taken(ranks, false);
  for (std::uint32_t step = 0; step < ranks; ++step) {
    std::uint32_t chosen = ranks;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const bool restricted = problem.pinned[r] != Qap::no_pin || !problem.allowed.empty();
      if (taken[r] || (!restricted && !(total[r] > 0)))
        continue;
      const auto key = [&](std::uint32_t rank) {
        return std::tuple(problem.pinned[rank] != Qap::no_pin, attached[rank], total[rank]);
      };
      if (chosen == ranks || key(r) > key(chosen))
        chosen = r;
    }
    if (chosen == ranks)
      break;
    taken[chosen] = true;
    order.push_back(chosen);
    for (std::uint32_t r = 0; r < ranks; ++r)
      attached[r] += between(chosen, r);
  }
  return order;
}

LimitSearch::LimitSearch(const LoadProblem &problem, bool timed)
    : problem_(problem), order_(branching_order(problem)), terms_(problem, order_, timed),
      symmetry_(problem.network), interchangeable_(interchangeable_in(problem, order_)),
      line_block_(width * terms_.stride()), lines_((order_.size() + 1) * width * line_block_),
      room_((order_.size() + 1) * terms_.stride()), least_(width * terms_.stride()),
      slack_(terms_.stride()), limits_(terms_.stride()) {
  if (problem.network.devices > max_limited_devices)
    throw std::invalid_argument("too many devices to search within limits");
  for (std::size_t p = 0; p < order_.size(); ++p) {
    lines_of_[0][p] = lines(0, p); // nothing yet
    for (std::size_t q = 0; q < order_.size(); ++q)
      talks_[p] |= terms_.talk(p, q) ? 1U << q : 0;
    for (std::size_t q = 0; q < order_.size(); ++q)
      waiting_ |= terms_.rounds(p, q) > 0 ? 1U << p : 0;
  }
}

bool LimitSearch::run(double below_s, const Deadline &deadline, const Visit &visit,
                      double most_nodes) {
  deadline_ = &deadline;
  visit_ = &visit;
  stopped_ = false;
  begun_ = nodes_;
  visits_ = 0;
  walked_ = 0;
  most_nodes_ = most_nodes;
  blamed_.fill(0);
  below_s_ = below_s;
  terms_.fill_limits(below_s, room(0));
  std::copy_n(room(0), terms_.stride(), limits_.data());
  terms_.limit_flows(below_s);
  explore({0, (1U << order_.size()) - 1, domains_of_all(), problem_.allowed.empty()}, 1);
  return !stopped_;
}

LimitSearch::Domains LimitSearch::domains_of_all() const {
  Domains domains{};
  for (std::size_t p = 0; p < order_.size(); ++p) {
    for (std::uint32_t d = 0; d < problem_.network.devices; ++d) {
      if (problem_.may_use(order_[p], d))
        domains[p] |= 1U << d;
    }
  }
  return domains;
}

bool LimitSearch::out_of_time() {
  if (++nodes_ % between_looks == 0 && (deadline_->expired() || hopeless()))
    stopped_ = true;
  return stopped_;
}

double LimitSearch::work() const {
  const auto flows = static_cast<double>(problem_.traffic.flows.size());
  return static_cast<double>(nodes_ - begun_) +
         static_cast<double>(visits_) * flows * flows / flow_pairs_per_node;
}

/// By what the share of the tree that is behind took (Knuth, Mathematics of Computation 29, 1975).
bool LimitSearch::hopeless() const {
  const double doubt = std::pow(doubtful_work / work(), 2);
  return work() > most_nodes_ * (unjudged + walked_ * (1 + doubt));
}

void LimitSearch::explore(const Node &node, double share) {
  if (node.open == 0) {
    leaf();
    walked_ += share;
    return;
  }
  const std::size_t p = node.symmetric ? lowest(node.open) : chosen_rank(node);
  const std::uint32_t all = node.domains[p];
  const std::uint32_t devices = node.symmetric ? representatives(all) : all;
  const bool pinned = problem_.pinned[order_[p]] != Qap::no_pin;
  const double each = share / std::popcount(devices);
  for_each_bit(devices, [&](std::uint32_t device) {
    if (stopped_ || out_of_time())
      return;
    Node below = node;
    below.symmetric = node.symmetric && (pinned || devices != all);
    if (place(p, device, below))
      explore(below, each);
    else
      walked_ += each;
    fixed_.pop_back();
  });
}

std::uint32_t LimitSearch::representatives(std::uint32_t devices) const {
  std::vector<std::uint32_t> free;
  for_each_bit(devices, [&](std::uint32_t d) { free.push_back(d); });
  std::uint32_t chosen = 0;
  for (const std::uint32_t d : symmetry_.representatives(fixed_, free))
    chosen |= 1U << d;
  return chosen;
}

std::size_t LimitSearch::chosen_rank(const Node &node) const {
  std::size_t chosen = width;
  std::uint64_t fewest = 0; // as a fraction
  std::uint64_t weight = 1;
  for_each_bit(node.open, [&](std::uint32_t p) {
    const auto devices = static_cast<std::uint64_t>(std::popcount(node.domains[p]));
    const auto waits = static_cast<std::uint64_t>(std::popcount(talks_[p] & node.open));
    const std::uint64_t own = (1 + blamed_[p]) * (1 + waits);
    if (chosen == width || devices * weight < fewest * own) {
      chosen = p;
      fewest = devices;
      weight = own;
    }
  });
  return chosen;
}

/// False if no placement is within the limits any more.
bool LimitSearch::place(std::size_t p, std::uint32_t device, Node &node) {
  here_[p] = device;
  fixed_.push_back(device);
  const std::size_t stride = terms_.stride();
  std::copy_n(room(node.depth), stride, room(node.depth + 1));
  take_room(room(node.depth + 1), lines_of_[node.depth][p] + device * stride, 1, stride);
  node.open &= ~(1U << p);
  if (!narrow(p, device, node))
    return false;
  const std::uint32_t waiting = waiting_ & ~node.open;
  if (!all_bits(waiting, [&](std::uint32_t q) { return !waits_too_long(q, node.open); }))
    return blame(p);
  ++node.depth;
  if (!leave_room(node))
    return false;
  Matching matching(node.domains);
  return all_bits(node.open, [&](std::uint32_t q) { return matching.add(q) || blame(q); });
}

/// What the rounds of a placed rank take with the partners that are placed, and at least with the
/// others (`open`): the most frequent one on the nearest free device, and so on.
bool LimitSearch::waits_too_long(std::size_t p, std::uint32_t open) const {
  const Network &network = problem_.network;
  const double *latency = network.latency.data() + std::size_t{here_[p]} * network.devices;
  std::array<double, width> rounds{};
  std::array<double, width> near{};
  std::size_t others = 0;
  std::size_t free = 0;
  std::uint32_t taken = 0;
  double sum = 0;
  for (std::size_t q = 0; q < order_.size(); ++q) {
    if ((open >> q & 1U) != 0) {
      rounds[others++] = terms_.rounds(p, q);
    } else {
      taken |= 1U << here_[q];
      sum += q == p ? 0 : terms_.rounds(p, q) * latency[here_[q]];
    }
  }
  for (std::uint32_t d = 0; d < network.devices; ++d) {
    if ((taken >> d & 1U) == 0)
      near[free++] = latency[d];
  }
  std::sort(rounds.begin(), rounds.begin() + others, std::greater<>());
  std::sort(near.begin(), near.begin() + free);
  for (std::size_t i = 0; i < others; ++i)
    sum += rounds[i] * near[i];
  return sum >= below_s_ * (1 - 1e-9);
}

bool LimitSearch::blame(std::size_t p) {
  ++blamed_[p];
  return false;
}

/// Leaves each rank the devices on which it finds room beside those placed, with rank p now.
bool LimitSearch::narrow(std::size_t p, std::uint32_t device, Node &node) {
  const std::size_t stride = terms_.stride();
  return all_bits(node.open, [&](std::uint32_t q) {
    std::uint32_t &domain = node.domains[q];
    domain &= ~(1U << device) & terms_.beside(p, device, q);
    if ((interchangeable_[p] >> q & 1U) != 0)
      domain &= ~((2U << device) - 1);
    if ((interchangeable_[q] >> p & 1U) != 0)
      domain &= (1U << device) - 1;
    const std::int32_t *here = lines_of_[node.depth][q];
    const std::int32_t *left = room(node.depth + 1);
    const LimitStep step{here,
                         terms_.leaving(device),
                         terms_.entering(device),
                         terms_.units(p, q),
                         terms_.units(q, p),
                         left,
                         stride};
    if (step.received == 0 && step.sent == 0) {
      lines_of_[node.depth + 1][q] = here;
      domain = lines_with_room(here, domain, left, stride, least(q));
    } else {
      lines_of_[node.depth + 1][q] = lines(node.depth + 1, q);
      domain = narrow_lines(step, domain, lines(node.depth + 1, q), least(q));
    }
    return domain != 0 || blame(q);
  });
}

/// Leaves each rank the devices on which it finds room beside the least that all others add.
bool LimitSearch::leave_room(Node &node) {
  const std::size_t stride = terms_.stride();
  std::int32_t *slack = slack_.data();
  std::copy_n(room(node.depth), stride, slack);
  bool enough = true;
  for_each_bit(node.open, [&](std::uint32_t q) { enough = take_room(slack, least(q), 1, stride); });
  return enough && all_bits(node.open, [&](std::uint32_t q) {
           std::uint32_t &domain = node.domains[q];
           take_room(slack, least(q), -1, stride);
           domain = lines_with_room(lines_of_[node.depth][q], domain, slack, stride, least(q));
           return domain != 0 ? take_room(slack, least(q), 1, stride) : blame(q);
         });
}

/// Idle ranks take the devices that are left, in order.
void LimitSearch::leaf() {
  Assignment whole(problem_.traffic.ranks, Qap::no_pin);
  std::uint32_t taken = 0;
  for (std::size_t p = 0; p < order_.size(); ++p) {
    whole[order_[p]] = here_[p];
    taken |= 1U << here_[p];
  }
  for (std::uint32_t &each : whole) {
    if (each != Qap::no_pin)
      continue;
    each = static_cast<std::uint32_t>(std::countr_one(taken));
    taken |= 1U << each;
  }
  ++visits_;
  const double limit_s = (*visit_)(whole);
  if (limit_s < below_s_)
    lower(limit_s);
  stopped_ = !(limit_s > 0) || deadline_->expired() || hopeless();
}

/// What is walked holds nothing below that was not visited: the search goes on from where it is.
void LimitSearch::lower(double below_s) {
  const std::size_t stride = terms_.stride();
  below_s_ = below_s;
  terms_.limit_flows(below_s);
  terms_.fill_limits(below_s, slack_.data());
  take_room(limits_.data(), slack_.data(), 1, stride); // what the limits lose
  for (std::size_t depth = 0; depth <= order_.size(); ++depth)
    take_room(room(depth), limits_.data(), 1, stride);
  std::copy_n(slack_.data(), stride, limits_.data());
}

} // namespace toposeat
