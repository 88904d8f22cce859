// SPDX-License-Identifier: MIT OR Apache-2.0
#include "mapping.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "seats.hpp"
#include "tiles.hpp"
#include "toposeat/large/map_large.hpp"

namespace toposeat::reorder {
namespace {

constexpr std::size_t most_searched = 1U << 16U; // ranks; beyond, only tiles are tried
constexpr double budget_s =
    10; // never reached within these limits: the answer must not depend on it
constexpr double tolerance = 1e-9;

/// Node of each process, numbered by first appearance, and how many processes each holds.
struct Nodes {
  Nodes(int ranks, const int *labels) {
    std::unordered_map<int, std::uint32_t> number;
    for (int p = 0; p < ranks; ++p) {
      const auto [at, added] =
          number.try_emplace(labels[p], static_cast<std::uint32_t>(sizes.size()));
      if (added)
        sizes.push_back(0);
      of_process.push_back(at->second);
      ++sizes[at->second];
    }
  }

  [[nodiscard]] bool uniform() const {
    return std::ranges::all_of(sizes, [&](std::uint32_t size) { return size == sizes.front(); });
  }

  std::vector<std::uint32_t> of_process;
  std::vector<std::uint32_t> sizes;
};

/// Node of each role.
using Blocks = std::vector<std::uint32_t>;

double between(const RankTraffic &traffic, const Blocks &node_of_role) {
  double sum = 0;
  for (const Flow &flow : traffic.flows)
    sum += node_of_role[flow.source] != node_of_role[flow.target] ? flow.bytes : 0;
  return sum;
}

double total(const RankTraffic &traffic) {
  double sum = 0;
  for (const Flow &flow : traffic.flows)
    sum += flow.bytes;
  return sum;
}

/// One flow for each pair, nothing for a vertex to itself.
RankTraffic merged(int ranks, std::vector<Flow> flows) {
  std::erase_if(flows,
                [](const Flow &flow) { return flow.source == flow.target || flow.bytes <= 0; });
  std::ranges::sort(flows, {},
                    [](const Flow &flow) { return std::pair(flow.source, flow.target); });
  RankTraffic traffic;
  traffic.ranks = static_cast<std::uint32_t>(ranks);
  for (const Flow &flow : flows) {
    if (!traffic.flows.empty() && traffic.flows.back().source == flow.source &&
        traffic.flows.back().target == flow.target)
      traffic.flows.back().bytes += flow.bytes;
    else
      traffic.flows.push_back(flow);
  }
  return traffic;
}

RankTraffic traffic_of(int ranks, const tpr_edges &edges) {
  std::vector<Flow> flows;
  flows.reserve(edges.count);
  for (std::size_t e = 0; e < edges.count; ++e)
    flows.push_back({static_cast<std::uint32_t>(edges.sources[e]),
                     static_cast<std::uint32_t>(edges.targets[e]),
                     edges.weights != nullptr ? edges.weights[e] : 1.0, 1});
  return merged(ranks, std::move(flows));
}

/// The core's multilevel mapping, on slots numbered node by node.
Blocks searched(const Nodes &nodes, const Shared<RankTraffic> &traffic) {
  const std::size_t count = nodes.sizes.size();
  std::vector<std::uint32_t> next(count); // slot for the next process of each node
  Blocks node_of_slot;
  for (std::uint32_t k = 0; k < count; ++k) {
    next[k] = static_cast<std::uint32_t>(node_of_slot.size());
    node_of_slot.insert(node_of_slot.end(), nodes.sizes[k], k);
  }
  Assignment home; // role p is process p
  for (const std::uint32_t node : nodes.of_process)
    home.push_back(next[node]++);
  const LargeAnswer answer = solve({.machine = NodesMachine(nodes.sizes),
                                    .traffic = traffic,
                                    .objective = Objective::cost,
                                    .budget_s = budget_s,
                                    .seed = 1,
                                    .given = {std::move(home)},
                                    .progress = {}});
  Blocks blocks;
  for (const std::uint32_t slot : answer.device_of_rank)
    blocks.push_back(node_of_slot[slot]);
  return blocks;
}

/// Blocks of one size are alike: each gets the node that most of its roles are on already.
Blocks with_least_movement(const Nodes &nodes, const Blocks &blocks) {
  const std::size_t count = nodes.sizes.size();
  std::unordered_map<std::uint64_t, std::int64_t> shared;
  for (std::size_t role = 0; role < blocks.size(); ++role)
    ++shared[std::uint64_t{blocks[role]} * count + nodes.of_process[role]];
  std::vector<std::tuple<std::int64_t, std::uint64_t, std::uint64_t>> pairs;
  pairs.reserve(shared.size());
  for (const auto &[pair, roles] : shared)
    pairs.emplace_back(-roles, pair / count, pair % count);
  std::ranges::sort(pairs);
  std::vector<std::uint64_t> node_of_block(count, count);
  std::vector<bool> taken(count, false);
  const auto give = [&](std::uint64_t block, std::uint64_t node) {
    if (node_of_block[block] != count || taken[node] || nodes.sizes[block] != nodes.sizes[node])
      return false;
    node_of_block[block] = node;
    taken[node] = true;
    return true;
  };
  for (const auto &[roles, block, node] : pairs)
    give(block, node);
  std::unordered_map<std::uint32_t, std::uint64_t> begin; // by size: nodes before it are taken
  for (std::uint64_t block = 0; block < count; ++block) {
    std::uint64_t &node = begin[nodes.sizes[block]];
    while (node_of_block[block] == count && !give(block, node))
      ++node;
  }
  Blocks moved;
  for (const std::uint32_t block : blocks)
    moved.push_back(static_cast<std::uint32_t>(node_of_block[block]));
  return moved;
}

/// Roles of each node for its processes: by link where devices are known, else in rising order.
void seat(const tpr_places &places, const Nodes &nodes, const RankTraffic &traffic,
          const Blocks &node_of_role, int *new_rank, tpr_links *links) {
  const std::size_t count = nodes.sizes.size();
  std::vector<std::vector<std::uint32_t>> roles(count), processes(count);
  std::vector<std::uint32_t> position; // of each role in its node
  for (std::size_t role = 0; role < node_of_role.size(); ++role) {
    std::vector<std::uint32_t> &here = roles[node_of_role[role]];
    position.push_back(static_cast<std::uint32_t>(here.size()));
    here.push_back(static_cast<std::uint32_t>(role));
    processes[nodes.of_process[role]].push_back(static_cast<std::uint32_t>(role));
  }
  std::vector<std::vector<Flow>> within(count);
  for (const Flow &flow : traffic.flows)
    if (places.device != nullptr && node_of_role[flow.source] == node_of_role[flow.target])
      within[node_of_role[flow.source]].push_back(
          {position[flow.source], position[flow.target], flow.bytes, 1});
  Seats seats(places, count);
  for (std::size_t node = 0; node < count; ++node) {
    const std::vector<std::uint32_t> by_link =
        within[node].empty() ? std::vector<std::uint32_t>{}
                             : seats.assign(processes[node], within[node], *links);
    for (std::size_t p = 0; p < processes[node].size(); ++p)
      new_rank[processes[node][p]] =
          static_cast<int>(roles[node][by_link.empty() ? p : by_link[p]]);
  }
}

/// The best of the candidates, the first of equals, the default if none is better; within nodes by
/// link.
tpr_answer best_of(const tpr_places &places, const Nodes &nodes, const RankTraffic &traffic,
                   const std::vector<Blocks> &candidates, int *new_rank, tpr_links *links) {
  links->all = total(traffic);
  links->before = links->after = between(traffic, nodes.of_process);
  const Blocks *best = nullptr;
  for (const Blocks &candidate : candidates) {
    const double here = between(traffic, candidate);
    if (here < links->after - tolerance * links->all) {
      links->after = here;
      best = &candidate;
    }
  }
  seat(places, nodes, traffic,
       best == nullptr ? nodes.of_process : with_least_movement(nodes, *best), new_rank, links);
  return best == nullptr && links->within >= links->within_rising ? TPR_KEPT : TPR_MOVED;
}

bool too_large(const Nodes &nodes) { return nodes.of_process.size() > most_searched; }

bool searchable(const Nodes &nodes) { return nodes.sizes.size() > 1 && !too_large(nodes); }

} // namespace
} // namespace toposeat::reorder

