// Max-min fair rates by progressive filling; the system is described in toposeat/flow.hpp.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/sort_by_key.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// What a column has left, and how many of its variables still grow: two doubles, so that one
/// vector instruction takes a variable out.
struct Room {
  double left = 0;
  double growing = 0;
};

/// Variables are flows, numbered 0..n-1; constraints are directions of links, or both together. All
/// memory is kept from one system to the next.
///
/// A system is built (`reset`, then for each variable `add_variable` and its `add_element`s, then
/// `close`), and then variables are started and finished, with `fill` whenever rates are wanted.
///
/// A filling goes in rounds: the level rises until a constraint is full or a bound is reached,
/// which freezes some variables. A variable that finishes was growing, and stopped nothing, in all
/// rounds before its own: these stay as they are, and filling resumes from the state kept at the
/// beginning of that round. The same holds for a variable that starts, up to the first round that
/// it changes.
class MaxMinSystem {
public:
  /// Both must outlive the object.
  MaxMinSystem(const std::vector<LinkCapacity> &links, const std::vector<double> &pair_limits);

  void reset(std::size_t variables);
  /// Begins the next variable: `volume` bytes that cannot flow before `start`, at most at `cap`.
  void add_variable(double volume, double start, double cap);
  /// The latest variable uses a link in one direction.
  void add_element(const LinkUse &use);
  /// The latest variable shares a pair limit.
  void add_limit(std::size_t limit);
  void close();

  /// No schedule can finish earlier: every variable alone, and every constraint at full capacity.
  [[nodiscard]] double lower_bound() const { return lower_bound_; }

  /// The same of what is left to do from `now` on: so many bytes of each variable.
  [[nodiscard]] double lower_bound_from(double now, std::span<const double> bytes);

  /// Rate that a variable would have alone: `unlimited` if nothing limits it.
  [[nodiscard]] double bound(std::uint32_t variable) const { return bound_[variable]; }

  void start(std::uint32_t variable);
  void finish(std::uint32_t variable);

  /// Computes the rate of every running variable; returns those whose rate has changed.
  std::span<const std::uint32_t> fill();
  [[nodiscard]] double rate(std::uint32_t variable) const { return rate_[variable]; }
  /// Link that stopped the variable's rate from growing in the latest `fill`, or `no_link`.
  [[nodiscard]] std::uint32_t limit(std::uint32_t variable) const { return limit_[variable]; }

private:
  /// One that any variable of this system uses.
  struct Constraint {
    std::uint32_t id = 0; // 3 * link + (0 forward, 1 backward, 2 combined); then pair limits
    double capacity = 0;
    double volume = 0;   // of all its variables, still to come
    double earliest = 0; // start of the first of them
    double demand = 0;   // sum of their bounds
    std::uint32_t users = 0;
    std::uint32_t column = 0; // or no_link if its variables together cannot fill it
  };

  struct Round {
    double level = 0;
    std::size_t first = 0;      // of the variables that it freezes, in order_
    std::size_t next_bound = 0; // at its beginning, in by_bound_
  };

  void use(std::uint32_t id, double capacity);
  [[nodiscard]] std::uint32_t link_of(std::uint32_t id) const;
  void bound_time();
  void choose_columns();
  void list_elements();
  void list_users();
  void list_bounds();

  [[nodiscard]] bool changes(std::uint32_t variable, std::size_t round) const;
  void count(std::uint32_t variable, std::size_t round, bool grows);
  void resume();
  void begin_round(std::size_t frozen_before);
  void settle();
  [[nodiscard]] double smallest_bound();
  void freeze_at_bounds(double level);
  void freeze_at_full_columns(double level);
  void freeze_users(std::uint32_t column, double level);
  void freeze(std::uint32_t variable, double rate, std::uint32_t limit);
  void take_out();
  [[nodiscard]] Room *rooms_at(std::size_t round) {
    return rooms_.data() + round * capacity_.size();
  }
  [[nodiscard]] double smallest_share(std::size_t taken_out);
  [[nodiscard]] std::span<const std::uint32_t> elements(std::uint32_t variable) const {
    const std::uint32_t *first = elements_.data();
    return {first + elements_begin_[variable], first + elements_begin_[variable + std::size_t{1}]};
  }

  const std::vector<LinkCapacity> &links_;
  const std::vector<double> &pair_limits_;
  std::vector<std::uint32_t> local_of_; // number in constraints_ by id, or no_link
  std::vector<Constraint> constraints_;
  std::vector<std::uint32_t> used_begin_, used_; // constraints of each variable

  // Variables.
  std::vector<double> volume_, start_, bound_, rate_;
  std::vector<std::uint32_t> bound_link_, limit_, round_;
  std::vector<std::uint32_t> growing_;     // 0 or 1: as a char it could be part of any other
  std::vector<double> own_bound_;          // as far as no column implies it, else unlimited
  std::vector<std::uint32_t> by_bound_;    // those with an own bound, rising
  std::vector<std::uint32_t> bound_place_; // of a variable in by_bound_, or past its end
  std::vector<std::uint32_t> elements_begin_, elements_; // columns of each variable

  // Columns: the constraints that can be full. rooms_: by round, at its beginning, and by column.
  std::vector<double> capacity_;
  std::vector<std::uint32_t> column_link_;
  std::vector<std::uint32_t> users_begin_, users_end_,
      users_; // finished ones are dropped when seen
  std::vector<Room> rooms_;
  std::vector<double> shares_;      // of what each column has left
  std::vector<std::uint32_t> full_; // columns
  KeySorter sorter_;

  // The filling. Rounds beyond the most that are kept belong to the last one.
  std::vector<Round> rounds_;
  std::vector<std::uint32_t> order_; // variables as they were frozen
  std::vector<std::uint32_t> changed_, reported_;
  std::size_t most_rounds_ = 1;
  std::size_t at_ = 0;        // of rooms_: where the filling is
  std::size_t valid_ = 0;     // rounds that the next filling keeps
  std::size_t unsettled_ = 0; // in order_: from there on not taken out of rooms_ yet
  std::size_t next_bound_ = 0;
  std::size_t to_freeze_ = 0;

  double lower_bound_ = 0;
};

} // namespace toposeat
