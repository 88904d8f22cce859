// SPDX-License-Identifier: MIT OR Apache-2.0
#include "large/process_grid.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

namespace toposeat {
namespace {

constexpr double near_share = 0.95;
constexpr std::size_t most_dimensions = 4;
constexpr std::uint32_t samples = 64; // shares of the weight, whose edges rule out most grids
constexpr std::size_t most_trials = 16;

using Extents = std::vector<std::uint32_t>;

/// All ordered factorisations of n as a product of 2 to 4 factors >= 2.
void factorise(std::uint32_t n, Extents &prefix, std::vector<Extents> &found) {
  if (!prefix.empty() && n >= 2) {
    found.push_back(prefix);
    found.back().push_back(n);
  }
  if (prefix.size() + 2 > most_dimensions)
    return;
  for (std::uint32_t factor = 2; std::uint64_t{factor} * 2 <= n; ++factor) {
    if (n % factor != 0)
      continue;
    prefix.push_back(factor);
    factorise(n / factor, prefix, found);
    prefix.pop_back();
  }
}

struct Step {
  std::uint32_t crossed = 0; // bit d: dimension d changes
  std::uint32_t steps = 0;   // in all dimensions together
  bool near = true;          // at most one step in each
  bool wraps = false;
};

Step step_between(const Extents &extents, std::uint32_t a, std::uint32_t b) {
  Step step;
  for (std::size_t d = extents.size(); d-- > 0;) {
    const std::uint32_t x = a % extents[d];
    const std::uint32_t y = b % extents[d];
    a /= extents[d];
    b /= extents[d];
    const std::uint32_t apart = x > y ? x - y : y - x;
    const std::uint32_t ring = std::min(apart, extents[d] - apart);
    step.near = step.near && ring <= 1;
    step.wraps = step.wraps || ring < apart;
    step.steps += ring;
    step.crossed |= ring > 0 ? 1U << d : 0U;
  }
  return step;
}

struct Edge {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

/// The edges in the middle of equal shares of the weight, a heavy one more than once.
std::vector<Edge> sampled_edges(const RankGraph &graph) {
  const double share = std::accumulate(graph.weight.begin(), graph.weight.end(), 0.0) / samples;
  std::vector<Edge> found;
  double passed = 0;
  for (std::uint32_t v = 0; v < graph.size() && share > 0; ++v) {
    for (std::uint32_t e = graph.begin[v]; e < graph.begin[v + std::size_t{1}]; ++e) {
      passed += graph.weight[e];
      while (found.size() < samples && (static_cast<double>(found.size()) + 0.5) * share < passed)
        found.push_back({v, graph.target[e]});
    }
  }
  return found;
}

/// Whether all ranks are neighbours of all: any traffic would be near, so nothing is recognised.
bool every_pair_is_near(const Extents &extents) {
  return std::all_of(extents.begin(), extents.end(), [](std::uint32_t n) { return n <= 3; });
}

/// Judges one grid by the edges of the graph.
class GridTrial {
public:
  GridTrial(const RankGraph &graph, const Extents &extents) : graph_(graph), extents_(extents) {}

  /// Mean steps of a few edges, or nothing if too many of them are far.
  [[nodiscard]] std::optional<double> sampled_length(const std::vector<Edge> &edges) const {
    std::uint32_t far = 0;
    std::uint32_t steps = 0;
    for (const Edge &edge : edges) {
      const Step step = step_between(extents_, edge.from, edge.to);
      far += step.near ? 0 : 1;
      steps += step.steps;
    }
    if (edges.empty() || far > samples / 8)
      return std::nullopt;
    return static_cast<double>(steps) / static_cast<double>(edges.size());
  }

  /// Mean steps per weight, or nothing if too much of it is far.
  std::optional<double> length(ProcessGrid &grid) const {
    double total = 0;
    double near = 0;
    double steps = 0;
    grid = {extents_, std::vector<double>(extents_.size(), 0), false, false};
    std::vector<std::uint32_t> straight(extents_.size(), 0);
    for (std::uint32_t v = 0; v < graph_.size(); ++v) {
      for (std::uint32_t e = graph_.begin[v]; e < graph_.begin[v + std::size_t{1}]; ++e) {
        const Step step = step_between(extents_, v, graph_.target[e]);
        const double weight = graph_.weight[e];
        total += weight;
        near += step.near ? weight : 0;
        steps += weight * step.steps;
        grid.wraps = grid.wraps || (step.near && step.wraps);
        if (step.steps == 1)
          ++straight[static_cast<std::size_t>(std::countr_zero(step.crossed))];
        for (std::size_t d = 0; d < extents_.size(); ++d)
          grid.pull[d] += (step.crossed >> d & 1U) != 0 ? weight / 2 : 0;
      }
    }
    if (near < near_share * total || !(total > 0))
      return std::nullopt;
    grid.full = true;
    for (std::size_t d = 0; d < extents_.size(); ++d) {
      const std::uint32_t all = graph_.size() / extents_[d] * (extents_[d] - 1); // seen twice each
      grid.full = grid.full && straight[d] > all;
    }
    return steps / total;
  }

private:
  const RankGraph &graph_;
  const Extents &extents_;
};

} // namespace

std::optional<ProcessGrid> recognise_grid(const RankGraph &graph, const Deadline &deadline) {
  std::vector<Extents> candidates;
  Extents prefix;
  if (graph.size() >= 4)
    factorise(graph.size(), prefix, candidates);
  // A chain of ranks looks near in hundreds of grids: only the most likely are judged in full,
  // those with few dimensions first where they are as likely.
  std::vector<std::pair<double, std::size_t>> likely;
  const std::vector<Edge> edges = sampled_edges(graph);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (every_pair_is_near(candidates[i]))
      continue;
    if (const auto length = GridTrial(graph, candidates[i]).sampled_length(edges))
      likely.emplace_back(*length + 1e-3 * static_cast<double>(candidates[i].size()), i);
  }
  std::sort(likely.begin(), likely.end());
  likely.resize(std::min(likely.size(), most_trials));
  std::optional<ProcessGrid> best;
  double shortest = 0;
  for (const auto &[sampled, i] : likely) {
    if (deadline.expired())
      break;
    ProcessGrid grid;
    const std::optional<double> length = GridTrial(graph, candidates[i]).length(grid);
    if (length && (!best || *length < shortest * (1 - 1e-9))) {
      best = grid;
      shortest = *length;
    }
  }
  return best;
}

Coordinates grid_coordinates(const ProcessGrid &grid, std::uint32_t ranks) {
  const std::size_t dimensions = grid.extents.size();
  Coordinates result{dimensions, std::vector<float>(ranks * dimensions)};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::uint32_t rest = rank;
    for (std::size_t d = dimensions; d-- > 0;) {
      result.values[rank * dimensions + d] = static_cast<float>(rest % grid.extents[d]);
      rest /= grid.extents[d];
    }
  }
  return result;
}

} // namespace toposeat