using namespace toposeat::reorder;

enum tpr_answer tpr__map_grid(int ranks, const struct tpr_places *places,
                              const struct tpr_grid *grid, int *new_rank, struct tpr_links *links) {
  try {
    const Nodes nodes(ranks, places->node);
    *links = {static_cast<int>(nodes.sizes.size()), 0, 0, 0, 0, 0};
    const Grid shape(*grid);
    const toposeat::Shared<toposeat::RankTraffic> traffic = merged(ranks, shape.links());
    std::vector<Blocks> candidates;
    if (nodes.uniform() && nodes.sizes.size() > 1) {
      Blocks tiles = shape.best_tiles(nodes.sizes.front());
      if (!tiles.empty())
        candidates.push_back(std::move(tiles));
    }
    if (searchable(nodes))
      candidates.push_back(searched(nodes, traffic));
    return best_of(*places, nodes, *traffic, candidates, new_rank, links);
  } catch (const std::exception &) {
    return TPR_FAILED;
  }
}

enum tpr_answer tpr__map_graph(int ranks, const struct tpr_places *places,
                               const struct tpr_edges *edges, int *new_rank,
                               struct tpr_links *links) {
  try {
    const Nodes nodes(ranks, places->node);
    *links = {static_cast<int>(nodes.sizes.size()), 0, 0, 0, 0, 0};
    const toposeat::Shared<toposeat::RankTraffic> traffic = traffic_of(ranks, *edges);
    if (too_large(nodes))
      return TPR_FAILED;
    std::vector<Blocks> candidates;
    if (searchable(nodes))
      candidates.push_back(searched(nodes, traffic));
    return best_of(*places, nodes, *traffic, candidates, new_rank, links);
  } catch (const std::exception &) {
    return TPR_FAILED;
  }
}
