// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division/bisection.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace toposeat {
namespace {

constexpr std::uint32_t none = 0xffffffffU;

} // namespace

CoarseGraph Coarsener::coarsen(const PartGraph &fine, std::uint32_t most_size) {
  match(fine, most_size);
  CoarseGraph coarse;
  contract(fine, coarse);
  return coarse;
}

void Coarsener::match(const PartGraph &fine, std::uint32_t most_size) {
  const std::uint32_t n = fine.vertices();
  order_.resize(n);
  std::iota(order_.begin(), order_.end(), 0U);
  for (std::size_t i = n; i > 1; --i)
    std::swap(order_[i - 1], order_[rng_.below(i)]);
  mate_.assign(n, none);
  std::uint32_t lonely = none;
  for (const std::uint32_t v : order_) {
    if (mate_[v] != none)
      continue;
    std::uint32_t mate = best_mate(fine, v, most_size);
    if (mate == none && fine.begin[v] == fine.begin[v + 1]) {
      const bool fits = lonely != none && fine.size[v] + fine.size[lonely] <= most_size;
      mate = fits ? lonely : none;
      lonely = fits ? none : v;
    }
    mate_[v] = mate == none ? v : mate;
    if (mate != none)
      mate_[mate] = v;
  }
}

std::uint32_t Coarsener::best_mate(const PartGraph &fine, std::uint32_t v,
                                   std::uint32_t most_size) const {
  std::uint32_t best = none;
  float best_rating = 0;
  for (std::uint32_t e = fine.begin[v]; e < fine.begin[v + 1]; ++e) {
    const std::uint32_t u = fine.target[e];
    if (mate_[u] != none || fine.size[u] + fine.size[v] > most_size)
      continue;
    const float rating = fine.weight[e] * fine.weight[e] / static_cast<float>(fine.size[u]);
    if (rating > best_rating) {
      best_rating = rating;
      best = u;
    }
  }
  return best;
}

void Coarsener::contract(const PartGraph &fine, CoarseGraph &coarse) {
  const std::uint32_t n = fine.vertices();
  coarse.vertex_of.resize(n);
  std::uint32_t count = 0;
  for (std::uint32_t v = 0; v < n; ++v)
    coarse.vertex_of[v] = mate_[v] >= v ? count++ : coarse.vertex_of[mate_[v]];
  PartGraph &graph = coarse.graph;
  graph.begin.reserve(count + std::size_t{1});
  graph.target.reserve(fine.target.size());
  graph.weight.reserve(fine.target.size());
  graph.size.reserve(count);
  seen_at_.assign(count, none);
  for (std::uint32_t v = 0; v < n; ++v) {
    if (mate_[v] < v)
      continue;
    const std::uint32_t here = coarse.vertex_of[v];
    const std::uint32_t row = graph.begin.back();
    const auto add = [&](std::uint32_t fine_vertex) {
      for (std::uint32_t e = fine.begin[fine_vertex]; e < fine.begin[fine_vertex + 1]; ++e) {
        const std::uint32_t to = coarse.vertex_of[fine.target[e]];
        if (to == here)
          continue;
        std::uint32_t &at = seen_at_[to];
        if (at != none && at >= row) { // rows before this one left their marks
          graph.weight[at] += fine.weight[e];
        } else {
          at = static_cast<std::uint32_t>(graph.target.size());
          graph.target.push_back(to);
          graph.weight.push_back(fine.weight[e]);
        }
      }
    };
    add(v);
    if (mate_[v] != v)
      add(mate_[v]);
    graph.size.push_back(fine.size[v] + (mate_[v] != v ? fine.size[mate_[v]] : 0));
    graph.begin.push_back(static_cast<std::uint32_t>(graph.target.size()));
  }
}
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
