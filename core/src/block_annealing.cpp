// SPDX-License-Identifier: MIT OR Apache-2.0
#include "block_annealing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace toposeat {
namespace {

// Chosen on the graphs of benchmarks/mapping/irregular_graphs.py: best costs at the time of Scotch.
constexpr double sweeps_at_one = 68; // times the fourth root of the vertices
constexpr int most_sweeps = 900;
constexpr float hottest = 0.6F;          // of the mean weight between blocks
constexpr float first_price = 1;         // of the same
constexpr float most_price = 64;         // the same: beyond, weights would drown in it
constexpr float price_step = 1.1F;       // from one sweep to the next
constexpr float excess_per_block = 0.3F; // in the beginning
constexpr float most_noise = 4;          // exponential noise is greater in 2 % of all cases
constexpr std::uint32_t hub = 64;        // edges
constexpr float unknown = -std::numeric_limits<float>::infinity();

int sweeps_for(std::uint32_t vertices) {
  const double root = std::sqrt(std::sqrt(static_cast<double>(vertices)));
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
  link_.assign(blocks, 0);
  margin_.assign(graph.vertices(), unknown);
}

void BlockAnnealer::cool(float scale) {
  const int sweeps = sweeps_for(graph_->vertices());
  float price = first_price * scale;
  for (int i = 0; i < sweeps && !deadline_.expired(); ++i) {
    const float left = 1 - static_cast<float>(i) / static_cast<float>(sweeps);
    sweep(static_cast<std::uint32_t>(i), hottest * scale * left, price);
    const float aim = excess_per_block * left * static_cast<float>(surplus_.size());
    price = static_cast<float>(excess()) > aim ? std::min(price * price_step, most_price * scale)
                                               : price / price_step;
  }
}

/// Every vertex once, but those that no likely noise moves; hubs in some sweeps only, each in its
/// own, so that all vertices get about the same time.
void BlockAnnealer::sweep(std::uint32_t number, float temperature, float price) {
  const float firm = most_noise * temperature;
  for (std::uint32_t v = 0; v < graph_->vertices(); ++v) {
    if (margin_[v] > firm)
      continue;
    const std::uint32_t degree = graph_->begin[v + 1] - graph_->begin[v];
    if (degree >= hub && (number + v) % (degree / (hub / 2)) != 0)
      continue;
    const std::uint32_t to = choose(v, temperature, price);
    if (to != block_[v])
      move(v, to);
  }
}

std::uint32_t BlockAnnealer::choose(std::uint32_t v, float temperature, float price) {
  touched_.clear();
  const std::uint32_t own = block_[v];
  for (std::uint32_t e = graph_->begin[v]; e < graph_->begin[v + 1]; ++e) {
    const std::uint32_t b = block_[graph_->target[e]];
    if (link_[b] == 0 && b != own)
      touched_.push_back(b);
    link_[b] += graph_->weight[e];
  }
  // Squares of what sizes miss are priced: so much the vertex adds to that of a block.
  const auto due = [&](std::int32_t surplus_without) {
    return price * static_cast<float>(2 * surplus_without + 1);
  };
  std::uint32_t best = own;
  float most = link_[own] - due(surplus_[own] - 1) + temperature * noise();
  float heaviest = 0;
  for (const std::uint32_t b : touched_) {
    heaviest = std::max(heaviest, link_[b]);
    const float value = link_[b] - due(surplus_[b]);
    link_[b] = 0;
    if (value + most_noise * temperature <= most)
      continue;
    const float noisy = value + temperature * noise();
    if (noisy > most) {
      most = noisy;
      best = b;
    }
  }
  margin_[v] = link_[own] - heaviest;
  link_[own] = 0;
  return best;
}

void BlockAnnealer::move(std::uint32_t v, std::uint32_t to) {
  --surplus_[block_[v]];
  ++surplus_[to];
  block_[v] = to;
  margin_[v] = unknown;
  for (std::uint32_t e = graph_->begin[v]; e < graph_->begin[v + 1]; ++e)
    margin_[graph_->target[e]] = unknown;
}

std::int64_t BlockAnnealer::excess() const {
  std::int64_t sum = 0;
  for (const std::int32_t surplus : surplus_)
    sum += std::max(0, surplus);
  return sum;
}

/// Minus the logarithm of a uniform number, taken as linear between powers of two: the same on
/// every platform. The difference of two of them decides nearly as Boltzmann's factor does.
float BlockAnnealer::noise() {
  constexpr float log_2 = 0.6931472F;
  const std::uint32_t bits = static_cast<std::uint32_t>(rng_.next() >> 32U) | 1U;
  const int zeros = std::countl_zero(bits);
  const std::uint32_t fraction = zeros == 31 ? 0 : bits << static_cast<unsigned>(zeros + 1);
  return log_2 * (static_cast<float>(zeros + 1) - static_cast<float>(fraction) * 0x1p-32F);
}

} // namespace toposeat
