// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/scotch/scotch_large.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "scotch/scotch_library.hpp"

namespace toposeat {
namespace {

constexpr std::uint32_t nobody = 0xffffffffU;
constexpr std::int64_t quality = 1;      // SCOTCH_STRATQUALITY
constexpr double largest_sum = 1e9;      // of load x distance: beyond 2^31 Scotch overflows
constexpr double cost_resolution = 1000; // of the dearest level of a tree

ScotchTarget target_of(const HierarchyMachine &machine) {
  return {false,
          {machine.arities().rbegin(), machine.arities().rend()},
          {machine.costs().rbegin(), machine.costs().rend()},
          1};
}

ScotchTarget target_of(const TorusMachine &machine) {
  const TorusShape &shape = machine.shape();
  // An open one too: what Scotch answers is a candidate, judged by the machine as it is.
  return {true, shape.extents, {}, shape.nodes_per_router * shape.devices_per_node};
}

ScotchTarget target_of(const DragonflyMachine &machine) {
  const DragonflyShape &shape = machine.shape();
  const double router = shape.router_cost;
  return {false,
          {shape.groups, shape.routers_per_group, shape.nodes_per_router, shape.devices_per_node},
          {router + 2 * shape.local_cost + shape.global_cost, router + shape.local_cost, router,
           shape.node_cost},
          1};
}

ScotchTarget target_of(const GroupedMachine &machine) {
  const std::uint32_t seats = machine.slots() / machine.nodes();
  for (std::uint32_t node = 0; node < machine.nodes(); ++node) {
    if (machine.node_of(node * seats) != node || machine.node_of((node + 1) * seats - 1) != node)
      throw std::runtime_error("scotch knows no nodes of different sizes");
  }
  return {false, {machine.nodes()}, {1}, seats};
}

ScotchTarget target_of(const ClusterMachine & /*machine*/) {
  throw std::runtime_error("scotch knows no networks of switches");
}

template <class Number> struct Arcs {
  std::vector<Number> begin;
  std::vector<Number> target;
  std::vector<Number> load;

  /// Whole weights stay as they are where their costs fit; others are scaled.
  Arcs(const RankGraph &graph, double widest)
      : begin(graph.begin.begin(), graph.begin.end()),
        target(graph.target.begin(), graph.target.end()) {
    const double total = std::accumulate(graph.weight.begin(), graph.weight.end(), 0.0) * widest;
    const bool whole = std::all_of(graph.weight.begin(), graph.weight.end(),
                                   [](double weight) { return weight == std::floor(weight); });
    const double scale = whole && total < largest_sum ? 1 : largest_sum / std::max(total, 1e-300);
    load.reserve(graph.weight.size());
    for (const double weight : graph.weight)
      load.push_back(static_cast<Number>(std::max(1.0, std::round(weight * scale))));
  }
};

template <class Number>
double build_target(const ScotchFunctions<Number> &scotch, const ScotchHandle &handle,
                    const ScotchTarget &target) {
  const auto levels = static_cast<Number>(target.sizes.size());
  const std::vector<Number> sizes(target.sizes.begin(), target.sizes.end());
  if (target.torus) {
    if (scotch.target_torus(handle.get(), levels, sizes.data()) != 0)
      throw std::runtime_error("scotch refused the machine");
    return std::accumulate(sizes.begin(), sizes.end(), 0.0);
  }
  const double widest = target.costs.front();
  const bool whole = std::all_of(target.costs.begin(), target.costs.end(), [](double cost) {
    return cost == std::floor(cost) && cost <= cost_resolution;
  });
  const double scale = whole || !(widest > 0) ? 1 : cost_resolution / widest;
  std::vector<Number> costs;
  costs.reserve(target.costs.size());
  for (const double cost : target.costs)
    costs.push_back(static_cast<Number>(std::max(1.0, std::round(cost * scale))));
  if (scotch.target_tree(handle.get(), levels, sizes.data(), costs.data()) != 0)
    throw std::runtime_error("scotch refused the machine");
  return static_cast<double>(costs.front());
}

template <class Number>
std::vector<std::uint32_t> places(const ScotchLibrary &library, const RankGraph &graph,
                                  const ScotchTarget &target, std::uint64_t seed, int threads) {
  const ScotchFunctions<Number> scotch = library.functions<Number>();
  scotch.random_seed(static_cast<Number>(seed % 0x7fffffffU));
  library.random_reset();
  const ScotchHandle plain(library, library.graph_make, library.graph_init, library.graph_exit);
  const ScotchHandle machine(library, library.target_make, library.target_init,
                             library.target_exit);
  const ScotchHandle strategy(library, library.strategy_make, library.strategy_init,
                              library.strategy_exit);
  const double widest = build_target(scotch, machine, target);
  const Arcs<Number> arcs(graph, widest);
  const auto vertices = static_cast<Number>(graph.size());
  if (scotch.graph_build(plain.get(), 0, vertices, arcs.begin.data(), nullptr, nullptr, nullptr,
                         static_cast<Number>(arcs.target.size()), arcs.target.data(),
                         arcs.load.data()) != 0)
    throw std::runtime_error("scotch refused a graph");
  const Number count = std::accumulate(
      target.sizes.begin(), target.sizes.end(), Number{1},
      [](Number a, std::uint32_t b) { return static_cast<Number>(a * static_cast<Number>(b)); });
  if (scotch.strategy_build(strategy.get(), static_cast<Number>(quality), count, 0.01) != 0)
    throw std::runtime_error("scotch refused its quality strategy");
  std::vector<Number> part(graph.size(), 0);
  if (threads == 1) {
    scotch_map_single_threaded(library, scotch, plain, machine, strategy, part.data());
  } else if (scotch.graph_map(plain.get(), machine.get(), strategy.get(), part.data()) != 0) {
    throw std::runtime_error("scotch found no mapping");
  }
  return {part.begin(), part.end()};
}

/// Ranks by falling traffic take a seat of the place they were given; the others then take the
/// nearest free slot, in the order of slots, which is an order of nearness on all these machines.
class SeatRanks {
public:
  SeatRanks(const RankGraph &graph, std::uint32_t slots) : next_free_(slots + std::size_t{1}) {
    std::iota(next_free_.begin(), next_free_.end(), 0U);
    std::vector<double> traffic(graph.size());
    for (std::uint32_t r = 0; r < graph.size(); ++r) {
      const auto weights = graph.weights(r);
      traffic[r] = std::accumulate(weights.begin(), weights.end(), 0.0);
    }
    order_.resize(graph.size());
    std::iota(order_.begin(), order_.end(), 0U);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return traffic[a] > traffic[b] || (traffic[a] == traffic[b] && a < b);
    });
  }

