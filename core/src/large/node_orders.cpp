// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/large/node_orders.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/rng.hpp"

namespace toposeat {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double same = 1e-9;             // of values computed in another order
constexpr std::uint32_t asks_stop = 64;   // moves between two looks at whether to stop
constexpr double moves_per_pair = 40;     // at most: then a small machine has been seen
constexpr double first_heat = 1e-3;       // of the value: what a move may lose at the start
constexpr double last_heat = 1e-5;        // and at the end
constexpr std::uint32_t scans_every = 64; // accepted moves between two looks at the maxima
constexpr std::uint32_t most_known_stops = 1024;
constexpr std::uint32_t longest_run = 64; // hosts that change places together

inline double power(double x) {
  x *= x, x *= x, x *= x;
  return x * x;
}

inline double root(double x) { return std::sqrt(std::sqrt(std::sqrt(std::sqrt(x)))); }

/// Hosts such that what is near in the network is near in the list.
Assignment hosts_by_nearness(const ClusterMachine &machine) {
  Assignment hosts;
  const SlotTree tree = machine.tree();
  for (const std::uint32_t slot : tree.order) {
    const std::uint32_t host = slot / machine.devices_per_host();
    if (hosts.empty() || hosts.back() != host)
      hosts.push_back(host);
  }
  return hosts;
}

} // namespace

NodeOrders::NodeOrders(Kept<ClusterMachine> machine, const std::vector<NodePhase> &phases)
    : machine_(machine), links_(machine_.links_of_order()) {
  if (machine_.has_domains())
    throw std::invalid_argument("hosts that a fabric of their own joins have no plain order");
  const std::uint32_t each = machine_.devices_per_host();
  const bool alike = machine_.devices_leave_alike();
  for (std::uint32_t p = 0; p < phases.size(); ++p) {
    Fixed fixed{phases[p].least_s, 0, 0};
    std::vector<double> bytes(machine_.links(), 0);
    for (const Flow &flow : phases[p].flows) {
      if (std::max(flow.source, flow.target) >= machine_.slots())
        throw std::invalid_argument("there is no such slot");
      const std::uint32_t from = flow.source / each;
      const std::uint32_t to = flow.target / each;
      nodes_ = std::max({nodes_, from + 1, to + 1});
      if (flow.source == flow.target)
        continue;
      machine_.route(flow.source, flow.target,
                     [&](std::uint32_t link) { bytes[link] += flow.bytes; });
      if (from != to) {
        edges_.push_back({from, to, alike ? 0 : flow.source % each, alike ? 0 : flow.target % each,
                          p, flow.bytes, flow.messages});
      } else {
        fixed.alone = std::max(fixed.alone, flow.bytes * machine_.pace(flow.source, flow.target));
        fixed.latency =
            std::max(fixed.latency, flow.messages * machine_.latency(flow.source, flow.target));
      }
    }
    for (std::uint32_t link = links_; link < machine_.links(); ++link)
      fixed.alone = std::max(fixed.alone, bytes[link] / machine_.capacity(link));
    fixed_.push_back(fixed);
  }
  const auto key = [](const Edge &e) { return std::tuple(e.from, e.to, e.phase, e.out, e.in); };
  std::sort(edges_.begin(), edges_.end(),
            [&](const Edge &a, const Edge &b) { return key(a) < key(b); });
  std::size_t kept = 0;
  for (const Edge &edge : edges_) {
    if (kept > 0 && key(edges_[kept - 1]) == key(edge)) {
      edges_[kept - 1].bytes += edge.bytes;
      edges_[kept - 1].messages = std::max(edges_[kept - 1].messages, edge.messages);
    } else {
      edges_[kept++] = edge;
    }
  }
  edges_.resize(kept);
}

void NodeOrders::check(const Assignment &host_of_node) const {
  std::vector<bool> taken(machine_.hosts(), false);
  if (host_of_node.size() < nodes_)
    throw std::invalid_argument("every node needs a host");
  for (const std::uint32_t host : host_of_node) {
    if (host >= taken.size() || taken[host])
      throw std::invalid_argument("an order uses a host twice, or one that is not there");
    taken[host] = true;
  }
}

