// Annealing a division into many equal blocks: single vertices move, sizes give way meanwhile.
//
// Johnson, Aragon, McGeoch, Schevon, Optimization by simulated annealing, part I, graph
// partitioning, Operations Research 37, 1989, with a price for the excess of a block in place of
// their penalty; noise is added to the gains, which is the heat-bath rule. docs/adr/0007 says what
// it is worth by graph.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.hpp"
#include "division/block_balance.hpp"
#include "division/part_graph.hpp"
#include "toposeat/base/deadline.hpp"

namespace toposeat {

/// Blocks 0..k-1 that are all as far from each other; `capacity[b]` is the most ranks of block b.
///
/// In every sweep each vertex goes to the block, among its own and its neighbours', with the
/// greatest sum of the vertex's weight into it, less a price for what its size misses, plus noise.
/// Noise falls exponentially; its scale, the temperature, falls linearly from sweep to sweep. The
/// price follows how far the sizes are off, which is led down too, from the more the more weight is
/// between blocks anyway: where parts are no regions, room to move pays. Compared with exchanges of
/// two vertices, which keep sizes exact but need both to fit at once, random graphs take tens of
/// times less time (docs/explanation/large-jobs.md).
class BlockAnnealer {
public:
  BlockAnnealer(std::uint64_t seed, const Deadline &deadline)
      : deadline_(deadline), rng_(seed ^ 0x2545f491U) {}

  /// Lowers the weight between blocks, or leaves `block` as it is and returns false. Every vertex
  /// is one rank; sizes are within the capacities before and after.
  bool anneal(const PartGraph &graph, const std::vector<std::uint32_t> &capacity,
              std::vector<std::uint32_t> &block);

private:
  struct Arc {
    std::uint32_t target;
    float weight;
  };

  void begin(const PartGraph &graph, std::size_t blocks, const std::vector<std::uint32_t> &block);
  void cool(float scale);
  void sweep(std::uint32_t number, float temperature);
  std::uint32_t choose(std::uint32_t v, float temperature);
  void move(std::uint32_t v, std::uint32_t to);
  [[nodiscard]] std::int64_t excess() const;
  float noise();

  Deadline deadline_;
  Rng rng_;
  BlockBalancer balancer_;
  const PartGraph *graph_ = nullptr;
  std::vector<std::uint32_t> block_;
  std::vector<Arc> arcs_;
  float price_ = 0;
  std::vector<std::int32_t> surplus_; // of each block: ranks more than in the beginning
  std::vector<float> due_;            // price x what one rank more adds to the square of that
  std::vector<float> margin_;         // of each vertex, a bound: its weight into its block less the
                                      // most into another one
  std::vector<float> link_;           // from a vertex to each block
  std::vector<std::uint32_t> touched_;
};

} // namespace toposeat