  void seat(ScotchLargeAnswer &answer, std::uint32_t seats) {
    answer.slots.assign(answer.raw.size(), nobody);
    std::vector<std::uint32_t> homeless;
    for (const std::uint32_t r : order_) {
      const std::uint32_t slot = free_from(answer.raw[r]);
      if (slot < answer.raw[r] + seats)
        take(answer.slots[r], slot);
      else
        homeless.push_back(r);
    }
    answer.moved = static_cast<std::uint32_t>(homeless.size());
    const auto end = static_cast<std::uint32_t>(next_free_.size() - 1);
    for (const std::uint32_t r : homeless) {
      const std::uint32_t above = free_from(answer.raw[r]);
      const std::uint32_t below = free_before(answer.raw[r]);
      const bool up =
          below == nobody || (above < end && above - answer.raw[r] <= answer.raw[r] - below);
      take(answer.slots[r], up ? above : below);
    }
  }

private:
  void take(std::uint32_t &slot_of_rank, std::uint32_t slot) {
    slot_of_rank = slot;
    next_free_[slot] = slot + 1;
  }

  /// The first free slot at or behind `slot`; the number of slots if there is none.
  std::uint32_t free_from(std::uint32_t slot) {
    while (next_free_[slot] != slot) {
      next_free_[slot] = next_free_[next_free_[slot]];
      slot = next_free_[slot];
    }
    return slot;
  }

  /// The last free slot before `slot`; few are asked for, so it just looks.
  [[nodiscard]] std::uint32_t free_before(std::uint32_t slot) const {
    while (slot-- > 0) {
      if (next_free_[slot] == slot)
        return slot;
    }
    return nobody;
  }

  std::vector<std::uint32_t> next_free_; // a forest: roots are free slots, and the end
  std::vector<std::uint32_t> order_;
};

} // namespace

ScotchTarget scotch_target(const LargeMachine &machine) {
  ScotchTarget target = std::visit([](const auto &each) { return target_of(each); }, machine);
  // Scotch divides by zero on levels and dimensions of size 1.
  for (std::size_t level = target.sizes.size(); level-- > 0;) {
    if (target.sizes[level] > 1)
      continue;
    target.sizes.erase(target.sizes.begin() + static_cast<std::ptrdiff_t>(level));
    if (!target.torus)
      target.costs.erase(target.costs.begin() + static_cast<std::ptrdiff_t>(level));
  }
  return target;
}

ScotchLargeAnswer scotch_map_large(const RankGraph &graph, const LargeMachine &machine,
                                   std::uint64_t seed, int threads) {
  const ScotchLibrary *library = ScotchLibrary::instance();
  if (library == nullptr)
    throw std::runtime_error("the scotch library was not found");
  const ScotchTarget target = scotch_target(machine);
  ScotchLargeAnswer answer;
  if (target.sizes.empty() || graph.target.empty()) // nothing for Scotch to decide
    answer.raw.assign(graph.size(), 0);
  else
    answer.raw = library->number_size == sizeof(std::int32_t)
                     ? places<std::int32_t>(*library, graph, target, seed, threads)
                     : places<std::int64_t>(*library, graph, target, seed, threads);
  for (std::uint32_t &place : answer.raw)
    place *= target.seats;
  SeatRanks(graph, slots_of(machine)).seat(answer, target.seats);
  return answer;
}

} // namespace toposeat
