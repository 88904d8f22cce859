// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division/block_balance.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace toposeat {
namespace {

constexpr std::size_t most_moves = 8; // of one path
constexpr std::uint32_t none = 0xffffffffU;
constexpr float unreached = -std::numeric_limits<float>::infinity();

} // namespace

void BlockBalancer::balance(const PartGraph &graph, std::vector<std::int32_t> &spare,
                            std::vector<std::uint32_t> &block) {
  graph_ = &graph;
  const auto too_full = [](std::int32_t each) { return each < 0; };
  while (std::any_of(spare.begin(), spare.end(), too_full)) {
    link_.assign(spare.size(), 0);
    step_to_.assign(spare.size(), none);
    find_steps(block);
    find_paths(spare);
    if (!take_paths(spare, block)) {
      move_anywhere(spare, block);
      return;
    }
  }
}

/// The best move between every two blocks with an edge between them.
void BlockBalancer::find_steps(const std::vector<std::uint32_t> &block) {
  by_block_.resize(block.size());
  std::iota(by_block_.begin(), by_block_.end(), 0U);
  std::sort(by_block_.begin(), by_block_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return block[a] < block[b] || (block[a] == block[b] && a < b);
  });
  steps_.clear();
  std::size_t row = 0;
  for (std::size_t i = 0; i < by_block_.size(); ++i) {
    add_steps(by_block_[i], block);
    const bool last = i + 1 == by_block_.size() || block[by_block_[i + 1]] != block[by_block_[i]];
    for (; last && row < steps_.size(); ++row)
      step_to_[steps_[row].to] = none;
  }
}

void BlockBalancer::add_steps(std::uint32_t v, const std::vector<std::uint32_t> &block) {
  const std::uint32_t own = block[v];
  touched_.clear();
  for (std::uint32_t e = graph_->begin[v]; e < graph_->begin[v + 1]; ++e) {
    const std::uint32_t b = block[graph_->target[e]];
    if (link_[b] == 0 && b != own)
      touched_.push_back(b);
    link_[b] += graph_->weight[e];
  }
  for (const std::uint32_t b : touched_) {
    const float gain = link_[b] - link_[own];
    link_[b] = 0;
    if (step_to_[b] == none) {
      step_to_[b] = static_cast<std::uint32_t>(steps_.size());
      steps_.push_back({own, b, v, gain});
    } else if (gain > steps_[step_to_[b]].gain) {
      steps_[step_to_[b]].vertex = v;
      steps_[step_to_[b]].gain = gain;
    }
  }
  link_[own] = 0;
}

/// From all blocks that are too full at once, by one move more in each round.
void BlockBalancer::find_paths(const std::vector<std::int32_t> &spare) {
  reached_.assign(most_moves + 1, std::vector<Reached>(spare.size(), {unreached, none}));
  for (std::size_t b = 0; b < spare.size(); ++b)
    reached_[0][b].gain = spare[b] < 0 ? 0 : unreached;
  for (std::size_t moves = 0; moves < most_moves; ++moves) {
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      const float gain = reached_[moves][steps_[s].from].gain + steps_[s].gain;
      if (gain > reached_[moves + 1][steps_[s].to].gain)
        reached_[moves + 1][steps_[s].to] = {gain, s};
    }
  }
}

/// Paths to blocks with room that share no block, best first. False if there is none.
bool BlockBalancer::take_paths(std::vector<std::int32_t> &spare,
                               std::vector<std::uint32_t> &block) {
  struct End {
    float gain;
    std::uint32_t moves;
    std::uint32_t block;
  };
  std::vector<End> ends;
  for (std::uint32_t moves = 1; moves <= most_moves; ++moves) {
    for (std::uint32_t b = 0; b < spare.size(); ++b) {
      if (spare[b] > 0 && reached_[moves][b].gain != unreached)
        ends.push_back({reached_[moves][b].gain, moves, b});
    }
  }
  std::sort(ends.begin(), ends.end(), [](const End &x, const End &y) {
    if (x.gain != y.gain)
      return x.gain > y.gain;
    return x.moves < y.moves || (x.moves == y.moves && x.block < y.block);
  });
  used_.assign(spare.size(), 0);
  bool any = false;
  for (const End &end : ends)
    any = take_path(end.moves, end.block, spare, block) || any;
  return any;
}

/// False if the path meets one that was taken, or itself.
bool BlockBalancer::take_path(std::size_t moves, std::uint32_t end,
                              std::vector<std::int32_t> &spare, std::vector<std::uint32_t> &block) {
  std::vector<std::uint32_t> path; // steps, the last one first
  std::vector<std::uint32_t> through{end};
  for (; moves > 0; --moves) {
    path.push_back(reached_[moves][through.back()].last_step);
    through.push_back(steps_[path.back()].from);
  }
  const std::uint32_t start = through.back();
  std::sort(through.begin(), through.end());
  const bool met =
      std::adjacent_find(through.begin(), through.end()) != through.end() ||
      std::any_of(through.begin(), through.end(), [&](std::uint32_t b) { return used_[b] != 0; });
  if (met)
    return false;
  for (const std::uint32_t b : through)
    used_[b] = 1;
  for (const std::uint32_t s : path)
    block[steps_[s].vertex] = steps_[s].to;
  ++spare[start];
  --spare[end];
  return true;
}

/// Ranks too many that no path leads away: each to any block with room.
void BlockBalancer::move_anywhere(std::vector<std::int32_t> &spare,
                                  std::vector<std::uint32_t> &block) const {
  std::size_t room = 0;
  for (std::uint32_t &own : block) {
    if (spare[own] >= 0)
      continue;
    while (spare[room] <= 0)
      ++room;
    ++spare[own];
    --spare[room];
    own = static_cast<std::uint32_t>(room);
  }
}

} // namespace toposeat
