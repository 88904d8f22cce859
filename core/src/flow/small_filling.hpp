// Max-min fair rates by progressive filling, as in max_min.hpp, for few flows: sets of them are
// bits, and a round is one pass over the columns.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/lanes.hpp"
#include "base/sort_by_key.hpp"
#include "flow/event_kernel.hpp"
#include "flow/flow_set.hpp"
#include "flow/pair_constraints.hpp"
#include "toposeat/flow/flow.hpp"

namespace toposeat {

/// Used as MaxMinSystem, with the same rates but for rounding: what the flows of a round take of a
/// column is one product here and a sum there, which differ by some 1e-16 of its capacity.
///
/// At most 64 * Words flows, none of which uses a constraint twice. All memory is kept from one
/// system to the next.
template <std::size_t Words> class SmallFilling {
public:
  using Set = FlowSet<Words>;

  /// Must outlive the object.
  explicit SmallFilling(const PairConstraints &constraints) : constraints_(constraints) {}

  /// `bounded`: whether `lower_bound` will be asked for.
  void reset(std::size_t flows, bool bounded);
  /// Adds the next flow: `volume` bytes that cannot flow before `start`, at most at `cap`, and
  /// within what limits its pair, which may be null.
  void add(double volume, double start, double cap, const PairConstraints::Pair *pair);
  void close();

  /// No schedule can finish earlier: every flow alone, and every constraint at full capacity.
  [[nodiscard]] double lower_bound() const { return lower_bound_; }
  /// Rate that a flow would have alone: `unlimited` if nothing limits it.
  [[nodiscard]] double bound(std::uint32_t flow) const { return flows_[flow].bound; }

  void start(const Set &flows);
  void finish(const Set &flows);

  /// What EventKernel::step needs to compute the rate of every running flow. A rate is 0 before
  /// the flow starts, and what it last was when it is finished.
  struct Filling {
    const FillState<Words> &state;
    Set growing;
    std::size_t first; // round
  };
  [[nodiscard]] Filling begin_filling();
  void end_filling(std::size_t rounds) { last_ = valid_ = rounds; }

  /// Until so many seconds later the rates of the latest filling hold. No schedule that goes on
  /// like this finishes earlier than the time returned: every constraint at full capacity from then
  /// on. Only for a bounded system; each moment is to be told of once, in order.
  [[nodiscard]] double lower_bound_after(double seconds);
  /// The same for seconds in which nothing runs.
  void idle(double seconds);

  /// Link that stopped the rate of a flow, which still runs, from growing in the latest filling, or
  /// `no_link`.
  [[nodiscard]] std::uint32_t limit(std::uint32_t flow) const;

private:
  struct Flow {
    double bound = 0;
    double own_bound = 0; // as far as no column implies it, else unlimited
    std::uint32_t bound_link = 0;
    const PairConstraints::Pair *pair = nullptr; // if it has bytes
  };

  /// Of those that PairConstraints knows.
  struct Constraint {
    Set users;
    double demand = 0; // sum of the bounds of its flows
    double capacity = 0;
    double volume = 0;              // of all its flows
    double earliest = unlimited;    // start of the first of them
    std::uint32_t column = no_link; // unless its flows together can fill it

    void clear() {
      users = {};
      demand = 0;
      volume = 0;
      earliest = unlimited;
      column = no_link;
    }
  };

  [[nodiscard]] std::span<const std::uint32_t> touched() const {
    return std::span(touched_).first(touched_count_);
  }
  void know_constraints();
  void add_volume(double volume, double start, const Flow &flow);
  void choose_columns();
  void find_own_bounds();
  void list_kinds();
  [[nodiscard]] bool few_kinds();
  void many_kinds();
  void begin();

  const PairConstraints &constraints_;
  std::vector<Constraint> used_;       // by number in constraints_
  std::vector<std::uint32_t> touched_; // of used_, as they are met
  std::size_t touched_count_ = 0;
  Set stoppable_; // flows that use a column

  std::vector<Flow> flows_;
  std::uint32_t added_ = 0;
  std::vector<BoundKind<Words>> kinds_; // rising
  std::vector<std::uint32_t> bounded_;
  std::vector<double> own_bounds_;
  KeySorter sorter_;

  FillState<Words> state_;
  LaneArray<double> rates_; // by flow
  // By column; users word after word, left_ round after round.
  LaneArray<std::uint64_t> users_;
  LaneArray<double> growing_, shares_, left_, ends_, paces_;
  std::vector<std::uint32_t> column_link_;
  std::vector<FillRound<Words>> rounds_;

  Set running_, filled_;  // of the stoppable ones: now, and in the latest filling
  Set started_;           // since then
  std::size_t last_ = 0;  // rounds of the latest filling
  std::size_t valid_ = 0; // of these, those that no finish has changed
  bool settled_ = true;   // what is left after the last round is known
  bool bounded_time_ = false;
  double lower_bound_ = 0;
};

extern template class SmallFilling<1>;
extern template class SmallFilling<2>;
extern template class SmallFilling<4>;

} // namespace toposeat
