// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division/kway_refinement.hpp"

#include <algorithm>

namespace toposeat {
namespace {

constexpr int most_rounds = 6;
constexpr std::uint64_t work_per_arc = 60; // bounds the time on graphs where all parts are adjacent
constexpr std::uint32_t nowhere = 0xffffffffU;

} // namespace

void KwayRefiner::refine(const PartGraph &graph, const std::vector<std::uint32_t> &capacity,
                         std::vector<std::uint32_t> &block) {
  graph_ = &graph;
  const std::size_t blocks = capacity.size();
  members_.assign(blocks, {});
  for (std::uint32_t v = 0; v < graph.vertices(); ++v)
    members_[block[v]].push_back(v);
  active_.assign(blocks, 1);
  link_.assign(blocks, 0);
  number_.assign(graph.vertices(), nowhere);
  work_ = 0;
  const std::uint64_t most_work = work_per_arc * graph.target.size();
  for (int round = 0; round < most_rounds && !deadline_.expired(); ++round) {
    const std::vector<Pair> pairs = promising_pairs(block);
    std::fill(active_.begin(), active_.end(), std::uint8_t{0});
    bool improved = false;
    for (const Pair &pair : pairs) {
      if (work_ > most_work || deadline_.expired())
        return;
      if (!(pair.promise > 0)) // nor do those behind it
        break;
      improved |= refine_pair(pair, capacity, block);
    }
    if (!improved)
      return;
  }
}

/// What each move of v to a neighbouring block would gain.
void KwayRefiner::weigh_moves(std::uint32_t v, const std::vector<std::uint32_t> &block) {
  touched_.clear();
  for (std::uint32_t e = graph_->begin[v]; e < graph_->begin[v + 1]; ++e) {
    const std::uint32_t b = block[graph_->target[e]];
    if (link_[b] == 0)
      touched_.push_back(b);
    link_[b] += graph_->weight[e];
  }
  const std::uint32_t own = block[v];
  for (const std::uint32_t b : touched_) {
    if (b != own && (active_[own] != 0 || active_[b] != 0))
      moves_.push_back({std::uint64_t{own} * link_.size() + b, link_[b] - link_[own]});
  }
  for (const std::uint32_t b : touched_)
    link_[b] = 0;
  link_[own] = 0;
}

std::vector<KwayRefiner::Pair>
KwayRefiner::promising_pairs(const std::vector<std::uint32_t> &block) {
  moves_.clear();
  for (std::uint32_t v = 0; v < graph_->vertices(); ++v)
    weigh_moves(v, block);
  // Of each direction between two blocks, only the best move counts.
  std::sort(moves_.begin(), moves_.end(), [](const Move &x, const Move &y) {
    return x.key < y.key || (x.key == y.key && x.gain > y.gain);
  });
  const auto same = [](const Move &x, const Move &y) { return x.key == y.key; };
  moves_.erase(std::unique(moves_.begin(), moves_.end(), same), moves_.end());
  const auto gain_of = [&](std::uint64_t key) {
    const auto at = std::lower_bound(moves_.begin(), moves_.end(), key,
                                     [](const Move &x, std::uint64_t k) { return x.key < k; });
    return at != moves_.end() && at->key == key ? at->gain : 0.0F;
  };
  std::vector<Pair> pairs;
  const std::uint64_t blocks = link_.size();
  for (const Move &move : moves_) {
    const auto a = static_cast<std::uint32_t>(move.key / blocks);
    const auto b = static_cast<std::uint32_t>(move.key % blocks);
    if (a < b)
      pairs.push_back({move.gain + gain_of(b * blocks + a), a, b});
  }
  std::sort(pairs.begin(), pairs.end(), [](const Pair &x, const Pair &y) {
    if (x.promise != y.promise)
      return x.promise > y.promise;
    return x.a < y.a || (x.a == y.a && x.b < y.b);
  });
  return pairs;
}

bool KwayRefiner::refine_pair(const Pair &pair, const std::vector<std::uint32_t> &capacity,
                              std::vector<std::uint32_t> &block) {
  extract(pair, block);
  double before = 0;
  for (std::uint32_t v = 0; v < both_.vertices(); ++v) {
    for (std::uint32_t e = both_.begin[v]; e < both_.begin[v + 1]; ++e)
      before += sides_[v] != sides_[both_.target[e]] ? both_.weight[e] : 0;
  }
  const std::uint32_t total = both_.vertices();
  const SizeRange range{total > capacity[pair.b] ? total - capacity[pair.b] : 0,
                        std::min(total, capacity[pair.a])};
  const double after = fm_.refine(both_, range, {1, 0}, sides_);
  if (fm_.missed_by() != 0 || !(after < 0.5 * before * (1 - 1e-6)))
    return false;
  members_[pair.a].clear();
  members_[pair.b].clear();
  for (std::uint32_t v = 0; v < total; ++v) {
    block[vertex_of_[v]] = sides_[v] == 0 ? pair.a : pair.b;
    members_[block[vertex_of_[v]]].push_back(vertex_of_[v]);
  }
  active_[pair.a] = active_[pair.b] = 1;
  return true;
}

void KwayRefiner::extract(const Pair &pair, const std::vector<std::uint32_t> &block) {
  vertex_of_.clear();
  sides_.clear();
  for (const std::uint32_t b : {pair.a, pair.b}) {
    for (const std::uint32_t v : members_[b]) {
      number_[v] = static_cast<std::uint32_t>(vertex_of_.size());
      vertex_of_.push_back(v);
      sides_.push_back(b == pair.a ? 0 : 1);
    }
  }
  both_.begin.assign(1, 0);
  both_.target.clear();
  both_.weight.clear();
  both_.size.assign(vertex_of_.size(), 1);
  for (const std::uint32_t v : vertex_of_) {
    work_ += graph_->begin[v + 1] - graph_->begin[v];
    for (std::uint32_t e = graph_->begin[v]; e < graph_->begin[v + 1]; ++e) {
      const std::uint32_t u = graph_->target[e];
      if (block[u] != pair.a && block[u] != pair.b)
        continue;
      both_.target.push_back(number_[u]);
      both_.weight.push_back(graph_->weight[e]);
    }
    both_.begin.push_back(static_cast<std::uint32_t>(both_.target.size()));
  }
}

} // namespace toposeat
