// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division/coarsening.hpp"

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

} // namespace toposeat
