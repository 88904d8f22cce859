// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division/cluster_cycles.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace toposeat {
namespace {

constexpr std::uint32_t nobody = 0xffffffffU;
constexpr std::uint64_t work_per_arc = 200; // bounds the time where gains are many and small
constexpr std::uint64_t clock_every = 20000;
constexpr float negligible = 1e-5F; // of the heaviest weight between clusters

} // namespace

bool ClusterCycles::improve(const PartGraph &graph, const std::vector<std::uint32_t> &cluster,
                            const std::vector<std::uint32_t> &capacity, std::size_t longest,
                            std::vector<std::uint32_t> &block) {
  here_.assign(capacity.size(), {});
  spare_.assign(capacity.begin(), capacity.end());
  link_.assign(capacity.size(), 0);
  gather(graph, cluster, block);
  const auto clusters = static_cast<std::uint32_t>(size_.size());
  most_.assign(clusters, 0);
  weight_to_.assign(clusters, 0);
  longest_ = longest;
  looked_at_ = look_at_clock_ = 0;
  most_looked_at_ = work_per_arc * (arcs_.size() + clusters);
  bool improved = false;
  for (bool again = true; again;) {
    again = false;
    for (std::uint32_t c = 0; c < clusters; ++c) {
      if (out_of_time())
        break;
      again |= improve_from(c);
    }
    improved |= again;
  }
  if (!improved)
    return false;
  std::vector<std::uint32_t> after(graph.vertices());
  for (std::uint32_t v = 0; v < graph.vertices(); ++v)
    after[v] = block_[cluster[v]];
  // Gains are rounded: of one who talks to very many, a little may be less than nothing.
  if (!(cut_of(graph, after) < cut_of(graph, block)))
    return false;
  block = std::move(after);
  return true;
}

/// By what was looked at, not by clusters: one of them may talk to all others.
bool ClusterCycles::out_of_time() {
  if (looked_at_ < look_at_clock_)
    return false;
  if (looked_at_ > most_looked_at_ || deadline_.expired())
    return true;
  look_at_clock_ = looked_at_ + clock_every;
  return false;
}

/// The graph whose vertices are the clusters.
void ClusterCycles::gather(const PartGraph &graph, const std::vector<std::uint32_t> &cluster,
                           const std::vector<std::uint32_t> &block) {
  const std::size_t clusters =
      cluster.empty() ? 0 : *std::max_element(cluster.begin(), cluster.end()) + std::size_t{1};
  size_.assign(clusters, 0);
  block_.assign(clusters, 0);
  std::vector<std::uint32_t> by_cluster(graph.vertices());
  std::iota(by_cluster.begin(), by_cluster.end(), 0U);
  std::sort(by_cluster.begin(), by_cluster.end(), [&](std::uint32_t a, std::uint32_t b) {
    return cluster[a] < cluster[b] || (cluster[a] == cluster[b] && a < b);
  });
  begin_.assign(1, 0);
  arcs_.clear();
  std::vector<std::uint32_t> seen_at(clusters, nobody);
  auto next = by_cluster.begin();
  float heaviest = 0;
  for (std::uint32_t c = 0; c < clusters; ++c) {
    const std::size_t row = arcs_.size();
    for (; next != by_cluster.end() && cluster[*next] == c; ++next) {
      ++size_[c];
      block_[c] = block[*next];
      for (std::uint32_t e = graph.begin[*next]; e < graph.begin[*next + std::size_t{1}]; ++e) {
        const std::uint32_t to = cluster[graph.target[e]];
        if (to == c)
          continue;
        if (seen_at[to] == nobody || seen_at[to] < row) {
          seen_at[to] = static_cast<std::uint32_t>(arcs_.size());
          arcs_.push_back({to, 0});
        }
        arcs_[seen_at[to]].weight += graph.weight[e];
      }
    }
    for (std::size_t e = row; e < arcs_.size(); ++e)
      heaviest = std::max(heaviest, arcs_[e].weight);
    begin_.push_back(static_cast<std::uint32_t>(arcs_.size()));
    if (size_[c] == 0)
      continue;
    here_[block_[c]].push_back(c);
    spare_[block_[c]] -= size_[c];
  }
  least_ = negligible * heaviest;
}

