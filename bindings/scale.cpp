// SPDX-License-Identifier: MIT OR Apache-2.0
#include <nanobind/stl/array.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "interrupts.hpp"
#include "toposeat/large/map_large.hpp"
#include "toposeat/large/node_orders.hpp"
#include "toposeat/machines/large_prediction.hpp"

namespace {

using toposeat::Assignment;
using toposeat::ClusterMachine;
using toposeat::ClusterModel;
using toposeat::DragonflyMachine;
using toposeat::HierarchyMachine;
using toposeat::LargeAnswer;
using toposeat::LargeCandidate;
using toposeat::LargeMachine;
using toposeat::LinkLists;
using toposeat::NodeModel;
using toposeat::RankTraffic;
using toposeat::SwitchLink;
using toposeat::TorusMachine;
using Slots = InputVector<std::uint32_t>;

/// A machine behind one Python type, whichever kind it is.
struct Machine {
  LargeMachine kind;
};

Machine torus(const std::vector<std::uint32_t> &extents, std::uint32_t nodes_per_router,
              std::uint32_t devices_per_node, double node_cost, double router_cost,
              const std::vector<double> &step_cost, double device_bandwidth, double node_bandwidth,
              const std::vector<double> &step_bandwidth, double node_latency, double step_latency,
              bool open) {
  return {TorusMachine({extents, nodes_per_router, devices_per_node, node_cost, router_cost,
                        step_cost, device_bandwidth, node_bandwidth, step_bandwidth, node_latency,
                        step_latency, open})};
}

Machine dragonfly(const std::vector<std::uint32_t> &sizes, const std::vector<double> &costs,
                  const std::vector<double> &bandwidths, const std::vector<double> &latencies) {
  if (sizes.size() != 4 || costs.size() != 4 || bandwidths.size() != 4 || latencies.size() != 3)
    throw std::invalid_argument("a dragonfly has 4 sizes, costs and bandwidths, and 3 latencies");
  return {DragonflyMachine({sizes[0], sizes[1], sizes[2], sizes[3], costs[0], costs[1], costs[2],
                            costs[3], bandwidths[0], bandwidths[1], bandwidths[2], bandwidths[3],
                            latencies[0], latencies[1], latencies[2]})};
}

/// Links of each way.
using Lists = std::vector<std::vector<std::uint32_t>>;

LinkLists joined(const Lists &lists) {
  LinkLists result;
  for (const std::vector<std::uint32_t> &list : lists) {
    result.links.insert(result.links.end(), list.begin(), list.end());
    result.begin.push_back(static_cast<std::uint32_t>(result.links.size()));
  }
  return result;
}

NodeModel node_model(const std::vector<double> &cost, const std::vector<double> &latency,
                     const std::vector<double> &pace, const Lists &within, const Lists &out,
                     const Lists &in, const std::vector<std::uint32_t> &port,
                     const std::vector<double> &exit_cost, const std::vector<double> &exit_latency,
                     const std::vector<double> &bandwidth, const std::vector<std::string> &names,
                     const Lists &to_fabric, const Lists &from_fabric,
                     const std::array<double, 3> &fabric) {
  return {static_cast<std::uint32_t>(port.size()),
          cost,
          latency,
          pace,
          joined(within),
          joined(out),
          joined(in),
          port,
          exit_cost,
          exit_latency,
          bandwidth,
          names,
          joined(to_fabric),
          joined(from_fabric),
          fabric[0],
          fabric[1],
          fabric[2]};
}

SwitchLink switch_link(std::uint32_t from, std::uint32_t to, double bandwidth, double latency,
                       double weight, const std::string &name) {
  return {from, to, bandwidth, latency, weight, name};
}

Machine cluster(const NodeModel &node, std::uint32_t switches, const std::vector<SwitchLink> &links,
                bool spread, std::uint32_t ports, const std::vector<std::uint32_t> &attached,
                const std::vector<double> &port_bandwidth, double port_latency,
                const std::vector<std::string> &hosts, const Lists &levels,
                const std::vector<std::uint32_t> &domain) {
  return {ClusterMachine(node, {switches, links, spread, ports, attached, port_bandwidth,
                                port_latency, hosts, levels, domain})};
}

/// What only machines with a link model answer.
template <class Answer> Answer of_links(const Machine &machine, const auto &ask) {
  return std::visit(
      [&]<class Kind>(const Kind &kind) -> Answer {
        if constexpr (std::is_same_v<Kind, toposeat::NodesMachine>)
          throw std::invalid_argument("this machine has no link model");
        else
          return ask(kind);
      },
      machine.kind);
}

void check_slot(const Machine &machine, std::uint32_t slot) {
  if (slot >= toposeat::slots_of(machine.kind))
    throw std::invalid_argument("there is no slot " + std::to_string(slot));
}

Assignment checked(const Machine &machine, const RankTraffic &traffic, const Slots &slots) {
  Assignment placement = as_vector(slots);
  if (placement.size() != traffic.ranks)
    throw std::invalid_argument("expected one slot per rank");
  for (const std::uint32_t slot : placement)
    check_slot(machine, slot);
  return placement;
}

std::vector<std::uint32_t> route(const Machine &machine, std::uint32_t a, std::uint32_t b) {
  check_slot(machine, a);
  check_slot(machine, b);
  std::vector<std::uint32_t> links;
  if (a != b)
    of_links<int>(machine, [&](const auto &kind) {
      kind.route(a, b, [&](std::uint32_t link) { links.push_back(link); });
      return 0;
    });
  return links;
}

LargeAnswer map_large(const std::shared_ptr<Machine> &machine,
                      std::shared_ptr<const RankTraffic> traffic, const std::string &objective,
                      const std::string &solver, double budget_s, std::uint64_t seed,
                      const std::function<void(const std::string &, double)> &progress,
                      bool interruptible) {
  toposeat::LargeRequest request{std::shared_ptr<const LargeMachine>(machine, &machine->kind),
                                 std::move(traffic),
                                 named(objectives, objective),
                                 named(methods, solver),
                                 budget_s,
                                 seed,
                                 {},
                                 {},
                                 &Interrupts::asked};
  if (progress)
    request.progress = [&](const std::string &stage, double share) {
      const nb::gil_scoped_acquire acquire;
      progress(stage, share);
    };
  const nb::gil_scoped_release release;
  const Interrupts interrupts(interruptible);
  return toposeat::solve(request);
}

using Phases = std::vector<std::tuple<RankTraffic, Slots, double>>;

/// Flows between ranks, the slot of each rank, and the least seconds, phase by phase.
toposeat::NodeOrders node_orders(const Machine &machine, const Phases &phases) {
  std::vector<toposeat::NodePhase> own;
  for (const auto &[traffic, slots, least_s] : phases) {
    const Assignment places = checked(machine, traffic, slots);
    toposeat::NodePhase phase{traffic.flows, least_s};
    for (toposeat::Flow &flow : phase.flows) {
      flow.source = places[flow.source];
      flow.target = places[flow.target];
    }
    own.push_back(std::move(phase));
  }
  const auto *cluster = std::get_if<ClusterMachine>(&machine.kind);
  if (cluster == nullptr)
    throw std::invalid_argument("not a machine of hosts on a network");
  return {*cluster, own};
}

constexpr double longest_s = 86'400; // what ends a search of orders is its steps

void bind_orders(nb::module_ &module) {
  using namespace nb::literals;
  using toposeat::Deadline;
  using toposeat::NodeOrders;
  nb::class_<NodeOrders>(module, "NodeOrders",
                         "The phases of a job whose nodes may get their hosts in any order.\n\n"
                         "Raises:\n    ValueError: domains, or no machine of hosts on a network.")
      .def(nb::new_(&node_orders), "machine"_a, "phases"_a, nb::keep_alive<1, 2>(),
           "Of each phase the flows of ranks, the slot of each rank with node v on host v, and "
           "the\nseconds below which no order takes it.")
      .def(
          "seconds",
          [](const NodeOrders &orders, const Slots &hosts) {
            return orders.seconds(as_vector(hosts));
          },
          "host_of_node"_a, "Seconds of each phase.")
      .def(
          "improve",
          [](const NodeOrders &orders, const Slots &start, double slowest_s, double enough_s,
             std::uint64_t steps, std::uint64_t seed, bool interruptible) {
            const Assignment from = as_vector(start);
            NodeOrders::Answer answer;
            {
              const nb::gil_scoped_release release;
              const Interrupts interrupts(interruptible);
              answer = orders.improve(from, slowest_s, enough_s, steps, seed,
                                      Deadline::in(longest_s, &Interrupts::asked));
            }
            return std::tuple{as_array(std::move(answer.host_of_node)), answer.tried, answer.all};
          },
          "start"_a, nb::kw_only(), "slowest_s"_a, "enough_s"_a, "steps"_a, "seed"_a = 1,
          "interruptible"_a = false,
          "The best order found from a start within so many steps (a move, and each message that "
          "it\ngives another way), none of whose phases takes longer than `slowest_s`, or the "
          "first that\ntakes `enough_s`; how many orders were looked at, and whether that were "
          "all, or nothing can\nbe gained.")
      .def_prop_ro("messages", &NodeOrders::messages, "Between pairs of nodes.");
}

void bind_machine(nb::module_ &module) {
  using namespace nb::literals;
  nb::class_<SwitchLink>(module, "SwitchLink", "One direction of a link between two switches.")
      .def(nb::new_(&switch_link), "source"_a, "target"_a, nb::kw_only(), "bandwidth"_a,
           "latency"_a, "weight"_a, "name"_a);
  nb::class_<NodeModel>(
      module, "NodeModel",
      "A node of a cluster: matrices of pairs, lists of links of each way. Through "
      "its fabric, which joins nodes of one domain: cost, latency, pace.")
      .def(nb::new_(&node_model), nb::kw_only(), "cost"_a, "latency"_a, "pace"_a, "within"_a,
           "out"_a, "into"_a, "port"_a, "exit_cost"_a, "exit_latency"_a, "bandwidth"_a, "names"_a,
           "to_fabric"_a = Lists{}, "from_fabric"_a = Lists{},
           "fabric"_a = std::array<double, 3>{});
  nb::class_<Machine>(module, "LargeMachine",
                      "A machine of many slots whose distances are computed, not stored.\n\n"
                      "Raises (all constructors):\n    ValueError: sizes, costs or bandwidths out "
                      "of range.")
      .def_static(
          "hierarchy",
          [](const std::vector<std::uint32_t> &arities, const std::vector<double> &costs,
             const std::vector<double> &bandwidths, const std::vector<double> &latencies) {
            return Machine{HierarchyMachine(arities, costs, bandwidths, latencies)};
          },
          "arities"_a, "costs"_a, "bandwidths"_a, "latencies"_a,
          "Groups of groups, everything from the leaf level up.")
      .def_static("torus", &torus, nb::kw_only(), "extents"_a, "nodes_per_router"_a,
                  "devices_per_node"_a, "node_cost"_a, "router_cost"_a, "step_cost"_a,
                  "device_bandwidth"_a, "node_bandwidth"_a, "step_bandwidth"_a, "node_latency"_a,
                  "step_latency"_a, "open"_a = false)
      .def_static("dragonfly", &dragonfly, nb::kw_only(), "sizes"_a, "costs"_a, "bandwidths"_a,
                  "latencies"_a,
                  "sizes: groups, routers, nodes, devices; costs: on a node, on a router, more per "
                  "local hop, more per global hop; bandwidths: device, node, local, global; "
                  "latencies: node, local, global.")
      .def_static("cluster", &cluster, "node"_a, nb::kw_only(), "switches"_a, "links"_a, "spread"_a,
                  "ports"_a, "attached"_a, "port_bandwidth"_a, "port_latency"_a, "hosts"_a,
                  "levels"_a, "domain"_a = std::vector<std::uint32_t>{},
                  "Equal nodes on a network of switches; attached and port_bandwidth are hosts x "
                  "ports, levels say of every host which group it is in, coarse levels first; "
                  "domain, which hosts their own fabric joins.")
      .def_prop_ro("slots", [](const Machine &m) { return toposeat::slots_of(m.kind); })
      .def_prop_ro("links",
                   [](const Machine &m) {
                     return of_links<std::uint32_t>(m, [](const auto &k) { return k.links(); });
                   })
      .def_prop_ro(
          "links_of_order",
          [](const Machine &m) {
            const auto *cluster = std::get_if<ClusterMachine>(&m.kind);
            return cluster == nullptr ? std::uint32_t{0} : cluster->links_of_order();
          },
          "How many links, the first, have loads that depend on the order of equal hosts; 0 where "
          "that\nis not known.")
      .def(
          "distance",
          [](const Machine &m, std::uint32_t a, std::uint32_t b) {
            check_slot(m, a);
            check_slot(m, b);
            return toposeat::distance_on(m.kind, a, b);
          },
          "a"_a, "b"_a)
      .def("route", &route, "a"_a, "b"_a, "Numbers of the links from slot a to slot b.")
      .def(
          "capacity",
          [](const Machine &m, std::uint32_t link) {
            return of_links<double>(m, [&](const auto &k) {
              return link < k.links() ? k.capacity(link)
                                      : throw std::invalid_argument("there is no such link");
            });
          },
          "link"_a)
      .def_prop_ro(
          "capacities",
          [](const Machine &m) {
            return as_array(of_links<std::vector<double>>(m, [](const auto &k) {
              std::vector<double> bytes_per_s(k.links());
              for (std::uint32_t link = 0; link < k.links(); ++link)
                bytes_per_s[link] = k.capacity(link);
              return bytes_per_s;
            }));
          },
          nb::rv_policy::move, "Bytes per second of every link.")
      .def(
          "link_name",
          [](const Machine &m, std::uint32_t link) {
            return of_links<std::string>(m, [&](const auto &k) {
              return link < k.links() ? k.link_name(link)
                                      : throw std::invalid_argument("there is no such link");
            });
          },
          "link"_a);
}

} // namespace

