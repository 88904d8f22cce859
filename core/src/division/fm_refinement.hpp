// Moving single vertices between two sides: Fiduccia, Mattheyses, A linear-time heuristic for
// improving network partitions, DAC 1982, with a heap instead of buckets, for weights are not
// whole; and growing a side greedily.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "division/part_graph.hpp"
#include "toposeat/base/deadline.hpp"

namespace toposeat {

/// How far the size of side 0 may miss its range: while moving, and in a result.
struct Slack {
  std::uint32_t search = 0;
  std::uint32_t accept = 0;
};

class FmRefiner {
public:
  /// At the deadline a call returns what it has; sizes may then miss their range.
  explicit FmRefiner(const Deadline &deadline) : deadline_(deadline) {}

  /// Lowers the cut; a cut whose sizes miss the range by more than `slack.accept` counts as worse
  /// than any that does not. Returns the weight of the cut.
  double refine(const PartGraph &graph, const SizeRange &range, const Slack &slack, Sides &sides);

  /// Everything on side 1, then side 0 grown from `seed` by the vertex that adds least to the cut.
  void grow(const PartGraph &graph, const SizeRange &range, std::uint32_t seed, Sides &sides);

  [[nodiscard]] std::uint32_t missed_by() const { return range_.missed_by(first_size_); }

private:
  /// Gain and vertex as one number that sorts by gain, then by falling vertex.
  using Entry = std::uint64_t;

  struct State {
    std::uint32_t missed;
    double cut;
    [[nodiscard]] bool better_than(const State &other) const {
      return missed < other.missed || (missed == other.missed && cut < other.cut);
    }
  };

  [[nodiscard]] Entry entry(std::uint32_t v) const;
  static std::uint32_t vertex_of(Entry entry);
  bool pass(Sides &sides, const Slack &slack);
  void start(const PartGraph &graph, const Sides &sides);
  void push(std::uint32_t v, std::uint8_t side);
  void fill(std::uint8_t side, const Sides &sides);
  bool settle_top(std::uint8_t side, const Sides &sides);
  int choose_side(const Sides &sides, const Slack &slack);
  [[nodiscard]] bool allowed(std::uint32_t v, std::uint8_t side, const Slack &slack) const;
  void flip(std::uint32_t v, Sides &sides);
  void move(std::uint32_t v, Sides &sides);
  void undo(std::size_t kept, Sides &sides);
  [[nodiscard]] State state(const Slack &slack) const;

  Deadline deadline_;
  const PartGraph *graph_ = nullptr;
  SizeRange range_;
  std::uint32_t first_size_ = 0; // ranks on side 0
  double cut_ = 0;
  std::vector<float> gain_;
  std::vector<std::uint8_t> moved_;
  std::vector<std::uint32_t> trail_;
  std::array<std::vector<Entry>, 2> heap_;
  std::array<bool, 2> filled_{};
};

} // namespace toposeat