std::vector<double> NodeOrders::seconds(const Assignment &host_of_node) const {
  check(host_of_node);
  const std::uint32_t each = machine_.devices_per_host();
  std::vector<double> bytes(std::size_t{links_} * fixed_.size(), 0);
  std::vector<double> latency;
  latency.reserve(fixed_.size());
  for (const Fixed &fixed : fixed_)
    latency.push_back(fixed.latency);
  for (const Edge &edge : edges_) {
    const std::uint32_t from = host_of_node[edge.from] * each + edge.out;
    const std::uint32_t to = host_of_node[edge.to] * each + edge.in;
    double *own = &bytes[std::size_t{edge.phase} * links_];
    machine_.walk(from, to, links_, [&](std::uint32_t link) { own[link] += edge.bytes; });
    latency[edge.phase] = std::max(latency[edge.phase], edge.messages * machine_.latency(from, to));
  }
  std::vector<double> found;
  for (std::size_t p = 0; p < fixed_.size(); ++p) {
    double busiest = fixed_[p].alone;
    for (std::uint32_t link = 0; link < links_; ++link)
      busiest = std::max(busiest, bytes[p * links_ + link] / machine_.capacity(link));
    found.push_back(std::max(fixed_[p].least, busiest + latency[p]));
  }
  return found;
}

/// The sum of the phases; infinite if one of them takes too long.
double NodeOrders::total(const Assignment &host_of_node, double slowest_s) const {
  const std::vector<double> found = seconds(host_of_node);
  const double slowest = found.empty() ? 0 : *std::max_element(found.begin(), found.end());
  return slowest <= slowest_s * (1 + same) ? std::accumulate(found.begin(), found.end(), 0.0)
                                           : infinite;
}

NodeOrders::Answer NodeOrders::list_all(const Assignment &start, double slowest_s) const {
  Answer answer{start, 0, true};
  double best = total(start, slowest_s);
  Assignment hosts(machine_.hosts());
  std::iota(hosts.begin(), hosts.end(), 0U);
  do {
    const Assignment order(hosts.begin(),
                           hosts.begin() + static_cast<std::ptrdiff_t>(start.size()));
    const double found = total(order, slowest_s);
    ++answer.tried;
    if (found < best * (1 - same) || (std::isinf(best) && !std::isinf(found)))
      best = found, answer.host_of_node = order;
    // Hosts that get no node: their orders are all the same.
    std::reverse(hosts.begin() + static_cast<std::ptrdiff_t>(start.size()), hosts.end());
  } while (std::next_permutation(hosts.begin(), hosts.end()));
  return answer;
}

