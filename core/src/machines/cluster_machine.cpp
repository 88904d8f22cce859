// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/cluster_machine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "machines/machine_checks.hpp"

namespace toposeat {
namespace {

void require(bool holds, const char *otherwise) {
  if (!holds)
    throw std::invalid_argument(otherwise);
}

void check_lists(const LinkLists &lists, std::size_t count, std::size_t links) {
  require(lists.begin.size() == count + 1 && lists.begin.front() == 0 &&
              lists.begin.back() == lists.links.size() &&
              std::is_sorted(lists.begin.begin(), lists.begin.end()),
          "a node needs a list of links for every route");
  for (const std::uint32_t link : lists.links)
    require(link < links, "a node has no such link");
}

void check_node(const NodeModel &node, std::uint32_t ports) {
  const std::size_t devices = node.devices;
  const std::size_t pairs = devices * devices;
  require(devices > 0 && devices <= most_slots && pairs <= most_slots,
          "a node of no or many devices");
  require(node.cost.size() == pairs && node.latency.size() == pairs && node.pace.size() == pairs,
          "a node needs one cost, latency and pace for each pair of devices");
  require(node.port.size() == devices && node.exit_cost.size() == devices &&
              node.exit_latency.size() == devices,
          "a node needs a port and an exit for each device");
  for (const auto *numbers :
       {&node.cost, &node.latency, &node.pace, &node.exit_cost, &node.exit_latency})
    check_numbers(*numbers, 0, "a number of a node is");
  for (const std::uint32_t port : node.port)
    require(port < ports, "a node has no such port");
  check_capacities(node.bandwidth);
  require(node.names.size() == node.bandwidth.size(), "a node's links need names");
  check_lists(node.within, pairs, node.bandwidth.size());
  check_lists(node.out, devices, node.bandwidth.size());
  check_lists(node.in, devices, node.bandwidth.size());
  check_numbers({node.fabric_cost, node.fabric_latency, node.fabric_pace}, 0,
                "a number of a fabric is");
  if (node.to_fabric.begin.size() > 1 || node.from_fabric.begin.size() > 1) {
    check_lists(node.to_fabric, devices, node.bandwidth.size());
    check_lists(node.from_fabric, devices, node.bandwidth.size());
  }
}

std::uint32_t checked_hosts(const NodeModel &node, const ClusterModel &cluster) {
  require(cluster.ports > 0 && !cluster.attached.empty() &&
              cluster.attached.size() % cluster.ports == 0,
          "every host needs its ports");
  check_node(node, cluster.ports);
  const std::size_t hosts = cluster.attached.size() / cluster.ports;
  require(hosts <= most_slots / node.devices, "too many slots");
  require(cluster.port_bandwidth.size() == cluster.attached.size(), "every port needs a bandwidth");
  require(cluster.hosts.size() == hosts, "every host needs a name");
  for (const auto &level : cluster.levels)
    require(level.size() == hosts, "a level must say of every host where it belongs");
  require(cluster.domain.empty() || (cluster.domain.size() == hosts &&
                                     node.to_fabric.begin.size() > 1 && node.fabric_cost > 0),
          "domains need the domain of every host, and nodes with a fabric");
  check_capacities(cluster.port_bandwidth);
  check_numbers({cluster.port_latency}, 0, "a latency is");
  return static_cast<std::uint32_t>(hosts);
}

std::vector<std::uint32_t> distinct(std::vector<std::uint32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

SwitchRoutes routes_of(const NodeModel &node, const ClusterModel &cluster) {
  std::vector<std::uint32_t> stops = distinct(cluster.attached);
  std::vector<double> devices_of_port(cluster.ports, 0);
  for (const std::uint32_t port : node.port)
    devices_of_port[port] += 1;
  std::vector<double> share(stops.size(), 0);
  for (std::size_t i = 0; i < cluster.attached.size(); ++i) {
    const auto stop = std::lower_bound(stops.begin(), stops.end(), cluster.attached[i]);
    share[static_cast<std::size_t>(stop - stops.begin())] += devices_of_port[i % cluster.ports];
  }
  return {cluster.switches, cluster.links, std::move(stops), share, cluster.spread};
}

/// Level by level, which half of a half each place of a row of `n` belongs to.
std::vector<std::vector<std::uint32_t>> halves(std::uint32_t n) {
  std::vector<std::vector<std::uint32_t>> levels;
  std::vector<std::uint32_t> starts{0, n};
  while (starts.size() <= n) {
    std::vector<std::uint32_t> finer{0};
    std::vector<std::uint32_t> group(n);
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
      if (starts[i + 1] - starts[i] > 1)
        finer.push_back(starts[i] + (starts[i + 1] - starts[i]) / 2);
      finer.push_back(starts[i + 1]);
    }
    for (std::uint32_t i = 0; i + 1 < finer.size(); ++i)
      std::fill(group.begin() + finer[i], group.begin() + finer[i + 1], i);
    levels.push_back(std::move(group));
    starts = std::move(finer);
  }
  return levels;
}

bool all_equal(const std::vector<double> &cost, std::uint32_t n) {
  for (std::uint32_t a = 0; a < n; ++a) {
    for (std::uint32_t b = 0; b < n; ++b) {
      if (a != b && cost[std::size_t{a} * n + b] != cost[1])
        return false;
    }
  }
  return true;
}

/// Whether two hosts of one domain are in different groups of a level.
bool splits(const std::vector<std::uint32_t> &level, const std::vector<std::uint32_t> &domain) {
  std::unordered_map<std::uint32_t, std::uint32_t> group;
  for (std::size_t host = 0; host < level.size(); ++host) {
    if (group.try_emplace(domain[host], level[host]).first->second != level[host])
      return true;
  }
  return false;
}

/// Cuts the leaves of a tree, all `size` slots long, like `inner`.
void cut_leaves(SlotTree &tree, const SlotTree &inner) {
  const std::size_t parts = tree.parts.size();
  for (std::size_t k = 0; k < parts; ++k) {
    const SlotTree::Part leaf = tree.parts[k];
    if (leaf.children > 0)
      continue;
    const auto shift = static_cast<std::uint32_t>(tree.parts.size()) - 1;
    for (std::size_t p = 0; p < inner.parts.size(); ++p) {
      SlotTree::Part part = inner.parts[p];
      part.begin += leaf.begin;
      part.end += leaf.begin;
      part.first_child += part.children > 0 ? shift : 0;
      if (p == 0)
        tree.parts[k] = part;
      else
        tree.parts.push_back(part);
    }
  }
}

} // namespace

ClusterMachine::ClusterMachine(NodeModel node, ClusterModel cluster)
    : node_(std::move(node)), cluster_(std::move(cluster)), hosts_(checked_hosts(node_, cluster_)),
      routes_(routes_of(node_, cluster_)) {
  const std::vector<std::uint32_t> stops = distinct(cluster_.attached);
  const std::uint64_t links = routes_.links().size() + 2 * cluster_.attached.size() +
                              std::uint64_t{hosts_} * node_.bandwidth.size();
  require(links < 0x80000000U, "more links than memory is good for");
  first_port_ = static_cast<std::uint32_t>(routes_.links().size());
  first_node_ = first_port_ + 2 * static_cast<std::uint32_t>(cluster_.attached.size());
  std::vector<double> sharing(cluster_.ports, 0);
  for (const std::uint32_t port : node_.port)
    sharing[port] += 1;
  std::vector<std::uint32_t> seen(stops.size(), 0);
  std::vector<std::uint32_t> number(cluster_.attached.size());
  for (std::size_t i = 0; i < number.size(); ++i) {
    const auto stop = std::lower_bound(stops.begin(), stops.end(), cluster_.attached[i]);
    number[i] = seen[static_cast<std::size_t>(stop - stops.begin())]++;
  }
  for (std::uint32_t slot = 0; slot < slots(); ++slot) {
    const std::uint32_t port = port_of(slot);
    const auto stop = std::lower_bound(stops.begin(), stops.end(), cluster_.attached[port]);
    stop_.push_back(static_cast<std::uint32_t>(stop - stops.begin()));
    key_.push_back(number[port]);
    leave_cost_.push_back(node_.exit_cost[slot % node_.devices] +
                          sharing[node_.port[slot % node_.devices]] /
                              cluster_.port_bandwidth[port] / 2);
  }
  scale_ = 1 / least_cost();
}

/// The least distance, which becomes 1.
double ClusterMachine::least_cost() const {
  double least = std::numeric_limits<double>::infinity();
  for (const double cost : node_.cost)
    least = cost > 0 ? std::min(least, cost) : least;
  if (!cluster_.domain.empty())
    least = std::min(least, node_.fabric_cost);
  if (!std::isfinite(least) && !leave_cost_.empty())
    least = 2 * *std::min_element(leave_cost_.begin(), leave_cost_.end());
  return std::isfinite(least) && least > 0 ? least : 1;
}

double ClusterMachine::latency(std::uint32_t a, std::uint32_t b) const {
  if (a / node_.devices == b / node_.devices)
    return node_.latency[pair(a, b)];
  if (in_one_domain(a, b))
    return node_.fabric_latency;
  return node_.exit_latency[a % node_.devices] + node_.exit_latency[b % node_.devices] +
         2 * cluster_.port_latency + routes_.latency(stop_[a], stop_[b]);
}

std::uint32_t ClusterMachine::links() const {
  return first_node_ + hosts_ * static_cast<std::uint32_t>(node_.bandwidth.size());
}

double ClusterMachine::capacity(std::uint32_t link) const {
  if (link < first_port_)
    return routes_.links()[link].bandwidth;
  if (link < first_node_)
    return cluster_.port_bandwidth[(link - first_port_) / 2];
  return node_.bandwidth[(link - first_node_) % node_.bandwidth.size()];
}

std::uint32_t ClusterMachine::links_of_order() const {
  for (std::size_t port = 0; port < cluster_.port_bandwidth.size(); ++port) {
    if (cluster_.port_bandwidth[port] != cluster_.port_bandwidth[port % cluster_.ports])
      return first_node_;
  }
  return first_port_;
}

bool ClusterMachine::has_one_way() const {
  return !routes_.has_choices() && links_of_order() == first_port_;
}

bool ClusterMachine::devices_leave_alike() const {
  if (!has_one_way())
    return false;
  for (std::uint32_t slot = 0; slot < slots(); ++slot) {
    const std::uint32_t first = slot / node_.devices * node_.devices;
    if (stop_[slot] != stop_[first] ||
        node_.exit_latency[slot % node_.devices] != node_.exit_latency[0])
      return false;
  }
  return true;
}

std::string ClusterMachine::link_name(std::uint32_t link) const {
  if (link < first_port_)
    return routes_.links()[link].name;
  if (link < first_node_) {
    const std::uint32_t port = (link - first_port_) / 2;
    return cluster_.hosts[port / cluster_.ports] + " port " +
           std::to_string(port % cluster_.ports) + ((link - first_port_) % 2 == 0 ? " out" : " in");
  }
  const std::size_t each = node_.bandwidth.size();
  return cluster_.hosts[(link - first_node_) / each] + " " +
         node_.names[(link - first_node_) % each];
}

/// Of every host the group at each level, coarse levels first, down to the host itself.
std::vector<std::vector<std::uint32_t>> ClusterMachine::grouping() const {
  std::vector<std::vector<std::uint32_t>> levels = cluster_.levels;
  std::vector<std::uint32_t> leaf(hosts_);
  for (std::uint32_t host = 0; host < hosts_; ++host)
    leaf[host] = stop_[std::size_t{host} * node_.devices];
  if (levels.empty()) {
    const std::vector<std::uint32_t> order = nearness_order(routes_.costs(), routes_.stops());
    std::vector<std::uint32_t> place(order.size());
    for (std::uint32_t i = 0; i < order.size(); ++i)
      place[order[i]] = i;
    for (const std::vector<std::uint32_t> &half : halves(routes_.stops())) {
      std::vector<std::uint32_t> &level = levels.emplace_back();
      for (const std::uint32_t stop : leaf)
        level.push_back(half[place[stop]]);
    }
  }
  levels.push_back(std::move(leaf));
  if (!cluster_.domain.empty())
    levels.insert(std::find_if(levels.begin(), levels.end(),
                               [&](const auto &level) { return splits(level, cluster_.domain); }),
                  cluster_.domain);
  levels.emplace_back(hosts_);
  std::iota(levels.back().begin(), levels.back().end(), 0U);
  return levels;
}

SlotTree ClusterMachine::tree() const {
  const std::vector<std::vector<std::uint32_t>> levels = grouping();
  std::vector<std::uint32_t> order(hosts_);
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto other = std::find_if(levels.begin(), levels.end(),
                                    [&](const auto &level) { return level[a] != level[b]; });
    return other != levels.end() ? (*other)[a] < (*other)[b] : a < b;
  });
  const SlotTree inner = [&] {
    const std::vector<std::uint32_t> ones(node_.devices, 1);
    SlotTree tree = binary_tree(nearness_order(node_.cost, node_.devices), ones);
    if (node_.devices < 3 || all_equal(node_.cost, node_.devices))
      tree.parts.resize(1), tree.parts[0].children = 0;
    return tree;
  }();
  SlotTree tree;
  for (const std::uint32_t host : order) {
    for (const std::uint32_t device : inner.order)
      tree.order.push_back(host * node_.devices + device);
  }
  struct Range {
    std::uint32_t begin, end; // hosts
    std::size_t level;
  };
  std::vector<Range> range{{0, hosts_, 0}};
  const std::uint32_t each = node_.devices;
  tree.parts.push_back({0, slots(), 0, 0});
  for (std::size_t k = 0; k < tree.parts.size(); ++k) { // grows meanwhile
    // No structured binding: clang before 16 captures none.
    const std::uint32_t begin = range[k].begin;
    const std::uint32_t end = range[k].end;
    std::size_t level = range[k].level;
    const auto one_group = [&] {
      return levels[level][order[begin]] == levels[level][order[end - 1]];
    };
    while (level < levels.size() && one_group())
      ++level;
    if (level == levels.size())
      continue;
    tree.parts[k].first_child = static_cast<std::uint32_t>(tree.parts.size());
    for (std::uint32_t from = begin; from < end;) {
      std::uint32_t to = from + 1;
      while (to < end && levels[level][order[to]] == levels[level][order[from]])
        ++to;
      tree.parts.push_back({from * each, to * each, 0, 0});
      range.push_back({from, to, level + 1});
      ++tree.parts[k].children;
      from = to;
    }
  }
  cut_leaves(tree, inner);
  return tree;
}

} // namespace toposeat
