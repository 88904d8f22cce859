// Equal nodes with several devices each, joined by a network of switches: irregular trees, partly
// allocated tori, fabrics as they were found.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toposeat/machines/slot_tree.hpp"
#include "toposeat/machines/switch_routes.hpp"

namespace toposeat {

/// Lists of links: list i is `links[begin[i] .. begin[i + 1])`.
struct LinkLists {
  std::vector<std::uint32_t> begin{0};
  std::vector<std::uint32_t> links;
};

/// One node. Every node has the links `bandwidth`; what both directions of a physical link share
/// is one more of them. Matrices are devices x devices, row-major, with a zero diagonal.
struct NodeModel {
  std::uint32_t devices = 1;
  std::vector<double> cost;         // symmetric: seconds per byte
  std::vector<double> latency;      // seconds per message
  std::vector<double> pace;         // seconds per byte of one flow alone on idle links
  LinkLists within;                 // of each ordered pair of devices
  LinkLists out;                    // of each device to its port
  LinkLists in;                     // of each device's port to the device
  std::vector<std::uint32_t> port;  // of each device
  std::vector<double> exit_cost;    // of each device: seconds per byte between it and its port
  std::vector<double> exit_latency; // seconds per message, one way
  std::vector<double> bandwidth;    // of each link, bytes/s
  std::vector<std::string> names;   // of each link
  /// Between devices of two nodes of a domain: one switch fabric joins them.
  LinkLists to_fabric;       // of each device; empty where nodes have no such fabric
  LinkLists from_fabric;     // to each device
  double fabric_cost = 0;    // as `cost`
  double fabric_latency = 0; // as `latency`
  double fabric_pace = 0;    // as `pace`
};

/// The network that joins the nodes.
struct ClusterModel {
  std::uint32_t switches = 1;
  std::vector<SwitchLink> links;
  bool spread = true; // see SwitchRoutes
  std::uint32_t ports = 1;
  std::vector<std::uint32_t> attached; // hosts x ports: the switch of each port
  std::vector<double> port_bandwidth;  // hosts x ports: bytes/s per direction
  double port_latency = 0;             // seconds between a port and its switch
  std::vector<std::string> hosts;      // names, for links
  /// Each level says of every host which group it belongs to, coarse levels first. Empty: hosts are
  /// gathered by the network's own costs.
  std::vector<std::vector<std::uint32_t>> levels;
  /// Of each host the domain, by number: devices of one domain are joined by the nodes' own fabric,
  /// not by this network. Empty: each host is a domain of its own.
  std::vector<std::uint32_t> domain;
};

/// Slot s is device s % devices of host s / devices. The cheapest pair of a node (of hosts, where
/// nodes have one device) is 1 apart.
class ClusterMachine {
public:
  /// Throws std::invalid_argument on lists of other lengths, numbers out of range, hosts that are
  /// not joined, or more than `most_slots` slots.
  ClusterMachine(NodeModel node, ClusterModel cluster);

  [[nodiscard]] std::uint32_t slots() const { return hosts() * node_.devices; }
  [[nodiscard]] std::uint32_t hosts() const { return hosts_; }
  [[nodiscard]] std::uint32_t devices_per_host() const { return node_.devices; }
  [[nodiscard]] double distance(std::uint32_t a, std::uint32_t b) const {
    if (a / node_.devices == b / node_.devices)
      return node_.cost[pair(a, b)] * scale_;
    if (in_one_domain(a, b))
      return node_.fabric_cost * scale_;
    return (leave_cost_[a] + leave_cost_[b] + routes_.cost(stop_[a], stop_[b])) * scale_;
  }
  [[nodiscard]] SlotTree tree() const;

  [[nodiscard]] double latency(std::uint32_t a, std::uint32_t b) const;
  /// Seconds per byte of a flow that is alone.
  [[nodiscard]] double pace(std::uint32_t a, std::uint32_t b) const {
    if (a / node_.devices == b / node_.devices)
      return node_.pace[pair(a, b)];
    return in_one_domain(a, b) ? node_.fabric_pace : 0;
  }
  [[nodiscard]] std::uint32_t links() const;
  [[nodiscard]] double capacity(std::uint32_t link) const;
  [[nodiscard]] std::string link_name(std::uint32_t link) const;