void bind_scale(nb::module_ &module) {
  using namespace nb::literals;
  bind_machine(module);
  bind_orders(module);

  nb::class_<LargeCandidate>(module, "LargeCandidate", "One placement that map_large() looked at.")
      .def_ro("name", &LargeCandidate::name)
      .def_ro("cost", &LargeCandidate::cost, "Sum over flows of bytes x distance.")
      .def_ro("cpu_s", &LargeCandidate::cpu_s, "CPU seconds that its making took.")
      .def_ro("also", &LargeCandidate::also, "Other ways that led to the same placement.")
      .def_prop_ro("predicted", [](const LargeCandidate &c) { return c.prediction.known; })
      .def_prop_ro("busiest_s", [](const LargeCandidate &c) { return c.prediction.busiest_s; })
      .def_prop_ro("busiest_link",
                   [](const LargeCandidate &c) { return c.prediction.busiest_link; })
      .def_prop_ro("mean_s", [](const LargeCandidate &c) { return c.prediction.mean_s; })
      .def_prop_ro("latency_s", [](const LargeCandidate &c) { return c.prediction.latency_s; })
      .def_prop_ro("predicted_s", [](const LargeCandidate &c) { return c.prediction.predicted_s; });

  nb::class_<LargeAnswer>(module, "LargeAnswer", "Result of map_large().")
      .def_prop_ro(
          "slot_of_rank",
          [](const LargeAnswer &answer) { return as_array(Assignment(answer.device_of_rank)); },
          nb::rv_policy::move)
      .def_prop_ro("default", &LargeAnswer::home)
      .def_prop_ro("placed", &LargeAnswer::placed)
      .def_ro("candidates", &LargeAnswer::candidates)
      .def(
          "slots_of",
          [](const LargeAnswer &answer, std::size_t candidate) {
            return as_array(Assignment(answer.candidates.at(candidate).slot_of_rank));
          },
          "candidate"_a, "The slot of each rank that a candidate, by its number, had chosen.")
      .def_ro("kept_default", &LargeAnswer::kept_default)
      .def_ro("interrupted", &LargeAnswer::interrupted, "The search was stopped by SIGINT.")
      .def_ro("notes", &LargeAnswer::notes);

  module.def(
      "map_large", &map_large, "machine"_a, "traffic"_a, nb::kw_only(), "objective"_a, "solver"_a,
      "budget_s"_a, "seed"_a, "progress"_a.none() = nb::none(), "interruptible"_a = false,
      "Chooses a slot for every rank of a large job.\n\n"
      "Objectives: cost, congestion, time. Solvers: auto, default, random.\n"
      "`progress` is told a stage and the share of it that is done. If `interruptible` (main\n"
      "thread only), SIGINT ends the search, and the best so far is returned.\n\n"
      "Raises:\n    ValueError: if the ranks do not fit.");
  module.def(
      "large_cost",
      [](const Machine &machine, const RankTraffic &traffic, const Slots &slots) {
        return toposeat::directed_cost(traffic, machine.kind, checked(machine, traffic, slots));
      },
      "machine"_a, "traffic"_a, "slots"_a,
      "Sum over directed flows of bytes x distance; slots may be shared.");
  module.def(
      "large_prediction",
      [](const Machine &machine, const RankTraffic &traffic, const Slots &slots) {
        const Assignment placement = checked(machine, traffic, slots);
        LargeCandidate candidate;
        candidate.name = "given";
        candidate.cost = toposeat::directed_cost(traffic, machine.kind, placement);
        candidate.prediction = toposeat::predict(traffic, machine.kind, placement);
        return candidate;
      },
      "machine"_a, "traffic"_a, "slots"_a, "Cost and predicted times of one placement.");
  module.def(
      "large_loads",
      [](const Machine &machine, const RankTraffic &traffic, const Slots &slots) {
        const Assignment placement = checked(machine, traffic, slots);
        toposeat::LargeLoads loads = toposeat::link_loads(traffic, machine.kind, placement);
        LargeCandidate candidate;
        candidate.name = "given";
        candidate.cost = toposeat::directed_cost(traffic, machine.kind, placement);
        candidate.prediction = loads.prediction;
        return std::tuple{candidate, as_array(std::move(loads.bytes))};
      },
      "machine"_a, "traffic"_a, "slots"_a,
      "Cost and predicted times of one placement, and the bytes over each link.");
}
