// Bringing the sizes of blocks within their capacities along paths of moves.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "division/part_graph.hpp"

namespace toposeat {

/// A rank too many goes to the next block, one of that to the next, and so on to a block with room
/// (as in Sanders, Schulz, SEA 2013): where a graph has structure, that costs much less than moving
/// one rank all the way.
class BlockBalancer {
public:
  /// `spare[b]` is the capacity of block b less its size; they must add up to 0 or more. In the end
  /// none is negative. Every vertex is one rank.
  void balance(const PartGraph &graph, std::vector<std::int32_t> &spare,
               std::vector<std::uint32_t> &block);

private:
  struct Step { // the best move from one block to another
    std::uint32_t from;
    std::uint32_t to;
    std::uint32_t vertex;
    float gain;
  };
  struct Reached { // the best path of some number of moves to a block
    float gain;
    std::uint32_t last_step;
  };

  void find_steps(const std::vector<std::uint32_t> &block);
  void add_steps(std::uint32_t v, const std::vector<std::uint32_t> &block);
  void find_paths(const std::vector<std::int32_t> &spare);
  bool take_paths(std::vector<std::int32_t> &spare, std::vector<std::uint32_t> &block);
  bool take_path(std::size_t moves, std::uint32_t end, std::vector<std::int32_t> &spare,
                 std::vector<std::uint32_t> &block);
  void move_anywhere(std::vector<std::int32_t> &spare, std::vector<std::uint32_t> &block) const;

  const PartGraph *graph_ = nullptr;
  std::vector<std::uint32_t> by_block_; // vertices, those of a block in a row
  std::vector<Step> steps_;
  std::vector<std::uint32_t> step_to_; // of each block, in the row of steps that is being built
  std::vector<float> link_;            // from a vertex to each block
  std::vector<std::uint32_t> touched_;
  std::vector<std::vector<Reached>> reached_; // by number of moves, then block
  std::vector<std::uint8_t> used_;            // blocks that a path goes through already
};

} // namespace toposeat
