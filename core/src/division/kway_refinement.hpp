// Refinement between more than two blocks: FM between two of them at a time, those first where
// single moves promise most (Sanders, Schulz, Engineering multilevel graph partitioning algorithms,
// ESA 2011).
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "division/fm_refinement.hpp"
#include "division/part_graph.hpp"
#include "toposeat/base/deadline.hpp"

namespace toposeat {

/// Blocks 0..k-1 that are all as far from each other; `capacity[b]` is the most ranks of block b.
class KwayRefiner {
public:
  explicit KwayRefiner(const Deadline &deadline) : deadline_(deadline), fm_(deadline) {}

  /// Lowers the weight between blocks by FM between two of them at a time (as KaFFPa does:
  /// Sanders, Schulz, ESA 2011), those first where single moves promise most. Sizes stay within the
  /// capacities. Every vertex stands for one rank. At the deadline, what is there stays.
  void refine(const PartGraph &graph, const std::vector<std::uint32_t> &capacity,
              std::vector<std::uint32_t> &block);

private:
  struct Pair {
    float promise;
    std::uint32_t a;
    std::uint32_t b;
  };

  [[nodiscard]] std::vector<Pair> promising_pairs(const std::vector<std::uint32_t> &block);
  void weigh_moves(std::uint32_t v, const std::vector<std::uint32_t> &block);
  bool refine_pair(const Pair &pair, const std::vector<std::uint32_t> &capacity,
                   std::vector<std::uint32_t> &block);
  void extract(const Pair &pair, const std::vector<std::uint32_t> &block);

  Deadline deadline_;
  const PartGraph *graph_ = nullptr;
  std::vector<std::vector<std::uint32_t>> members_; // of each block
  std::vector<std::uint8_t> active_;                // block changed since its last turn
  std::vector<float> link_;                         // weight from a vertex to each block
  std::vector<std::uint32_t> touched_;
  struct Move {
    std::uint64_t key; // from block x blocks + to block
    float gain;
  };
  std::vector<Move> moves_;
  FmRefiner fm_;
  PartGraph both_;
  std::vector<std::uint32_t> vertex_of_; // of each vertex of `both_`
  std::vector<std::uint32_t> number_;    // the inverse
  Sides sides_;
  std::uint64_t work_ = 0; // arcs looked at
};

} // namespace toposeat
