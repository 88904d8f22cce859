// What a walk through few flows computes at every event: rates, and what happens next. Sets of
// flows are bits; what is said of each flow, or of each column, is a lane of vectors.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "flow/flow_set.hpp"

namespace toposeat {

/// One round of a filling.
template <std::size_t Words> struct FillRound {
  double level = 0;
  FlowSet<Words> frozen_before;
  std::size_t next_kind = 0; // at its beginning
};

/// The flows that stop at one bound of their own.
template <std::size_t Words> struct BoundKind {
  double bound = 0;
  FlowSet<Words> flows;
};

/// What a filling reads and writes. Columns are the constraints that can be full; their number is a
/// multiple of `most_lanes`, with columns that no flow uses at the end. All arrays of numbers are
/// in LaneArrays.
template <std::size_t Words> struct FillState {
  std::size_t columns = 0;
  const std::uint64_t *users[Words] = {}; // of each column, word by word
  double *left = nullptr;                 // of each, at the beginning of round after round
  double *growing = nullptr;              // users of each, at the beginning of the latest round
  double *shares = nullptr;               // of each of these in what is left
  double *ends = nullptr;                 // no sooner have all bytes passed each
  const double *paces = nullptr;          // 1 / capacity of each

  const BoundKind<Words> *kinds = nullptr; // rising
  std::size_t kind_count = 0;

  FillRound<Words> *rounds = nullptr;
  double *rates = nullptr; // of each flow

  [[nodiscard]] double *left_at(std::size_t round) const { return left + round * columns; }
};

/// What every flow had left to carry when its rate last changed. One that does not move has no
/// `until` (it is infinite), and its rate does not change.
struct Motions {
  std::size_t flows = 0;
  double *remaining = nullptr; // bytes
  double *since = nullptr;
  double *rate = nullptr;
  double *until = nullptr; // when it finishes at this rate
  double *paces = nullptr; // 1 / the rate that it has alone, for EventKernel::end_alone
};

template <std::size_t Words> struct NextFinish {
  double at = 0;
  FlowSet<Words> flows;   // that finish then; empty if something else comes first
  std::size_t rounds = 0; // of the filling
};

template <std::size_t Words> struct EventKernel {
  using Set = FlowSet<Words>;
  using State = FillState<Words>;

  /// Fills from the beginning of round `first` on, until none of `growing` grows any more (of the
  /// round after the last only `left` is not known then); from `now` on the flows have these rates.
  static NextFinish<Words> step(const State &state, const Set &growing, std::size_t first,
                                const Motions &motions, double now, double next_start);
  /// Completes the state after the last round of the latest filling.
  static void settle(const State &state, std::size_t rounds);
  /// Puts off the `ends` of the columns by what each leaves unused for so many seconds, if of what
  /// is left at the beginning of `round` those that grow then take `level` each. Returns the
  /// latest.
  static double put_off(const State &state, std::size_t round, double level, double seconds);
  /// No flow has moved all its bytes sooner, if each keeps its rate until `now` and has from then
  /// on the one that it has alone. Returns the latest.
  static double end_alone(const Motions &motions, double now);
  /// How many of the first `rounds` stay as they are if `started` start; `running` has them.
  static std::size_t unchanged(const State &state, const Set &running, const Set &started,
                               std::size_t rounds);
  /// Those whose time is not later than `limit`.
  static Set not_later(const double *times, std::size_t flows, double limit);
};

} // namespace toposeat
