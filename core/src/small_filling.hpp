// Max-min fair rates by progressive filling, as in max_min.hpp, for few flows: sets of them are
// bits, and a round is one pass over the columns.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fill_kernel.hpp"
#include "flow_set.hpp"
#include "pair_constraints.hpp"
#include "sort_by_key.hpp"
#include "toposeat/flow.hpp"

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

  void reset(std::size_t flows);
  /// Adds the next flow: `volume` bytes that cannot flow before `start`, at most at `cap`, and
  /// within what limits its pair, which may be null.
  void add(double volume, double start, double cap, const PairConstraints::Pair *pair);
  void close();

  /// No schedule can finish earlier: every flow alone, and every constraint at full capacity.
  [[nodiscard]] double lower_bound() const { return lower_bound_; }
  /// Rate that a flow would have alone: `unlimited` if nothing limits it.
  [[nodiscard]] double bound(std::uint32_t flow) const { return flows_[flow].bound; }

  void start(std::uint32_t flow);
  void finish(std::uint32_t flow);

  /// Computes the rate of every running flow; returns those whose rate has changed.
  std::span<const std::uint32_t> fill();
  [[nodiscard]] double rate(std::uint32_t flow) const { return rates_[flow]; }
  /// Link that stopped the rate of a flow, which still runs, from growing in the latest `fill`, or
  /// `no_link`.
  [[nodiscard]] std::uint32_t limit(std::uint32_t flow) const;

private:
  /// Of those that PairConstraints knows.
  struct Constraint {
    double volume = 0;           // of all its flows
    double demand = 0;           // sum of their bounds
    double earliest = unlimited; // start of the first of them
    Set users;
    double capacity = 0;
    std::uint32_t column = no_link; // unless its flows together can fill it

    void clear() {
      volume = 0;
      demand = 0;
      earliest = unlimited;
      users = {};
      column = no_link;
    }
  };

  struct Flow {
    double volume = 0;
    double bound = 0;
    double own_bound = 0; // as far as no column implies it, else unlimited
    std::uint32_t bound_link = 0;
    const PairConstraints::Pair *pair = nullptr; // if it has bytes
    std::uint32_t kind = 0;                      // of kinds_, if it has an own bound
  };

  /// The flows of one own bound.
  struct Kind {
    double bound = 0;
    Set flows;
  };

  struct Round {
    double level = 0;
    Set frozen_before;
    std::uint32_t next_kind = 0; // at its beginning
  };

  [[nodiscard]] std::span<const std::uint32_t> touched() const {
    return std::span(touched_).first(touched_count_);
  }
  void know_constraints();
  [[nodiscard]] double *left_at(std::size_t round) { return left_.data() + round * columns_; }
  void choose_columns();
  void find_own_bounds();
  void list_kinds();
  [[nodiscard]] bool few_kinds();
  void many_kinds();

  [[nodiscard]] FillColumns<Words> kernel_columns() {
    return {columns_, users_.data(), counts_.data(), counts_before_.data(), shares_.data()};
  }
  void keep_rounds(std::size_t rounds);
  void settle();
  [[nodiscard]] bool changes(const Flow &flow, std::size_t round);
  [[nodiscard]] double smallest_bound(const Set &growing);
  void freeze_at_bounds(Set &growing, double level);
  void freeze(const Set &flows, double rate);

  const PairConstraints &constraints_;
  FillKernel<Words> kernel_ = fill_kernel<Words>();
  std::vector<Constraint> used_;       // by number in constraints_
  std::vector<std::uint32_t> touched_; // of used_, as they are met
  std::size_t touched_count_ = 0;
  Set stoppable_; // flows that use a column

  std::vector<Flow> flows_;
  std::vector<double> rates_;
  std::vector<std::uint32_t> round_; // that froze a flow
  std::vector<Kind> kinds_;          // rising
  std::vector<std::uint32_t> bounded_;
  std::vector<double> own_bounds_;
  KeySorter sorter_;

  // By column; left_: what is left of each at the beginning of a round, round after round.
  std::size_t columns_ = 0;
  std::vector<Set> users_;
  std::vector<double> capacity_, counts_before_, shares_, left_;
  std::vector<std::uint32_t> column_link_;
  std::vector<std::int32_t> counts_;

  Set running_, filled_; // of the stoppable ones: now, and in the latest filling
  std::vector<Round> rounds_;
  std::vector<std::uint32_t> changed_, reported_;
  std::size_t at_ = 0;    // round that is filled
  std::size_t last_ = 0;  // rounds of the latest filling
  std::size_t valid_ = 0; // rounds that the next filling keeps
  bool settled_ = true;   // what is left after the last round is known
  std::uint32_t next_kind_ = 0;
  double lower_bound_ = 0;
};

extern template class SmallFilling<1>;
extern template class SmallFilling<2>;
extern template class SmallFilling<4>;

} // namespace toposeat
