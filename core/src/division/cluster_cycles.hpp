// Cyclic exchanges of clusters of ranks between blocks: Thompson, Psaraftis, Cyclic transfer
// algorithms for multivehicle routing and scheduling problems, Operations Research 41, 1993.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "division/part_graph.hpp"
#include "toposeat/base/deadline.hpp"

namespace toposeat {

/// Tiles of a grid, several of which share a node, are too heavy to be moved rank by rank, and the
/// best ones to exchange may be many nodes apart: where two tiles have been left over, every pair
/// between them has to change partners. So each of some clusters takes the place of the next, in
/// another block, and the last that of the first (Thompson, Psaraftis, Operations Research 1993).
class ClusterCycles {
public:
  explicit ClusterCycles(const Deadline &deadline) : deadline_(deadline) {}

  /// Lowers the weight between blocks; true if it did. `cluster[v]` is that of vertex v, numbered
  /// from 0; all of a cluster are in one block. A cycle goes through `longest` blocks at most.
  /// Sizes of blocks stay within `capacity`. Every vertex is one rank.
  bool improve(const PartGraph &graph, const std::vector<std::uint32_t> &cluster,
               const std::vector<std::uint32_t> &capacity, std::size_t longest,
               std::vector<std::uint32_t> &block);

private:
  struct Arc {
    std::uint32_t target;
    float weight;
  };
  struct Label { // the cluster that has lost its place after some moves
    std::uint32_t cluster;
    std::uint32_t before; // number of the label it was driven out from
    float gain;           // of all moves so far
  };

  bool out_of_time();
  void gather(const PartGraph &graph, const std::vector<std::uint32_t> &cluster,
              const std::vector<std::uint32_t> &block);
  void collect(std::uint32_t c);
  bool improve_from(std::uint32_t first);
  void extend(std::uint32_t label, std::size_t moves);
  void drive_out(std::uint32_t label, std::uint32_t block, float home);
  void apply(std::uint32_t label);
  [[nodiscard]] bool passed(std::uint32_t label, std::uint32_t block) const;
  [[nodiscard]] bool fits(std::uint32_t comes, std::uint32_t goes) const;
  [[nodiscard]] std::span<const Arc> arcs(std::uint32_t c) const {
    return {arcs_.data() + begin_[c], arcs_.data() + begin_[c + std::size_t{1}]};
  }

  Deadline deadline_;
  std::vector<std::uint32_t> begin_; // rows of the graph of clusters
  std::vector<Arc> arcs_;
  std::vector<std::uint32_t> size_;              // of each cluster
  std::vector<std::uint32_t> block_;             // of each cluster
  std::vector<std::vector<std::uint32_t>> here_; // clusters of each block
  std::vector<std::int64_t> spare_;              // of each block
  std::vector<float> link_;                      // from the cluster looked at to each block
  std::vector<float> weight_to_;                 // from the same to each cluster
  std::vector<std::uint32_t> touched_;
  std::vector<Label> labels_;
  std::vector<float> most_;             // of each cluster: the greatest gain of its labels
  std::vector<std::uint32_t> labelled_; // clusters that have one
  std::uint32_t closing_ = 0;           // the label from which closing the cycle gains most
  float closed_ = 0;                    // that gain
  float least_ = 0;                     // gain that is one
  std::size_t longest_ = 0;
  std::uint64_t most_looked_at_ = 0;
  std::uint64_t look_at_clock_ = 0; // at so many
  std::uint64_t looked_at_ = 0;     // arcs
};

} // namespace toposeat