/// What c says to each block and cluster. Whoever asks sets that back to 0.
void ClusterCycles::collect(std::uint32_t c) {
  touched_.clear();
  for (const Arc &arc : arcs(c)) {
    const std::uint32_t b = block_[arc.target];
    if (link_[b] == 0)
      touched_.push_back(b);
    link_[b] += arc.weight;
    weight_to_[arc.target] = arc.weight;
  }
  looked_at_ += arcs(c).size();
}

/// Of all cycles that begin with this cluster and never lose on the way, the one that gains most.
/// Any cycle that gains can be begun at such a place.
bool ClusterCycles::improve_from(std::uint32_t first) {
  labels_.assign(1, {first, nobody, 0});
  closed_ = least_;
  closing_ = nobody;
  std::size_t round = 0; // the first label of this number of moves
  for (std::size_t moves = 0; moves < longest_ && round < labels_.size() && !out_of_time();
       ++moves) {
    const std::size_t end = labels_.size();
    for (; round < end && !out_of_time(); ++round)
      extend(static_cast<std::uint32_t>(round), moves);
  }
  for (const std::uint32_t c : labelled_)
    most_[c] = 0;
  labelled_.clear();
  if (closing_ == nobody)
    return false;
  apply(closing_);
  return true;
}

/// Tries all places for the cluster that has none.
void ClusterCycles::extend(std::uint32_t label, std::size_t moves) {
  const std::uint32_t c = labels_[label].cluster;
  collect(c);
  const float home = link_[block_[c]];
  if (moves > 0) {
    // The place that the first one left, of which only the others in the block count.
    const std::uint32_t first = labels_[0].cluster;
    const float gain = labels_[label].gain - home + link_[block_[first]] - weight_to_[first];
    if (gain > closed_ && fits(c, first)) {
      closed_ = gain;
      closing_ = label;
    }
  }
  for (const std::uint32_t b : touched_) {
    if (labels_[label].gain - home + link_[b] > least_ && !passed(label, b))
      drive_out(label, b, home);
  }
  for (const Arc &arc : arcs(c)) {
    link_[block_[arc.target]] = 0;
    weight_to_[arc.target] = 0;
  }
}

/// The cluster that has none takes the place of each in a block, if more is gained by that than by
/// the paths found before.
void ClusterCycles::drive_out(std::uint32_t label, std::uint32_t block, float home) {
  const std::uint32_t c = labels_[label].cluster;
  looked_at_ += here_[block].size();
  for (const std::uint32_t other : here_[block]) {
    const float gain = labels_[label].gain - home + link_[block] - weight_to_[other];
    if (!(gain > std::max(least_, most_[other] + least_)) || !fits(c, other))
      continue;
    if (most_[other] == 0)
      labelled_.push_back(other);
    most_[other] = gain;
    labels_.push_back({other, label, gain});
  }
}

bool ClusterCycles::passed(std::uint32_t label, std::uint32_t block) const {
  for (; label != nobody; label = labels_[label].before) {
    if (block_[labels_[label].cluster] == block)
      return true;
  }
  return false;
}

bool ClusterCycles::fits(std::uint32_t comes, std::uint32_t goes) const {
  return std::int64_t{size_[comes]} - size_[goes] <= spare_[block_[goes]];
}

void ClusterCycles::apply(std::uint32_t label) {
  std::uint32_t freed = block_[labels_[0].cluster]; // where the last one goes
  for (; label != nobody; label = labels_[label].before) {
    const std::uint32_t c = labels_[label].cluster;
    const std::uint32_t left = block_[c];
    std::erase(here_[left], c);
    here_[freed].push_back(c);
    spare_[left] += size_[c];
    spare_[freed] -= size_[c];
    block_[c] = freed;
    freed = left;
  }
}

} // namespace toposeat
