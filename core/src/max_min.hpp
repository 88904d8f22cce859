// Max-min fair rates by progressive filling; the system is described in toposeat/flow.hpp.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toposeat/network.hpp"

namespace toposeat {

/// Variables are flows, numbered 0..n-1; constraints are directions of links, numbered as
/// `constraint_of` says. All memory is kept from one system to the next.
///
/// A system is built (`reset`, then for each variable `add_variable` and its `add_element`s, then
/// `close`), and then variables are started and finished, with `fill` whenever rates are wanted.
class MaxMinSystem {
public:
  explicit MaxMinSystem(const std::vector<LinkCapacity> &links);

  void reset(std::size_t variables);
  /// Begins the next variable: `volume` bytes that cannot flow before `start`, at most at `cap`.
  void add_variable(double volume, double start, double cap);
  /// The latest variable uses a link in one direction.
  void add_element(const LinkUse &use);
  void close();

  /// No schedule can finish earlier: every variable alone, and every constraint at full capacity.
  [[nodiscard]] double lower_bound() const { return lower_bound_; }

  /// Rate that a variable would have alone: `unlimited` if nothing limits it.
  [[nodiscard]] double bound(std::uint32_t variable) const { return bound_[variable]; }

  void start(std::uint32_t variable);
  void finish(std::uint32_t variable);

  /// Computes the rate of every running variable.
  void fill();
  [[nodiscard]] double rate(std::uint32_t variable) const { return rate_[variable]; }
  /// Link that stopped the variable's rate from growing in the latest `fill`, or `no_link`.
  [[nodiscard]] std::uint32_t limit(std::uint32_t variable) const { return limit_[variable]; }

private:
  enum class State : std::uint8_t { idle, growing, frozen };

  struct Constraint {
    std::uint32_t id = 0; // 3 * link + (0 forward, 1 backward, 2 combined)
    double capacity = 0;
    double volume = 0;   // of all its variables
    double earliest = 0; // start of the first of them
    double demand = 0;   // sum of the bounds of those that run
    std::uint32_t users = 0;
    std::uint32_t running = 0;
  };

  void use(std::uint32_t constraint, double capacity);
  void bound_time();
  void list_users();
  void grow_from_zero();
  [[nodiscard]] double smallest_share();
  [[nodiscard]] double smallest_bound();
  void freeze_at_bounds(double level);
  void freeze_at_full_constraints(double level);
  void freeze(std::uint32_t variable, double rate, std::uint32_t limit);
  [[nodiscard]] std::span<const std::uint32_t> elements(std::uint32_t variable) const;

  const std::vector<LinkCapacity> &links_;
  std::vector<std::uint32_t> local_of_; // number in constraints_ by id, or no_link

  // Variables.
  std::vector<double> volume_, start_, bound_, rate_;
  std::vector<std::uint32_t> bound_link_, limit_;
  std::vector<State> state_;
  std::vector<std::uint32_t> by_bound_;
  std::vector<std::uint32_t> elements_begin_, elements_;
  std::size_t next_bound_ = 0;
  std::size_t running_ = 0;

  // Constraints, and while filling: capacity not yet given away, variables that still grow.
  std::vector<Constraint> constraints_;
  std::vector<std::uint32_t> users_begin_, users_;
  std::vector<std::uint32_t> live_;
  std::vector<double> left_;
  std::vector<std::uint32_t> growing_;
  std::size_t to_freeze_ = 0;

  double lower_bound_ = 0;
};

} // namespace toposeat
