// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division/bisection.hpp"

#include <algorithm>
#include <utility>

namespace toposeat {
namespace {

constexpr std::uint32_t coarse_enough = 80;
constexpr double too_little_merged = 0.95; // share of vertices left by a step not worth its time
constexpr int first_cuts = 3;

std::uint32_t largest(const PartGraph &graph) {
  return *std::max_element(graph.size.begin(), graph.size.end());
}

Slack slack_at(const PartGraph &graph, bool finest) {
  if (finest)
    return {1, 0};
  const std::uint32_t size = largest(graph);
  return {size, size};
}

/// Moves vertices, the last ones first, until the size of side 0 is in its range. Every vertex is
/// one rank.
void settle_sizes(const SizeRange &range, Sides &sides) {
  auto first = static_cast<std::uint32_t>(std::count(sides.begin(), sides.end(), 0));
  for (std::size_t v = sides.size(); v-- > 0 && range.missed_by(first) > 0;) {
    if (first > range.most && sides[v] == 0) {
      sides[v] = 1;
      --first;
    } else if (first < range.least && sides[v] == 1) {
      sides[v] = 0;
      ++first;
    }
  }
}

} // namespace

Sides Bisector::bisect(const PartGraph &graph, const SizeRange &range) {
  const std::uint32_t ranks = graph.ranks();
  const std::uint32_t most_size = std::max(1U, 3 * ranks / (2 * coarse_enough));
  std::vector<CoarseGraph> levels;
  const PartGraph *coarsest = &graph;
  while (coarsest->vertices() > coarse_enough && !deadline_.expired()) {
    CoarseGraph next = coarsener_.coarsen(*coarsest, most_size);
    const bool worthwhile =
        next.graph.vertices() < too_little_merged * static_cast<double>(coarsest->vertices());
    if (!worthwhile)
      break;
    levels.push_back(std::move(next));
    coarsest = &levels.back().graph;
  }
  Sides sides = divide_coarsest(*coarsest, range, slack_at(*coarsest, levels.empty()));
  for (std::size_t level = levels.size(); level-- > 0;) {
    const PartGraph &finer = level == 0 ? graph : levels[level - 1].graph;
    const std::vector<std::uint32_t> &vertex_of = levels[level].vertex_of;
    Sides projected(finer.vertices());
    for (std::uint32_t v = 0; v < finer.vertices(); ++v)
      projected[v] = sides[vertex_of[v]];
    sides = std::move(projected);
    if (!deadline_.expired())
      refiner_.refine(finer, range, slack_at(finer, level == 0), sides);
  }
  settle_sizes(range, sides); // nothing to do, unless the deadline came in between
  return sides;
}

Sides Bisector::divide_coarsest(const PartGraph &graph, const SizeRange &range,
                                const Slack &slack) {
  Sides best;
  double best_cut = 0;
  std::uint32_t best_missed = 0;
  for (int i = 0; i < first_cuts && (i == 0 || !deadline_.expired()); ++i) {
    Sides sides;
    refiner_.grow(graph, range, rng_.below(graph.vertices()), sides);
    const double cut = refiner_.refine(graph, range, slack, sides);
    const std::uint32_t by = refiner_.missed_by();
    const std::uint32_t missed = by > slack.accept ? by : 0;
    if (i == 0 || missed < best_missed || (missed == best_missed && cut < best_cut)) {
      best = std::move(sides);
      best_cut = cut;
      best_missed = missed;
    }
    if (best_cut == 0 && best_missed == 0)
      break;
  }
  return best;
}

} // namespace toposeat