/// One walk from order to order; loads are seconds on each link, in units of the first value.
class OrderWalk {
public:
  OrderWalk(const NodeOrders &orders, const Assignment &start, std::uint64_t seed)
      : orders_(orders), machine_(orders.machine_), rng_(seed), row_(hosts_by_nearness(machine_)),
        hosts_(machine_.hosts()), devices_(machine_.devices_per_host()), host_(start),
        touched_by_(orders.edges_.size(), 0), logged_(orders.fixed_.size() * orders.links_, 0),
        load_(logged_.size()) {
    std::vector<bool> used(hosts_, false);
    for (const std::uint32_t host : host_)
      used[host] = true;
    for (std::uint32_t host = 0; host < hosts_; ++host) { // those left get nodes without flows
      if (!used[host])
        host_.push_back(host);
    }
    node_.resize(hosts_);
    for (std::uint32_t v = 0; v < hosts_; ++v)
      node_[host_[v]] = v;
    begin_.assign(hosts_ + 1, 0);
    for (const NodeOrders::Edge &edge : orders.edges_)
      ++begin_[edge.from + 1], ++begin_[edge.to + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    incident_.resize(2 * orders.edges_.size());
    std::vector<std::uint32_t> at(begin_.begin(), begin_.end() - 1);
    for (std::uint32_t e = 0; e < orders.edges_.size(); ++e) {
      incident_[at[orders.edges_[e].from]++] = e;
      incident_[at[orders.edges_[e].to]++] = e;
    }
    for (std::uint32_t link = 0; link < orders.links_; ++link)
      pace_.push_back(1 / machine_.capacity(link));
    const std::uint32_t stops = machine_.stops();
    leaf_.resize(stops);
    for (const std::uint32_t host : row_)
      leaf_[machine_.stop_of(host * devices_)].push_back(host);
    if (machine_.has_one_way() && stops <= most_known_stops)
      known_.resize(std::size_t{stops} * stops);
    const std::vector<double> first = orders.seconds(start);
    const double sum = std::accumulate(first.begin(), first.end(), 0.0);
    unit_ = sum > 0 ? sum : 1;
    refresh();
  }

  /// Walks; `offer(order)` is asked whether an order is better, and whether that is enough.
  template <class Offer>
  std::uint64_t run(std::uint64_t steps, const Deadline &deadline, Offer offer) {
    const double most = moves_per_pair * hosts_ * hosts_;
    double heat = first_heat;
    double best = value_;
    double least = maxima();
    std::uint32_t accepted = 0;
    std::uint64_t moves = 0;
    for (; static_cast<double>(moves) < most; ++moves) {
      if (moves % asks_stop == 0) {
        if (steps_ >= steps || deadline.expired())
          break;
        const double done = std::max(static_cast<double>(moves) / most,
                                     static_cast<double>(steps_) / static_cast<double>(steps));
        heat = first_heat * std::pow(last_heat / first_heat, done);
      }
      ++steps_;
      propose();
      if (changes_.empty())
        continue;
      const double before = value_;
      apply();
      if (value_ > before && rng_.unit() >= std::exp((before - value_) / (heat * before))) {
        undo(before);
        continue;
      }
      ++accepted;
      if (value_ < best * (1 - same) || accepted % scans_every == 0) {
        best = std::min(best, value_);
        if (const double found = maxima(); found < least * (1 - same)) {
          const auto [better, enough] = offer(order());
          if (enough)
            return moves;
          least = better ? found : least;
        }
        if (accepted % (scans_every * scans_every) == 0)
          refresh();
      }
    }
    return moves;
  }

private:
  struct Change {
    std::uint32_t node, host;
  };
  struct Old {
    std::size_t at;
    double load;
  };

  [[nodiscard]] Assignment order() const { return host_; }

  /// The sum over phases of their busiest links, in units.
  [[nodiscard]] double maxima() const {
    double sum = 0;
    for (std::size_t p = 0; p < orders_.fixed_.size(); ++p) {
      const auto begin = load_.begin() + static_cast<std::ptrdiff_t>(p * orders_.links_);
      double most = floor(p);
      for (auto each = begin; each != begin + orders_.links_; ++each)
        most = std::max(most, *each);
      sum += most;
    }
    return sum;
  }

  [[nodiscard]] double floor(std::size_t p) const {
    return std::max(orders_.fixed_[p].least, orders_.fixed_[p].alone) / unit_;
  }

  /// All loads anew, since errors of sums add up.
  void refresh() {
    std::fill(load_.begin(), load_.end(), 0.0);
    for (const NodeOrders::Edge &edge : orders_.edges_)
      each_load(edge, [&](std::size_t at, double load) { load_[at] += load; });
    powers_.clear();
    for (std::size_t p = 0; p < orders_.fixed_.size(); ++p) {
      double sum = power(floor(p));
      for (std::size_t at = p * orders_.links_; at < (p + 1) * orders_.links_; ++at)
        sum += power(load_[at]);
      powers_.push_back(sum);
    }
    value_ = value();
  }

  [[nodiscard]] double value() const {
    double sum = 0;
    for (const double each : powers_)
      sum += root(std::max(each, 0.0));
    return sum;
  }

  template <class Use> void each_load(const NodeOrders::Edge &edge, Use use) {
    const std::size_t base = std::size_t{edge.phase} * orders_.links_;
    const std::uint32_t from = host_[edge.from] * devices_ + edge.out;
    const std::uint32_t to = host_[edge.to] * devices_ + edge.in;
    const double share = edge.bytes / unit_;
    const auto add = [&](std::uint32_t link) { use(base + link, share * pace_[link]); };
    if (known_.empty())
      return machine_.walk(from, to, orders_.links_, add);
    std::vector<std::uint32_t> &way =
        known_[std::size_t{machine_.stop_of(from)} * machine_.stops() + machine_.stop_of(to)];
    if (way.empty() && machine_.stop_of(from) != machine_.stop_of(to))
      machine_.walk(from, to, orders_.links_, [&](std::uint32_t link) { way.push_back(link); });
    for (const std::uint32_t link : way)
      add(link);
  }

  void exchange(std::uint32_t a, std::uint32_t b) { // hosts
    if (a == b)
      return;
    changes_.push_back({node_[a], b});
    changes_.push_back({node_[b], a});
  }

  void propose() {
    changes_.clear();
    const std::uint32_t kind = rng_.below(8);
    if (kind < 4 && !orders_.edges_.empty()) { // beside one that it talks to
      const NodeOrders::Edge &edge = orders_.edges_[rng_.below(orders_.edges_.size())];
      const bool swapped = rng_.below(2) == 1;
      const std::uint32_t near = host_[swapped ? edge.from : edge.to];
      const auto &leaf = leaf_[machine_.stop_of(near * devices_)];
      const std::uint32_t there = leaf[rng_.below(leaf.size())];
      if (there != near)
        exchange(host_[swapped ? edge.to : edge.from], there);
    } else if (kind < 6 || hosts_ < 4) {
      exchange(rng_.below(hosts_), rng_.below(hosts_));
    } else {
      const std::uint32_t longest = std::min(longest_run, hosts_ / 2);
      std::uint32_t run = 2;
      while (2 * run <= longest && rng_.below(2) == 1)
        run *= 2;
      const std::uint32_t a = rng_.below(hosts_ - run + 1);
      const std::uint32_t b = rng_.below(hosts_ - run + 1);
      if (std::max(a, b) - std::min(a, b) < run)
        return;
      for (std::uint32_t i = 0; i < run; ++i) {
        if (kind == 6)
          exchange(row_[a + i], row_[b + i]);
        else
          exchange(host_[a + i], host_[b + i]);
      }
    }
  }

  /// Makes the changes, and keeps what the loads were.
  void apply() {
    ++stamp_;
    old_.clear();
    before_.assign(powers_.begin(), powers_.end());
    moved_.clear();
    for (const Change &change : changes_) {
      for (std::uint32_t i = begin_[change.node]; i < begin_[change.node + 1]; ++i) {
        const std::uint32_t e = incident_[i];
        if (touched_by_[e] != stamp_)
          touched_by_[e] = stamp_, moved_.push_back(e);
      }
    }
    const auto add = [&](std::uint32_t e, double sign) {
      each_load(orders_.edges_[e], [&](std::size_t at, double load) {
        if (logged_[at] != stamp_)
          logged_[at] = stamp_, old_.push_back({at, load_[at]});
        load_[at] += sign * load;
      });
    };
    steps_ += moved_.size();
    for (const std::uint32_t e : moved_)
      add(e, -1);
    place();
    for (const std::uint32_t e : moved_)
      add(e, 1);
    bool lost = false; // so much of a sum that what is left is noise
    for (const Old &old : old_)
      powers_[old.at / orders_.links_] += power(load_[old.at]) - power(old.load);
    for (std::size_t p = 0; p < powers_.size(); ++p)
      lost = lost || powers_[p] < 1e-6 * before_[p];
    if (lost)
      recount();
    value_ = value();
  }

  void recount() {
    for (std::size_t p = 0; p < powers_.size(); ++p) {
      powers_[p] = power(floor(p));
      for (std::size_t at = p * orders_.links_; at < (p + 1) * orders_.links_; ++at)
        powers_[p] += power(load_[at]);
    }
  }

  /// Nodes to their new hosts; the changes become those back.
  void place() {
    for (Change &change : changes_) {
      std::swap(host_[change.node], change.host);
      node_[host_[change.node]] = change.node;
    }
  }

  void undo(double before) {
    place();
    for (const Old &old : old_)
      load_[old.at] = old.load;
    powers_.assign(before_.begin(), before_.end());
    value_ = before;
  }

  const NodeOrders &orders_;
  const ClusterMachine &machine_;
  Rng rng_;
  Assignment row_;
  std::uint32_t hosts_;
  std::uint32_t devices_;
  Assignment host_; // of each node; the last ones have no flows
  Assignment node_; // on each host
  std::vector<std::uint32_t> begin_;
  std::vector<std::uint32_t> incident_;          // edges of each node
  std::vector<std::vector<std::uint32_t>> leaf_; // hosts
  std::vector<double> pace_;
  std::vector<std::vector<std::uint32_t>> known_; // links from stop to stop, where all are such
  std::uint64_t steps_ = 0;
  std::uint32_t stamp_ = 0;
  std::vector<std::uint32_t> touched_by_; // of each edge
  std::vector<std::uint32_t> logged_;     // of each load
  std::vector<double> load_;
  std::vector<double> powers_;
  std::vector<double> before_;
  std::vector<Change> changes_;
  std::vector<std::uint32_t> moved_;
  std::vector<Old> old_;
  double unit_ = 1;
  double value_ = 0;
};

NodeOrders::Answer NodeOrders::improve(const Assignment &start, double slowest_s, double enough_s,
                                       std::uint64_t steps, std::uint64_t seed,
                                       const Deadline &deadline) const {
  check(start);
  Answer answer{start, 0, false};
  double best = total(start, slowest_s);
  double least = 0;
  for (const Fixed &fixed : fixed_)
    least += std::max(fixed.least, fixed.alone + fixed.latency);
  if (machine_.hosts() < 2 || best <= std::max(least, enough_s) * (1 + same)) {
    answer.all = true;
    return answer;
  }
  if (machine_.hosts() <= most_listed)
    return list_all(start, slowest_s);
  OrderWalk walk(*this, start, seed);
  answer.tried = walk.run(steps, deadline, [&](Assignment order) {
    order.resize(start.size());
    const double found = total(order, slowest_s);
    const bool better = found < best * (1 - same);
    if (better)
      best = found, answer.host_of_node = std::move(order);
    return std::pair(better, best <= std::max(least, enough_s) * (1 + same));
  });
  return answer;
}

} // namespace toposeat