  /// Calls `use(link)` for each link from slot a to another slot b.
  template <class Use> void route(std::uint32_t a, std::uint32_t b, Use use) const {
    const std::uint32_t from = a / node_.devices;
    const std::uint32_t to = b / node_.devices;
    if (from == to) {
      use_list(node_.within, pair(a, b), from, use);
      return;
    }
    if (in_one_domain(a, b)) {
      use_list(node_.to_fabric, a % node_.devices, from, use);
      use_list(node_.from_fabric, b % node_.devices, to, use);
      return;
    }
    use_list(node_.out, a % node_.devices, from, use);
    use(port_link(a, 0));
    routes_.walk(stop_[a], stop_[b], key_[b], use);
    use(port_link(b, 1));
    use_list(node_.in, b % node_.devices, to, use);
  }

  /// The first links: those whose load depends on which host has which node of a job. Of hosts with
  /// equal ports these are the links between switches.
  [[nodiscard]] std::uint32_t links_of_order() const;
  /// Whether it is all the same which device of a host a flow to another host leaves and enters by,
  /// as far as those links and latencies are concerned.
  [[nodiscard]] bool devices_leave_alike() const;
  /// Whether all that goes from one switch to another takes the same links of the order.
  [[nodiscard]] bool has_one_way() const;
  [[nodiscard]] bool has_domains() const { return !cluster_.domain.empty(); }
  /// The switch that a slot's port is on, by number of those that have ports.
  [[nodiscard]] std::uint32_t stop_of(std::uint32_t slot) const { return stop_[slot]; }
  [[nodiscard]] std::uint32_t stops() const { return routes_.stops(); }
  /// As `route` between slots of two hosts, the first `links` (`links_of_order`) alone.
  template <class Use>
  void walk(std::uint32_t a, std::uint32_t b, std::uint32_t links, Use use) const {
    if (links > first_port_)
      use(port_link(a, 0));
    routes_.walk(stop_[a], stop_[b], key_[b], use);
    if (links > first_port_)
      use(port_link(b, 1));
  }

private:
  [[nodiscard]] bool in_one_domain(std::uint32_t a, std::uint32_t b) const {
    return !cluster_.domain.empty() &&
           cluster_.domain[a / node_.devices] == cluster_.domain[b / node_.devices];
  }
  [[nodiscard]] std::size_t pair(std::uint32_t a, std::uint32_t b) const {
    return std::size_t{a % node_.devices} * node_.devices + b % node_.devices;
  }
  [[nodiscard]] std::uint32_t port_of(std::uint32_t slot) const {
    return slot / node_.devices * cluster_.ports + node_.port[slot % node_.devices];
  }
  [[nodiscard]] std::uint32_t port_link(std::uint32_t slot, std::uint32_t inwards) const {
    return first_port_ + 2 * port_of(slot) + inwards;
  }
  template <class Use>
  void use_list(const LinkLists &lists, std::size_t list, std::uint32_t host, Use use) const {
    const auto first = first_node_ + host * static_cast<std::uint32_t>(node_.bandwidth.size());
    for (std::uint32_t i = lists.begin[list]; i < lists.begin[list + 1]; ++i)
      use(first + lists.links[i]);
  }
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> grouping() const;
  [[nodiscard]] double least_cost() const;

  NodeModel node_;
  ClusterModel cluster_;
  std::uint32_t hosts_;
  SwitchRoutes routes_;
  double scale_ = 1;                // of seconds per byte to distances
  std::uint32_t first_port_;        // link
  std::uint32_t first_node_;        // link
  std::vector<std::uint32_t> stop_; // of each slot: where its port is attached
  std::vector<std::uint32_t> key_;  // of each slot: tells destinations on a switch apart
  std::vector<double> leave_cost_;  // of each slot: to its switch
};

} // namespace toposeat
