// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division/block_annealing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace toposeat {
namespace {

// Chosen on the graphs of benchmarks/mapping/irregular_graphs.py: best costs at the time of Scotch.
constexpr double sweeps_at_one = 12; // times the root of the vertices
constexpr int most_sweeps = 1200;
constexpr float hottest = 0.55F;      // of the mean weight between blocks
constexpr float first_price = 1;      // of the same
constexpr float most_price = 64;      // the same: beyond, weights would drown in it
constexpr float price_step = 1.1F;    // from one sweep to the next
constexpr float excess_of_cut = 1.2F; // ranks too many per block at first, times the share cut
constexpr float most_noise = 4;       // exponential noise is greater in 2 % of all cases
constexpr std::uint32_t hub = 64;     // edges
constexpr float unknown = -std::numeric_limits<float>::infinity();
constexpr float barely = 1e-30F; // more than no weight

int sweeps_for(std::uint32_t vertices) {
  const double root = std::sqrt(static_cast<double>(vertices));
  return std::min(most_sweeps, static_cast<int>(sweeps_at_one * root));
}

/// Mean weight of the edges between blocks; 0 if there are none.
float mean_between(const PartGraph &graph, const std::vector<std::uint32_t> &block) {
  double sum = 0;
  double count = 0;
  for (std::uint32_t v = 0; v < graph.vertices(); ++v) {
    for (std::uint32_t e = graph.begin[v]; e < graph.begin[v + 1]; ++e) {
      if (block[v] == block[graph.target[e]])
        continue;
      sum += graph.weight[e];
      ++count;
    }
  }
  return count > 0 ? static_cast<float>(sum / count) : 0;
}

} // namespace

bool BlockAnnealer::anneal(const PartGraph &graph, const std::vector<std::uint32_t> &capacity,
                           std::vector<std::uint32_t> &block) {
  const float scale = mean_between(graph, block);
  if (!(scale > 0))
    return false;
  begin(graph, capacity.size(), block);
  cool(scale);
  std::vector<std::int32_t> spare(capacity.begin(), capacity.end());
  for (const std::uint32_t b : block_)
    --spare[b];
  balancer_.balance(graph, spare, block_);
  if (!(cut_of(graph, block_) < cut_of(graph, block)))
    return false;
  block = block_;
  return true;
}

void BlockAnnealer::begin(const PartGraph &graph, std::size_t blocks,
                          const std::vector<std::uint32_t> &block) {
  graph_ = &graph;
  block_ = block;
  surplus_.assign(blocks, 0);
  due_.assign(blocks, 0);
  link_.assign(blocks, 0);
  touched_.assign(blocks + 1, 0); // one more is written, not counted
  margin_.assign(graph.vertices(), unknown);
  arcs_.clear();
  arcs_.reserve(graph.target.size());
  for (std::size_t e = 0; e < graph.target.size(); ++e)
    arcs_.push_back({graph.target[e], graph.weight[e]});
}

void BlockAnnealer::cool(float scale) {
  const int sweeps = sweeps_for(graph_->vertices());
  const auto blocks = static_cast<float>(surplus_.size());
  const float excess_at_first = excess_of_cut * share_cut(*graph_, block_) * blocks;
  price_ = first_price * scale;
  for (int i = 0; i < sweeps && !deadline_.expired(); ++i) {
    const float left = 1 - static_cast<float>(i) / static_cast<float>(sweeps);
    sweep(static_cast<std::uint32_t>(i), hottest * scale * left);
    price_ = static_cast<float>(excess()) > excess_at_first * left
                 ? std::min(price_ * price_step, most_price * scale)
                 : price_ / price_step;
  }
}

/// Every vertex once, but those that no likely noise moves; hubs in some sweeps only, each in its
/// own, so that all vertices get about the same time.
void BlockAnnealer::sweep(std::uint32_t number, float temperature) {
  for (std::size_t b = 0; b < surplus_.size(); ++b)
    due_[b] = price_ * static_cast<float>(2 * surplus_[b] + 1);
  const float firm = most_noise * temperature;
  for (std::uint32_t v = 0; v < graph_->vertices(); ++v) {
    if (margin_[v] > firm)
      continue;
    const std::uint32_t degree = graph_->begin[v + 1] - graph_->begin[v];
    if (degree >= hub && (number + v) % (degree / (hub / 2)) != 0)
      continue;
    const std::uint32_t to = choose(v, temperature);
    if (to != block_[v])
      move(v, to);
  }
}

/// Minus the logarithm of a uniform number, taken as linear between powers of two: the same on
/// every platform. The difference of two of them decides nearly as Boltzmann's factor does.
inline float BlockAnnealer::noise() {
  constexpr float log_2 = 0.6931472F;
  const std::uint32_t bits = static_cast<std::uint32_t>(rng_.next() >> 32U) | 1U;
  const int zeros = std::countl_zero(bits);
  const std::uint32_t fraction = zeros == 31 ? 0 : bits << static_cast<unsigned>(zeros + 1);
  return log_2 * (static_cast<float>(zeros + 1) - static_cast<float>(fraction) * 0x1p-32F);
}

/// Sums the weights into each block, then compares; both loops avoid branches that are hard to
/// foresee, for most of the time of a large job is spent here.
std::uint32_t BlockAnnealer::choose(std::uint32_t v, float temperature) {
  const std::uint32_t own = block_[v];
  const std::uint32_t *const block = block_.data();
  float *const link = link_.data();
  std::uint32_t *const touched = touched_.data();
  std::size_t count = 0;
  link[own] = barely; // so that it is not listed
  const Arc *const end = arcs_.data() + graph_->begin[v + 1];
  for (const Arc *arc = arcs_.data() + graph_->begin[v]; arc != end; ++arc) {
    const std::uint32_t b = block[arc->target];
    const float before = link[b];
    touched[count] = b;
    count += before == 0 ? 1U : 0U;
    link[b] = before + arc->weight;
  }
  const float home = link[own];
  link[own] = 0;
  std::uint32_t best = own;
  float most = home - (due_[own] - 2 * price_) + temperature * noise(); // due as if it were not in
  float heaviest = 0;
  const float reach = most_noise * temperature;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t b = touched[i];
    const float here = link[b];
    link[b] = 0;
    heaviest = std::max(heaviest, here);
    const float value = here - due_[b];
    if (value + reach <= most)
      continue;
    const float noisy = value + temperature * noise();
    if (noisy > most) {
      most = noisy;
      best = b;
    }
  }
  margin_[v] = home - heaviest;
  return best;
}

/// Margins of the neighbours become bounds: what they have elsewhere grows by no more than the
/// weight of the edge.
void BlockAnnealer::move(std::uint32_t v, std::uint32_t to) {
  const std::uint32_t from = block_[v];
  --surplus_[from];
  ++surplus_[to];
  due_[from] -= 2 * price_;
  due_[to] += 2 * price_;
  block_[v] = to;
  margin_[v] = unknown;
  for (std::uint32_t e = graph_->begin[v]; e < graph_->begin[v + 1]; ++e) {
    const Arc &arc = arcs_[e];
    const std::uint32_t there = block_[arc.target];
    const float gained = there == to ? 1.0F : there == from ? -2.0F : -1.0F;
    margin_[arc.target] += gained * arc.weight;
  }
}

std::int64_t BlockAnnealer::excess() const {
  std::int64_t sum = 0;
  for (const std::int32_t surplus : surplus_)
    sum += std::max(0, surplus);
  return sum;
}

} // namespace toposeat
