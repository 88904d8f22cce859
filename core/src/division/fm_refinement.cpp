// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division/fm_refinement.hpp"

#include <algorithm>
#include <bit>

namespace toposeat {
namespace {

constexpr int most_passes = 4;
constexpr std::uint32_t clock_every = 64; // moves between two looks at the clock
constexpr double epsilon = 1e-6; // of the cut: single precision gains do not add up exactly

/// Moves without a better state after which a pass ends.
std::size_t patience(std::uint32_t vertices) {
  return std::clamp<std::size_t>(vertices / 20, 15, 150);
}

} // namespace

FmRefiner::Entry FmRefiner::entry(std::uint32_t v) const {
  const auto bits = std::bit_cast<std::uint32_t>(gain_[v]);
  // The usual order of floats as unsigned numbers: negative ones reversed, below the others.
  const std::uint32_t key = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (Entry{key} << 32) | (0xffffffffU - v);
}

std::uint32_t FmRefiner::vertex_of(Entry entry) {
  return 0xffffffffU - static_cast<std::uint32_t>(entry);
}

double FmRefiner::refine(const PartGraph &graph, const SizeRange &range, const Slack &slack,
                         Sides &sides) {
  range_ = range;
  start(graph, sides);
  for (int i = 0; i < most_passes && !deadline_.expired() && pass(sides, slack); ++i)
    continue;
  return cut_;
}

void FmRefiner::start(const PartGraph &graph, const Sides &sides) {
  graph_ = &graph;
  gain_.assign(graph.vertices(), 0);
  first_size_ = 0;
  cut_ = 0;
  for (std::uint32_t v = 0; v < graph.vertices(); ++v) {
    float gain = 0;
    for (std::uint32_t e = graph.begin[v]; e < graph.begin[v + 1]; ++e) {
      const bool across = sides[graph.target[e]] != sides[v];
      gain += across ? graph.weight[e] : -graph.weight[e];
      cut_ += across ? graph.weight[e] : 0.0F;
    }
    gain_[v] = gain;
    first_size_ += sides[v] == 0 ? graph.size[v] : 0;
  }
  cut_ /= 2; // seen from both ends
}

void FmRefiner::grow(const PartGraph &graph, const SizeRange &range, std::uint32_t seed,
                     Sides &sides) {
  range_ = range;
  sides.assign(graph.vertices(), 1);
  start(graph, sides);
  moved_.assign(graph.vertices(), 0);
  heap_[0].clear();
  heap_[1].clear();
  filled_ = {true, false};
  push(seed, 1);
  std::uint32_t tried = 0;
  while (first_size_ < range.least && settle_top(1, sides)) {
    if (++tried % clock_every == 0 && deadline_.expired())
      return;
    const std::uint32_t v = vertex_of(heap_[1].front());
    moved_[v] = 1;
    // A vertex too large to fit is passed over while smaller ones may still come.
    if (first_size_ + graph.size[v] > range.most &&
        first_size_ + graph.size[v] - range.most > range.least - first_size_)
      continue;
    move(v, sides);
  }
}

bool FmRefiner::pass(Sides &sides, const Slack &slack) {
  const std::uint32_t n = graph_->vertices();
  moved_.assign(n, 0);
  trail_.clear();
  heap_[0].clear();
  heap_[1].clear();
  filled_ = {false, false};
  for (std::uint32_t v = 0; v < n; ++v) {
    for (std::uint32_t e = graph_->begin[v]; e < graph_->begin[v + 1]; ++e) {
      if (sides[graph_->target[e]] != sides[v]) { // on the boundary
        heap_[sides[v]].push_back(entry(v));
        break;
      }
    }
  }
  std::make_heap(heap_[0].begin(), heap_[0].end());
  std::make_heap(heap_[1].begin(), heap_[1].end());
  const State before = state(slack);
  State best = before;
  std::size_t kept = 0;
  const std::size_t most_idle = patience(n);
  while (trail_.size() < kept + most_idle) {
    const int side = choose_side(sides, slack);
    if (side < 0 || ((trail_.size() + 1) % clock_every == 0 && deadline_.expired()))
      break;
    const std::uint32_t v = vertex_of(heap_[static_cast<std::size_t>(side)].front());
    moved_[v] = 1;
    trail_.push_back(v);
    move(v, sides);
    const State now = state(slack);
    if (now.missed < best.missed ||
        (now.missed == best.missed && now.cut < best.cut - epsilon * best.cut)) {
      best = now;
      kept = trail_.size();
    }
  }
  undo(kept, sides);
  return kept > 0 && best.better_than(before);
}

FmRefiner::State FmRefiner::state(const Slack &slack) const {
  const std::uint32_t missed = range_.missed_by(first_size_);
  return {missed > slack.accept ? missed : 0, cut_};
}

void FmRefiner::push(std::uint32_t v, std::uint8_t side) {
  heap_[side].push_back(entry(v));
  std::push_heap(heap_[side].begin(), heap_[side].end());
}

/// All vertices of a side, for when its boundary is used up but its size is not right yet.
void FmRefiner::fill(std::uint8_t side, const Sides &sides) {
  filled_[side] = true;
  for (std::uint32_t v = 0; v < graph_->vertices(); ++v) {
    if (sides[v] == side && moved_[v] == 0)
      heap_[side].push_back(entry(v));
  }
  std::make_heap(heap_[side].begin(), heap_[side].end());
}

/// Brings a valid entry to the top; false if there is none.
bool FmRefiner::settle_top(std::uint8_t side, const Sides &sides) {
  std::vector<Entry> &heap = heap_[side];
  while (true) {
    while (!heap.empty()) {
      const Entry top = heap.front();
      const std::uint32_t v = vertex_of(top);
      const bool movable = moved_[v] == 0 && sides[v] == side;
      const Entry now = entry(v);
      if (movable && now == top)
        return true;
      std::pop_heap(heap.begin(), heap.end());
      if (movable && now < top) { // it fell since; those that rose have a newer entry
        heap.back() = now;
        std::push_heap(heap.begin(), heap.end());
      } else {
        heap.pop_back();
      }
    }
    if (filled_[side])
      return false;
    fill(side, sides);
  }
}

bool FmRefiner::allowed(std::uint32_t v, std::uint8_t side, const Slack &slack) const {
  const std::uint32_t size = graph_->size[v];
  const std::uint32_t after = side == 0 ? first_size_ - size : first_size_ + size;
  const std::uint32_t missed = range_.missed_by(after);
  return missed <= slack.search || missed < range_.missed_by(first_size_);
}

/// The side whose best vertex is to move next; -1: none may.
int FmRefiner::choose_side(const Sides &sides, const Slack &slack) {
  const bool too_large = first_size_ > range_.most + slack.accept;
  const bool too_small = first_size_ + slack.accept < range_.least;
  int best = -1;
  for (const std::uint8_t side : {std::uint8_t{0}, std::uint8_t{1}}) {
    if ((too_large && side == 1) || (too_small && side == 0))
      continue;
    while (settle_top(side, sides) && !allowed(vertex_of(heap_[side].front()), side, slack)) {
      std::pop_heap(heap_[side].begin(), heap_[side].end());
      heap_[side].pop_back();
      if (!too_large && !too_small)
        break; // one that does not fit now may fit after the other side has moved
    }
    if (heap_[side].empty() || !settle_top(side, sides) ||
        !allowed(vertex_of(heap_[side].front()), side, slack))
      continue;
    if (best < 0 || heap_[static_cast<std::size_t>(best)].front() < heap_[side].front())
      best = side;
  }
  return best;
}

/// Changes a vertex's side, and what its neighbours would gain.
void FmRefiner::flip(std::uint32_t v, Sides &sides) {
  const std::uint8_t from = sides[v];
  const auto to = static_cast<std::uint8_t>(1 - from);
  sides[v] = to;
  first_size_ = from == 0 ? first_size_ - graph_->size[v] : first_size_ + graph_->size[v];
  cut_ -= gain_[v];
  gain_[v] = -gain_[v];
  for (std::uint32_t e = graph_->begin[v]; e < graph_->begin[v + 1]; ++e) {
    const std::uint32_t u = graph_->target[e];
    gain_[u] += sides[u] == to ? -2 * graph_->weight[e] : 2 * graph_->weight[e];
  }
}

void FmRefiner::move(std::uint32_t v, Sides &sides) {
  flip(v, sides);
  for (std::uint32_t e = graph_->begin[v]; e < graph_->begin[v + 1]; ++e) {
    const std::uint32_t u = graph_->target[e];
    if (moved_[u] == 0 && sides[u] != sides[v]) // others gain less now: see settle_top
      push(u, sides[u]);
  }
}

void FmRefiner::undo(std::size_t kept, Sides &sides) {
  while (trail_.size() > kept) {
    flip(trail_.back(), sides);
    trail_.pop_back();
  }
}

} // namespace toposeat
